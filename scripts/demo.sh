#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
# Make the environment, then show the node serving remote clients and a robot's own topics at once.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

choose_python
choose_ros
if [[ $ROS == none ]]; then
    fail "the demo needs ROS 2: $NO_ROS" \
        'source a ROS 2 installation (Humble or newer) and run this again'
fi
prepare_environment demo
enter_environment

export ROS_LOG_DIR=$ROOT/.demo/ros_log
# Domains above 101 fall among the ports that the kernel hands out.
export ROS_DOMAIN_ID=${ROS_DOMAIN_ID:-$((RANDOM % 101 + 1))}
# The demo's model is too small to share out.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
exec python "$ROOT/scripts/demo.py"
