# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the doctor is asked about: a robot file, a model, an address, a namespace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from openpi_policy_ros.configuration.robot import RobotConfig, load_robot
from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.doctor.findings import Finding, fail, ok
from openpi_policy_ros.errors import ConfigurationError


@dataclass(frozen=True)
class Asked:
    """The question.

    Attributes:
        robot: a file that could be read; None = none was named, or it is wrong.
        robot_name: as it was named.
        model: directory, hub id or address; '' = none.
        policy: policy file; None = derived from the model.
        revision: of a hub id.
        device: torch device that the policy is to run on.
        server: where it is to listen.
        namespace: of the node, '' = none.
        environment: of this process.

    """

    robot: RobotConfig | None = None
    robot_name: str = ''
    model: str = ''
    policy: str | None = None
    revision: str | None = None
    device: str = 'cpu'
    server: ServerConfig = field(default_factory=ServerConfig)
    namespace: str = ''
    environment: Mapping[str, str] = field(default_factory=dict)


def read_robot(name: str) -> tuple[RobotConfig | None, list[Finding]]:
    """Return the robot file of that name, and what is to be said of it."""
    if not name:
        return None, []
    try:
        robot = load_robot(name)
    except ConfigurationError as error:
        text = '; '.join(error.problems)
        return None, [fail('robot file', f'{name}: {text}', 'mend it, or name another')]
    parts = (
        f'{len(robot.camera_names)} cameras, {len(robot.joints.names)} joints, '
        f'{len(robot.output_names)} outputs'
    )
    return robot, [ok('robot file', f'{name} is read: {parts}')]
