# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The scripts say what is missing and what to do, before they install anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# As the scripts see the interpreter: the same Python, but with one thing changed.
PRETENDING = """#!/usr/bin/env bash
before='{before}'
case $1 in
    -c) exec {python} -c "$before"$'\\n'"$2" ;;
    -) exec {python} <(printf '%s\\n' "$before"; cat) ;;
    -m) mkdir -p "${{!#}}/bin" && ln -s {python} "${{!#}}/bin/python" ;; # -m venv, without pip
    *) exec {python} "$@" ;;
esac
"""


@pytest.fixture
def pretend(tmp_path: Path):
    def pretend(before: str) -> str:
        path = tmp_path / 'python3'
        path.write_text(PRETENDING.format(before=before, python=sys.executable), encoding='utf-8')
        path.chmod(0o755)
        return str(path)

    return pretend


def bash(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ('ROS_DISTRO', 'PYTHON')}
    return subprocess.run(
        ['bash', '-c', f'set -euo pipefail; . scripts/lib.sh; {code}'],
        cwd=ROOT,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_old_python_is_refused_with_its_version(pretend):
    done = bash('choose_python', PYTHON=pretend('import sys; sys.version_info = (3, 9, 2)'))
    assert done.returncode == 1
    assert 'expected 3.10 or newer' in done.stderr


def test_a_python_that_is_not_there_is_named():
    done = bash('choose_python', PYTHON='/nowhere/python3')
    assert done.returncode == 1
    assert '/nowhere/python3 is not there' in done.stderr


def test_a_python_without_venv_names_the_package_to_install(pretend):
    done = bash('choose_python', PYTHON=pretend('import sys; sys.modules["ensurepip"] = None'))
    assert done.returncode == 1
    version = f'{sys.version_info.major}.{sys.version_info.minor}'
    assert f'sudo apt install python{version}-venv' in done.stderr


@pytest.mark.parametrize('kind', ['demo', 'test'])
def test_what_recordings_and_plots_need_is_installed_too(tmp_path, kind):
    told = 'make_venv() { :; }; check_imports() { :; }; can_draw() { :; }; '
    told += 'pip_install() { echo "$*"; }'
    code = f'ROS=none; PYTHON={sys.executable}; {told}; prepare_environment {kind}'
    done = bash(code, OPENPI_VENV=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert f'--editable {ROOT}[record,plot,sim]' in done.stdout
    # Else it would have nothing to install the next time, either.
    assert (tmp_path / f'openpi-stamp-{kind}').is_file()


@pytest.mark.parametrize(
    ('before', 'said'),
    [
        ('import platform; platform.machine = lambda: "aarch64"', 'this is aarch64 Linux'),
        ('import sys; sys.version_info = (3, 15, 0)', 'CPython 3.10 to 3.14'),
        ('import platform; platform.libc_ver = lambda: ("", "")', 'need glibc'),
    ],
)
def test_where_there_are_no_ros_wheels_the_reason_is_known(pretend, before, said):
    done = bash('choose_ros; echo "$ROS: $NO_ROS"', PYTHON=pretend(before))
    assert done.stdout.startswith('none: '), done.stderr
    assert said in done.stdout


def test_the_demo_without_any_ros_refuses_before_it_installs(pretend, tmp_path):
    python = pretend('import platform; platform.machine = lambda: "aarch64"')
    done = bash('exec bash scripts/demo.sh', PYTHON=python, OPENPI_VENV=str(tmp_path / 'venv'))
    assert done.returncode == 1
    assert 'this is aarch64 Linux' in done.stderr
    assert 'source a ROS 2 installation' in done.stderr
    assert not (tmp_path / 'venv').exists()


def test_a_sourced_ros_whose_rclpy_does_not_import_is_told_apart(pretend):
    python = pretend('import sys; sys.modules["rclpy"] = None')
    done = bash('choose_ros', PYTHON=python, ROS_DISTRO='jazzy')
    assert done.returncode == 1
    assert 'ROS 2 jazzy is sourced' in done.stderr


def test_a_sourced_ros_is_used(pretend):
    python = pretend('import sys; sys.modules["rclpy"] = sys')
    done = bash('choose_ros; echo "$ROS"', PYTHON=python, ROS_DISTRO='jazzy')
    assert done.stdout == 'system\n', done.stderr


@pytest.mark.parametrize(
    ('library', 'said'),
    [
        ('libGL.so.1', 'sudo apt install libgl1'),
        ('libgomp.so.1', 'sudo apt install libgomp1'),
        ('libodd.so.7', 'apt-file search libodd.so.7'),
    ],
)
def test_a_missing_system_library_is_named_with_its_package(tmp_path, library, said):
    folder = tmp_path / 'venv' / 'bin'
    folder.mkdir(parents=True)
    (folder / 'activate').write_text('', encoding='utf-8')
    message = f'ImportError: {library}: cannot open shared object file: No such file or directory'
    (folder / 'python').write_text(f'#!/bin/sh\necho "{message}" >&2\nexit 1\n', encoding='utf-8')
    (folder / 'python').chmod(0o755)
    done = bash('ROS=none; check_imports', OPENPI_VENV=str(tmp_path / 'venv'))
    assert done.returncode == 1
    assert f'the system library {library} is missing' in done.stderr
    assert said in done.stderr


def test_the_second_run_installs_nothing(pretend, tmp_path):
    code = """
        pip_install() { echo "would install $1"; }
        choose_python; choose_ros; make_venv
        install_stamp test >"$VENV/openpi-stamp-test"
        prepare_environment test
        echo 'nothing so far'
        prepare_environment demo
    """
    done = bash(code, PYTHON=pretend(''), OPENPI_VENV=str(tmp_path / 'venv'))
    said = done.stdout.splitlines()
    assert said[0] == 'nothing so far', done.stderr
    assert said[1].startswith('would install torch')


def test_an_environment_of_another_python_is_made_anew(pretend, tmp_path):
    venv = tmp_path / 'venv'
    python = pretend('')
    first = bash('choose_ros; make_venv', PYTHON=python, OPENPI_VENV=str(venv))
    assert first.returncode == 0, first.stderr
    (venv / 'openpi-identity').write_text('Python 2.7', encoding='utf-8')
    (venv / 'old').touch()
    second = bash('choose_ros; make_venv', PYTHON=python, OPENPI_VENV=str(venv))
    assert 'making it anew' in second.stderr
    assert not (venv / 'old').exists()


def test_an_environment_of_the_users_own_is_never_removed(tmp_path):
    folder = tmp_path / 'venv' / 'bin'
    folder.mkdir(parents=True)
    (folder / 'python').symlink_to(sys.executable)
    done = bash('choose_python; choose_ros; make_venv', OPENPI_VENV=str(tmp_path / 'venv'))
    assert done.returncode == 0, done.stderr
    assert (folder / 'python').is_symlink()


@pytest.mark.parametrize('backend', ['disable', 'nonsense'])
def test_where_nothing_draws_the_demo_would_know(backend):
    code = f'python() {{ {sys.executable} "$@"; }}; can_draw && echo draws || echo blind'
    done = bash(code, MUJOCO_GL=backend)
    assert done.stdout == 'blind\n', done.stderr
