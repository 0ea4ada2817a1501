#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
# Make the environment and run the whole suite. Arguments go to pytest: scripts/test.sh -k wire
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
choose_python
choose_ros
prepare_environment test
enter_environment
if [[ $ROS == none ]]; then
    say "the tests that need ROS 2 are skipped: $NO_ROS"
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export ROS_LOG_DIR=$scratch/ros_log
# Domains above 101 fall among the ports that the kernel hands out.
export ROS_DOMAIN_ID=${ROS_DOMAIN_ID:-$((RANDOM % 101 + 1))}
# The models of the tests are too small to share out.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
python -m pytest "$@"
