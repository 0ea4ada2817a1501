# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy doctor``: what this machine lacks, and what to do about it."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from openpi_policy_ros.cli.common import add_command, add_file_arguments

WELL, FAILED = 0, 1

DESCRIPTION = """\
Look at everything that serving a policy and driving a robot depend on, and say what to do.

Python and packages, ROS 2, middleware, DDS profile, discovery, a real round trip between two
processes, who publishes the robot file's cameras and joints and who takes its commands, clocks,
GPU, memory, disk, model, port, real-time priority. Within 20 seconds; nothing of it changes the
machine. Works without ROS: what needs it is skipped.

Exit status: 0 nothing fails; 1 something does, or a camera, the joints or an output of the robot
file could not be looked at.
"""
EXAMPLES = """\
examples:
  openpi-policy doctor
  openpi-policy doctor --robot my_robot.yaml --namespace left
  openpi-policy doctor --model ~/checkpoints/pi0_droid --robot droid --device cuda
  openpi-policy doctor --json
"""


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        'doctor',
        summary='tell what this machine lacks and what to do',
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.set_defaults(run=_doctor)
    parser.add_argument('--model', default='', help='a directory, a hub id or a ws:// address')
    add_file_arguments(parser)
    parser.add_argument(
        '--device', default='cpu', help='torch device that the policy is to run on (default: cpu)'
    )
    parser.add_argument(
        '--host', default='127.0.0.1', help='address the server is to bind (default: 127.0.0.1)'
    )
    parser.add_argument('--port', type=int, default=8000, help='its port (default: 8000)')
    parser.add_argument('--namespace', default='', help='namespace of the node (default: none)')
    parser.add_argument('--json', action='store_true', help='print one JSON object')


def _doctor(options: argparse.Namespace) -> int:
    os.environ.setdefault('HF_HUB_DISABLE_PROGRESS_BARS', '1')
    from openpi_policy_ros.configuration.schema import validate
    from openpi_policy_ros.configuration.server import ServerConfig
    from openpi_policy_ros.doctor.asked import Asked, read_robot
    from openpi_policy_ros.doctor.examination import as_json, as_text, examine, wanted_checks
    from openpi_policy_ros.doctor.findings import failed

    server = validate(ServerConfig, {'host': options.host, 'port': options.port}, 'arguments')
    robot, findings = read_robot(options.robot or '')
    asked = Asked(
        robot=robot,
        robot_name=options.robot or '',
        model=options.model,
        policy=options.policy,
        revision=options.revision,
        device=options.device,
        server=server,
        namespace=options.namespace,
        environment=dict(os.environ),
    )
    findings += examine(asked)
    wanted = wanted_checks(asked)
    if options.json:
        print(json.dumps(as_json(findings, wanted), indent=2, ensure_ascii=False))
    else:
        print(as_text(findings))
    return FAILED if failed(findings, wanted) else WELL
