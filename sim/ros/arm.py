# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The simulated robot behind controllers, as a robot file names them; without ROS."""

from __future__ import annotations

from typing import Final

import numpy as np

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.limits import from_parameters
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.fake_robot.joints import joint_names, make_joints
from openpi_policy_ros.fake_robot.model import RobotModel
from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.environment import SERVO_STEPS, Environment
from openpi_policy_ros_sim.state import State
from openpi_policy_ros_sim.urdf import FINGER_JOINT, build_urdf

NANOSECONDS: Final = 1_000_000_000
SERVO_RATE: Final = c.CONTROL_RATE * SERVO_STEPS
"""Steps of controllers and physics per simulated second, Hz."""
NAMES: Final = (*c.JOINT_NAMES, FINGER_JOINT)


def check_robot(robot: RobotConfig, source: str) -> None:
    """Refuse a robot file that names what the simulator does not have.

    Args:
        robot: the robot file.
        source: its name, for messages.

    Raises:
        ConfigurationError: every such joint and camera.

    """
    problems = [
        f'cameras.{name}: the simulator has no such camera, it has {", ".join(c.CAMERAS)}'
        for name in robot.camera_names
        if name not in c.CAMERAS
    ]
    unknown = [name for name in joint_names(robot) if name not in NAMES]
    if unknown:
        problems.append(
            f'joints {", ".join(unknown)}: the simulator has none of that name, it has '
            f'{", ".join(NAMES)}'
        )
    problems += [
        f'cameras.{name}: the simulated cameras stand upright and have no margin; leave out crop '
        'and rotate'
        for name in robot.camera_names
        if robot.cameras[name].crop or robot.cameras[name].rotate
    ]
    limit = from_parameters(robot.limits, robot.joints.names).get(FINGER_JOINT)
    if limit is not None and limit.upper is not None and limit.upper > 1.1 * c.STROKE:
        problems.append(
            f'limits.position_max of {FINGER_JOINT} is {limit.upper:g}, but the simulated one runs '
            f'from 0 (open) to {c.STROKE} m (closed): the file is for another gripper; see '
            'sim_droid.yaml for its scale and its commands'
        )
    if robot.safety.interlock_topic:
        problems.append('safety.interlock_topic: the simulator has no interlock')
    if not robot.camera_names or not robot.joints.names:
        problems.append('names no camera or no joint, so there is nothing to drive by')
    if problems:
        raise ConfigurationError(f'simulated robot {source}', problems)


class SimulatedArm:
    """A MuJoCo environment whose drives follow the controllers of a robot file.

    Not for several threads at once. Times are nanoseconds of the robot's clock, which does not go
    back when the scene is reset.

    Attributes:
        environment: steps and draws; stays open.
        model: the controllers; another one after every reset.

    """

    def __init__(self, robot: RobotConfig, environment: Environment, now_ns: int) -> None:
        """Stand where the environment is."""
        self.environment = environment
        self._robot = robot
        self._urdf = build_urdf()
        self.model = self._controllers(environment.state(), now_ns)

    def reset(self, seed: int, now_ns: int) -> State:
        """Put everything where a seed says; the controllers hold the arm there."""
        state = self.environment.reset(seed)
        self.model = self._controllers(state, now_ns)
        return state

    def step(self, now_ns: int) -> None:
        """Run 1/120 s from now on, towards where the controllers want the joints now."""
        targets = self.model.targets(now_ns)
        joints = np.array([targets.get(name, home) for name, home in self._homes.items()])
        self.environment.servo(joints[: c.JOINTS], float(joints[c.JOINTS]))

    def positions(self) -> dict[str, float]:
        """Return where every joint is, rad or m."""
        state = self.environment.state()
        measured = [*state.joint_position.tolist(), state.gripper_position * c.STROKE]
        return dict(zip(NAMES, measured, strict=True))

    def _controllers(self, state: State, now_ns: int) -> RobotModel:
        places = [*state.joint_position.tolist(), state.gripper_position * c.STROKE]
        self._homes = dict(zip(NAMES, places, strict=True))
        known = joint_names(self._robot)
        homes = {name: place for name, place in self._homes.items() if name in known}
        joints = make_joints(self._robot, urdf=self._urdf, home=homes)
        return RobotModel(self._robot, joints, now_ns)
