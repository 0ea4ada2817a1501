# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Enter the environment that install.sh, demo.sh or test.sh made:   . scripts/env.sh
# Sourced by bash or zsh; changes nothing on disk.

_openpi_root=$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")/.." && pwd)
_openpi_venv=${OPENPI_VENV:-$_openpi_root/.venv}
if [ ! -x "$_openpi_venv/bin/python" ]; then
    echo "no environment in $_openpi_venv yet: run scripts/install.sh first" >&2
    return 1
fi
# shellcheck source=/dev/null
. "$_openpi_venv/bin/activate"
if [ -z "${ROS_DISTRO:-}" ]; then
    # The ROS 2 wheels keep their resource index in the environment itself.
    export AMENT_PREFIX_PATH=$_openpi_venv
fi
# Images need larger DDS buffers than the defaults, which lose most of them.
export FASTDDS_DEFAULT_PROFILES_FILE="${FASTDDS_DEFAULT_PROFILES_FILE:-$_openpi_root/config/fastdds_profile.xml}"
case ${ROS_DISTRO:-} in
    humble | iron | jazzy) # Fast DDS 2 knows it by another name, of which 3 warns.
        export FASTRTPS_DEFAULT_PROFILES_FILE="${FASTRTPS_DEFAULT_PROFILES_FILE:-$FASTDDS_DEFAULT_PROFILES_FILE}"
        ;;
esac
# An OpenMP thread that spins while it waits starves the one it waits for as soon as the cores are
# busy with anything else: seconds instead of 60 ms for one inference of a small model.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-PASSIVE}"
unset _openpi_root _openpi_venv
