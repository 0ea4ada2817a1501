# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The joints that a robot file names: how far and how fast they go, and where they stand at first.

A robot file says of a gripper that is measured at one joint and commanded at another (the fingers
and the motor of ALOHA's) how both read in the policy's units: so the one follows the other.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openpi_policy_ros.configuration.execution import Output
from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.limits import JointLimit, from_parameters, from_urdf
from openpi_policy_ros.errors import ConfigurationError

DEFAULT_SPEED = 2.0
"""Of a joint whose largest speed nobody states, rad/s or m/s."""


@dataclass(frozen=True)
class Joint:
    """One joint. Units: rad and rad/s, m and m/s.

    Attributes:
        lower, upper: where it stops; ±inf = nowhere.
        speed: the most it does.
        home: where it stands at first.

    """

    lower: float
    upper: float
    speed: float
    home: float


@dataclass(frozen=True)
class Linked:
    """A measured joint that moves with a gripper's commanded one.

    Attributes:
        output: gripper.
        index: of its commanded joint.
        scale, offset: position = scale · command + offset.

    """

    output: str
    index: int
    scale: float
    offset: float


def joint_names(robot: RobotConfig) -> tuple[str, ...]:
    """Return every joint: those measured, then those that are only commanded."""
    commanded = [joint for name in robot.output_names for joint in robot.outputs[name].joints]
    return tuple(dict.fromkeys([*robot.joints.names, *commanded]))


def make_joints(
    robot: RobotConfig, *, urdf: str | None = None, home: Mapping[str, float] | None = None
) -> dict[str, Joint]:
    """Return every joint by name.

    It stands in the middle between its limits; one without limits stands where the policy reads 0.

    Args:
        robot: its ``limits`` win over those of the URDF.
        urdf: the robot description; None = there is none.
        home: joint → where it is to stand instead.

    Raises:
        ConfigurationError: ``home`` names no joint, or a place that it cannot reach; the
            description cannot be read.

    """
    names = joint_names(robot)
    wanted = dict(home or {})
    said = from_parameters(robot.limits, robot.joints.names)
    described = {} if urdf is None else from_urdf(urdf, names)
    joints = {
        name: _joint(name, robot, [one[name] for one in (said, described) if name in one])
        for name in names
    }
    problems = []
    for name, place in wanted.items():
        joint = joints.get(name)
        if joint is None:
            close = difflib.get_close_matches(name, names, n=1)
            hint = f'did you mean {close[0]!r}?' if close else f'it has {", ".join(names)}'
            problems.append(f'--home {name}={place}: the robot has no such joint; {hint}')
        elif not joint.lower <= place <= joint.upper:
            problems.append(
                f'--home {name}={place}: expected {joint.lower} to {joint.upper}, its limits'
            )
        else:
            joints[name] = Joint(joint.lower, joint.upper, joint.speed, place)
    if problems:
        raise ConfigurationError('fake robot', problems)
    return joints


def linked_joints(robot: RobotConfig) -> dict[str, Linked]:
    """Return the measured joints that move with a gripper commanded at another joint."""
    order = robot.state_joints()
    commanded = {joint for output in robot.outputs.values() for joint in output.joints}
    links: dict[str, Linked] = {}
    for name in robot.output_names:
        output = robot.outputs[name]
        if not output.is_gripper:
            continue
        columns = zip(output.joints, output.action_indices, strict=True)
        for index, (joint, column) in enumerate(columns):
            measured = order[column] if column < len(order) else ''
            if joint in robot.joints.names or not measured or measured in commanded:
                continue
            scale, offset = _to_policy(output)
            own_scale, own_offset = _scale(robot, measured)
            links[measured] = Linked(
                name, index, scale / own_scale, (offset - own_offset) / own_scale
            )
    return links


def joint_topics(robot: RobotConfig) -> dict[str, dict[str, str]]:
    """Return topic of joint states → joint → its name in the messages there.

    Each joint is on one topic: that with the longest prefix of its name. One that is only commanded
    is left out where no topic can carry it.
    """
    sources = robot.joints.topics()
    topics: dict[str, dict[str, str]] = {topic: {} for topic, _ in sources}
    for name in joint_names(robot) if robot.joints.names else ():
        fitting = [(topic, prefix) for topic, prefix in sources if name.startswith(prefix)]
        if fitting:
            topic, prefix = max(fitting, key=lambda pair: len(pair[1]))
            topics[topic][name] = name.removeprefix(prefix)
    return topics


def _joint(name: str, robot: RobotConfig, said: Sequence[JointLimit]) -> Joint:
    lower = next((one.lower for one in said if one.lower is not None), -math.inf)
    upper = next((one.upper for one in said if one.upper is not None), math.inf)
    speed = next((one.velocity for one in said if one.velocity is not None), DEFAULT_SPEED)
    if not math.isfinite(upper - lower):
        grips = [one for one in robot.outputs.values() if one.is_gripper and name in one.joints]
        unmeasured = name not in robot.joints.names
        scale, offset = _to_policy(grips[0]) if grips and unmeasured else _scale(robot, name)
        home = min(max(-offset / scale, lower), upper)
    else:
        home = (lower + upper) / 2.0
    # Not -0.0, which only looks odd.
    return Joint(lower, upper, speed, home + 0.0)


def _scale(robot: RobotConfig, name: str) -> tuple[float, float]:
    """Return (scale, offset) of a measured joint: policy = scale · position + offset."""
    joints = robot.joints
    if name not in joints.names:
        return 1.0, 0.0
    index = joints.names.index(name)
    scale = joints.scale[index] if joints.scale else 1.0
    return scale, joints.offset[index] if joints.offset else 0.0


def _to_policy(output: Output) -> tuple[float, float]:
    """Return (scale, offset) of a gripper's command: policy = scale · command + offset."""
    if output.threshold is not None:
        assert output.open is not None
        assert output.closed is not None
        # It says only which side of the threshold closes; from 0 to 1 lies on both sides of most.
        scale = 1.0 / (output.closed - output.open)
        offset = -output.open * scale
    else:
        scale = 1.0 if output.scale is None else output.scale
        offset = 0.0 if output.offset is None else output.offset
    return (-scale, 1.0 - offset) if output.invert else (scale, offset)
