# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""ROS 2: whether it is here, with the messages of the robot file, and which Python runs the node.

rclpy is imported in a process of its own: one that was built for another Python can crash.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openpi_policy_ros.doctor import children
from openpi_policy_ros.doctor.asked import Asked
from openpi_policy_ros.doctor.findings import Finding, fail, ok, skipped, warn

PATIENCE = 8.0
"""Seconds that importing rclpy may take."""
MESSAGES = (
    'builtin_interfaces',
    'diagnostic_msgs',
    'lifecycle_msgs',
    'rcl_interfaces',
    'sensor_msgs',
    'std_msgs',
    'std_srvs',
    'trajectory_msgs',
)
"""Packages that the node needs whatever the robot is."""
_KINDS = {'std_srvs': 'srv', 'control_msgs': 'action'}
"""What is needed of a package, where it is no messages."""
SUPPORTED = ('humble', 'jazzy', 'kilted', 'rolling')
EXECUTABLE = 'openpi_policy_node'
_MODULES = ('torch', 'pydantic', 'websockets', 'safetensors', 'rclpy')
_SOURCE = 'source /opt/ros/<distro>/setup.bash, or `pip install -r requirements/ros.txt`'


def examine(asked: Asked) -> list[Finding]:
    """Look at the installation."""
    grippers = asked.robot is not None and any(
        output.type == 'gripper' for output in asked.robot.outputs.values()
    )
    wanted = [*MESSAGES, *(['control_msgs'] if grippers else [])]
    answer = children.ask('openpi_policy_ros.doctor.ros_install', wanted, PATIENCE)
    findings = judge(answer, asked.environment)
    script = find_executable(asked.environment)
    if script is not None:
        findings.append(_look_at_script(script))
    return findings


def judge(answer: Mapping[str, Any], environment: Mapping[str, str]) -> list[Finding]:
    """Judge what could be imported.

    Args:
        answer: of ``facts``, or its problem.
        environment: of the doctor.

    """
    distro = environment.get('ROS_DISTRO', '')
    if 'problem' in answer:
        remedy = f'{_SOURCE}; where RMW_IMPLEMENTATION is set, see what is said of rmw'
        return [children.unanswered('ROS', 'rclpy cannot be tried', answer, remedy)]
    if answer['rclpy']:
        built = f'Python {sys.version_info.major}.{sys.version_info.minor}'
        if distro:
            remedy = (
                f'{distro} was built for the Python of its system: make the virtual environment '
                'with that one and --system-site-packages'
            )
            text = f'{distro} is sourced, but rclpy cannot be imported by {built}'
            return [fail('ROS', f'{text}: {answer["rclpy"]}', remedy)]
        text = f'rclpy cannot be imported ({answer["rclpy"]}): the WebSocket server works without'
        return [warn('ROS', text, f'for the node: {_SOURCE}')]
    findings = [_judge_distro(distro)]
    for name, error in answer['missing'].items():
        remedy = f'sudo apt install ros-{distro or "<distro>"}-{name.replace("_", "-")}'
        if not distro:
            remedy = f'pip install ros-{name.replace("_", "-")}, as requirements/ros.txt does'
        findings.append(fail('ROS messages', f'{name} cannot be imported: {error}', remedy))
    if not answer['missing']:
        findings.append(ok('ROS messages', 'all that this node and robot need are here'))
    return findings


def _judge_distro(distro: str) -> Finding:
    if not distro:
        return ok('ROS', 'rclpy is importable; no ROS_DISTRO, so it is that of the wheels')
    if distro not in SUPPORTED:
        text = f'{distro} is sourced; expected one of {", ".join(SUPPORTED)}'
        return warn('ROS', text, 'use a distribution that is tested, or try it and tell')
    return ok('ROS', f'{distro} is sourced and rclpy is importable')


def find_executable(environment: Mapping[str, str]) -> Path | None:
    """Return the script that ``ros2 run`` and launch files start, None = not built."""
    for prefix in environment.get('AMENT_PREFIX_PATH', '').split(os.pathsep):
        path = Path(prefix, 'lib', 'openpi_policy_ros', EXECUTABLE)
        if prefix and path.is_file():
            return path
    return None


def interpreter(script: Path) -> str:
    """Return the interpreter in a script's first line, '' = it has none."""
    with script.open('rb') as file:
        first = file.readline(4096).decode('utf-8', 'replace').strip()
    return first[2:].strip() if first.startswith('#!') else ''


def judge_script(script: Path, python: str, answer: Mapping[str, Any]) -> Finding:
    """Judge who runs the node.

    Args:
        script: started by ``ros2 run``.
        python: the interpreter of its first line.
        answer: ``missing`` modules of that interpreter, or its problem.

    """
    check = 'ros2 run'
    if python.endswith('/env python3'):
        remedy = 'activate the virtual environment before `ros2 run` and `ros2 launch`'
    else:
        remedy = (
            'build this package anew, its setup.cfg writes "/usr/bin/env python3", and activate '
            'the virtual environment before `ros2 run` and `ros2 launch`'
        )
    if 'problem' in answer:
        return children.unanswered(check, f'{script} is run by {python}', answer, remedy)
    if answer['missing']:
        missing = ', '.join(answer['missing'])
        return fail(check, f'{script} is run by {python}, which has no {missing}', remedy)
    return ok(check, f'{EXECUTABLE} is run by {python}, which has all it needs')


def _look_at_script(script: Path) -> Finding:
    python = interpreter(script)
    if not python:
        return skipped('ros2 run', f'{script} names no interpreter')
    code = (
        'import importlib.util as u, json; '
        f'print(json.dumps({{"missing": [n for n in {_MODULES!r} if u.find_spec(n) is None]}}))'
    )
    return judge_script(script, python, children.run([*python.split(), '-c', code], PATIENCE))


def facts(packages: list[str]) -> dict[str, Any]:
    """Return what of rclpy and message packages cannot be imported, and why."""
    modules = {name: f'{name}.{_KINDS.get(name, "msg")}' for name in packages}
    missing = {name: error for name, module in modules.items() if (error := _error(module))}
    return {'rclpy': _error('rclpy'), 'missing': missing}


def _error(module: str) -> str:
    try:
        importlib.import_module(module)
    # A library that is missing or of another ABI raises what it likes.
    except Exception as error:
        return f'{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ""}'
    return ''


if __name__ == '__main__':
    print(json.dumps(facts(sys.argv[1:])))
