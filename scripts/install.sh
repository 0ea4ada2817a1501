#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
# Make the Python environment with everything the node and the server need; run it again at will.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

choose_python
choose_ros
prepare_environment demo
if [[ $ROS == none ]]; then
    say "without ROS 2: $NO_ROS"
    say 'openpi-policy serve works here; openpi_policy_node needs a sourced ROS 2'
fi
say 'enter it with:  . scripts/env.sh'
