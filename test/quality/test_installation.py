# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The package installs with pip where there is no ROS, and with colcon where ROS looks."""

from __future__ import annotations

import os
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

NAME = 'openpi_policy_ros'
ROOT = Path(__file__).resolve().parents[2]
# Imported at the start of the fresh environment's Python: no ROS on this machine.
NO_ROS = """
import sys

class NoRos:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in ('rclpy', 'sensor_msgs', 'std_msgs', 'rcl_interfaces'):
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)

sys.meta_path.insert(0, NoRos())
"""


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob('*') if path.is_file()}


@pytest.fixture
def venv_without_ros(tmp_path: Path) -> Path:
    """Return a fresh environment that sees this one's packages, but neither ROS nor ours."""
    folder = tmp_path / 'venv'
    venv.create(folder, with_pip=False)  # pip is among the packages it sees
    (site,) = folder.glob('lib/python*/site-packages')
    (site / 'no_ros.py').write_text(NO_ROS, encoding='utf-8')
    not_packages = (str(ROOT), sysconfig.get_path('stdlib'), sysconfig.get_path('platstdlib'))
    packages = [
        path
        for path in sys.path
        if 'site-packages' in path or not path.startswith(not_packages)
        if Path(path).is_dir()
    ]
    (site / 'outside.pth').write_text('\n'.join(['import no_ros', *packages]), encoding='utf-8')
    return folder


def test_pip_installs_and_the_server_needs_no_ros(
    venv_without_ros, source_copy, tmp_path, run, plain_environment
):
    python = venv_without_ros / 'bin' / 'python'
    environment = {k: v for k, v in plain_environment.items() if not k.startswith('PYTHON')}
    options = ['--no-deps', '--no-build-isolation', '--no-index', '--quiet']
    run(
        [python, '-m', 'pip', 'install', *options, source_copy],
        cwd=tmp_path,
        env=environment,
    )

    def ask(code: str) -> str:
        return run([python, '-c', code], cwd=tmp_path, env=environment).strip()

    assert str(venv_without_ros) in ask(f'import {NAME}; print({NAME}.__file__)')
    config = Path(ask(f'from {NAME}.configuration import files; print(files.config_directory())'))
    assert config.is_relative_to(venv_without_ros)
    assert {
        'pi0.yaml',
        'droid.yaml',
        'fastdds_profile.xml',
        'rviz/openpi_policy.rviz',
        'foxglove/openpi_policy.json',
    } <= files_below(config)
    assert 'pi0' in ask(f'from {NAME}.policies import registry; print(registry.names())')
    checkpoint = Path(ask(f'from {NAME}.policies import named_models as m; print(m.find("demo"))'))
    assert checkpoint.is_relative_to(venv_without_ros)
    assert files_below(checkpoint) == files_below(source_copy / 'sim' / 'checkpoint')
    assert ask(f'import {NAME}.cli, sys; print("rclpy" in sys.modules)') == 'False'
    said = run(
        [venv_without_ros / 'bin' / 'openpi-policy', '--help'], cwd=tmp_path, env=environment
    )
    assert 'serve' in said
    assert 'make-checkpoint' in said


def test_colcon_installs_where_ros2_run_and_launch_look(
    source_copy, tmp_path, run, tool, plain_environment
):
    environment = {
        **plain_environment,
        'COLCON_HOME': str(tmp_path / 'home'),
        'COLCON_LOG_PATH': str(tmp_path / 'log'),
        'AMENT_PREFIX_PATH': '',
    }
    workspace = ['--base-paths', source_copy]
    listed = run([tool('colcon'), 'list', *workspace], cwd=tmp_path, env=environment)
    assert listed.split() == [NAME, str(source_copy), '(ros.ament_python)']

    install = tmp_path / 'install'
    folders = ['--build-base', tmp_path / 'build', '--install-base', install]
    run([tool('colcon'), 'build', *workspace, *folders], cwd=tmp_path, env=environment)
    prefix = install / NAME
    for name in ('openpi_policy_node', 'openpi-policy'):
        script = prefix / 'lib' / NAME / name
        assert os.access(script, os.X_OK)
        # Else it runs on colcon's Python, which need not be the one that has torch.
        assert script.read_text(encoding='utf-8').startswith('#!/usr/bin/env python3\n')
    share = prefix / 'share'
    assert (share / 'ament_index' / 'resource_index' / 'packages' / NAME).is_file()
    for name in ('package.xml', 'launch/serve.launch.py', 'config/pi0.yaml', 'config/droid.yaml'):
        assert (share / NAME / name).is_file()
    shipped = files_below(source_copy / 'config')
    assert files_below(share / NAME / 'config') == shipped
    (packages,) = prefix.glob('lib/python*/site-packages')
    assert files_below(packages / NAME / 'config') >= shipped
    checkpoint = files_below(source_copy / 'sim' / 'checkpoint')
    assert 'tokenizer/tokenizer.json' in checkpoint
    assert files_below(packages / f'{NAME}_sim' / 'checkpoint') == checkpoint
