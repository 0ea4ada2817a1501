#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
# Make the environment, then let the trained policy drive a simulated robot through both doors.
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
if ! can_draw; then
    fail "MuJoCo cannot draw without a display here, and the demo's policy sees by what it draws" \
        "$DRAWING_PACKAGES"
fi

export ROS_LOG_DIR=$ROOT/.demo/ros_log
# Domains above 101 fall among the ports that the kernel hands out.
export ROS_DOMAIN_ID=${ROS_DOMAIN_ID:-$((RANDOM % 101 + 1))}
# The demo's model is too small to share out.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
# So are its images for threads that draw in software.
export LP_NUM_THREADS=${LP_NUM_THREADS:-1}
exec python "$ROOT/scripts/demo.py" "$@"
