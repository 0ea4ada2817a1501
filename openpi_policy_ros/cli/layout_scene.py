# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What there is to show of one robot and its node: topics, services and their types."""

from __future__ import annotations

from dataclasses import dataclass

from openpi_policy_ros.configuration.names import ros_name
from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.chunk import JOINT_SPACES
from openpi_policy_ros.control.joints import JointMap
from openpi_policy_ros.errors import ConfigurationError

NODE = 'openpi_policy'


@dataclass(frozen=True)
class View:
    """One picture of a camera.

    Attributes:
        name: in the robot file.
        topic: full.
        compressed: whether it carries ``CompressedImage``.

    """

    name: str
    topic: str
    compressed: bool


class Scene:
    """The names that a node has with a robot file.

    Attributes:
        cameras: in the order of the robot file.
        frame: that everything is seen from.
        frame_prefix: before the names of links in TF.
        joints: of ``~/action_chunk``, in its order; none = it is not published.
        quantity: what ``~/action_chunk`` holds: positions or velocities.
        measured: how many joints the robot file names.
        draws_path: whether the node publishes ``~/planned_path`` where it can.

    Raises:
        ConfigurationError: a namespace that is none.

    """

    def __init__(self, robot: RobotConfig, namespace: str = '', frame: str = 'base_link') -> None:
        """Look at a validated robot file."""
        self._namespace = namespace.strip('/')
        if self._namespace:
            try:
                ros_name(self._namespace)
            except ValueError as error:
                raise ConfigurationError('--namespace', [str(error)]) from None
        self.frame = frame
        self.frame_prefix = robot.visual.frame_prefix
        self.cameras = tuple(
            View(name, self.topic(camera.topic), camera.transport == 'compressed')
            for name, camera in ((name, robot.cameras[name]) for name in robot.camera_names)
        )
        space = robot.profile.action_space
        # Where the robot file leaves it to the policy: what most answer.
        self.quantity = JOINT_SPACES.get(space or 'joint_position', '')
        commanded = JointMap(robot.joints).commanded if self.quantity else ()
        self.joints = tuple(name for name, _ in commanded)
        self.measured = len(robot.joints.names)
        self.draws_path = robot.visual.planned_path

    def topic(self, name: str) -> str:
        """Return the full name of a topic or service, as the node resolves it."""
        for written in ('{namespace}', '{ns}'):
            name = name.replace(written, self._namespace)
        name = name.replace('{node}', NODE)
        if name.startswith('~/'):
            name = f'{NODE}/{name[2:]}'
        elif name.startswith('/'):
            return name
        return f'/{self._namespace}/{name}' if self._namespace else f'/{name}'

    @property
    def title(self) -> str:
        """Return the namespace for headings, or nothing."""
        return f'/{self._namespace}' if self._namespace else ''
