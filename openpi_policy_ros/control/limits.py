# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What each joint may be commanded, from parameters and from the URDF."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.configuration.execution import Limits
from openpi_policy_ros.control.axes import Axes
from openpi_policy_ros.control.urdf import mimicked, read_urdf

MOVING = ('revolute', 'prismatic', 'continuous')
"""Types of joints that one number commands."""


@dataclass(frozen=True)
class JointLimit:
    """What one source says of one joint. Units: rad and rad/s, m and m/s of a prismatic joint.

    Attributes:
        lower, upper: positions; ±inf = turns without end; None = the source does not say.
        velocity: largest speed; None = the source does not say.
        why: why it does not say something; '' = it says all.

    """

    lower: float | None = None
    upper: float | None = None
    velocity: float | None = None
    why: str = ''


@dataclass(frozen=True)
class JointLimits:
    """Limits of every axis, in the order of the axes.

    Attributes:
        lower, upper: float64 [N]; ±inf = no limit.
        velocity: float64 [N], above 0; inf = no limit.

    Raises:
        ValueError: NaN, lower limits that are not below the upper ones, velocities not above 0,
            or different lengths.

    """

    lower: npt.NDArray[np.float64]
    upper: npt.NDArray[np.float64]
    velocity: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        """Refuse limits that would let anything pass."""
        if not self.lower.shape == self.upper.shape == self.velocity.shape:
            raise ValueError(
                f'lower, upper and velocity have shapes {self.lower.shape}, {self.upper.shape} '
                f'and {self.velocity.shape}, expected one number for each axis'
            )
        # NaN compares false, so both ask for what is right instead of what is wrong.
        if not (self.lower < self.upper).all():
            raise ValueError(f'lower {self.lower} must be below upper {self.upper}')
        if not (self.velocity > 0.0).all():
            raise ValueError(f'velocity must be above 0, found {self.velocity}')


def from_parameters(limits: Limits, names: Sequence[str]) -> dict[str, JointLimit]:
    """Return what the robot file's ``limits`` say of each of its ``joints.names``."""
    silent = 'limits.position_min, position_max and velocity do not say all'
    whole = bool(limits.position_min and limits.velocity)
    return {
        name: JointLimit(
            limits.position_min[index] if limits.position_min else None,
            limits.position_max[index] if limits.position_max else None,
            limits.velocity[index] if limits.velocity else None,
            '' if whole else silent,
        )
        for index, name in enumerate(names)
    }


def from_urdf(text: str, names: Sequence[str]) -> dict[str, JointLimit]:
    """Return what a robot description says of some joints.

    Only ``<limit>`` counts, not the narrower ``<safety_controller>``.

    Raises:
        ConfigurationError: it is no URDF, see ``urdf.read_urdf``.

    """
    joints = read_urdf(text).joints
    return {
        name: _read(joints[name])
        if name in joints
        else JointLimit(why='the URDF has no such joint')
        for name in names
    }


def make_limits(axes: Axes, *sources: Mapping[str, JointLimit]) -> tuple[JointLimits, list[str]]:
    """Return the limits of every axis, and what is wrong with them.

    Args:
        axes: what is commanded.
        sources: by joint; an earlier one wins, number by number (parameters before the URDF).

    Returns:
        (limits, without those that nobody states; a problem for each axis that lacks some it
        needs: a velocity limit, and positions if it is commanded by position. Grippers need none).
        With problems, nothing may move.

    """
    problems = []
    columns = np.full((3, len(axes)), [[-math.inf], [math.inf], [math.inf]])
    for axis, name in enumerate(axes.names):
        said = [source[name] for source in sources if name in source]
        lower = _first(one.lower for one in said)
        upper = _first(one.upper for one in said)
        velocity = _first(one.velocity for one in said)
        missing = []
        if axes.position[axis] and (lower is None or upper is None):
            missing.append('position')
        if velocity is None:
            missing.append('velocity')
        if missing and not axes.gripper[axis]:
            why = '; '.join(dict.fromkeys(one.why for one in said if one.why)) or 'nobody states it'
            problems.append(f'{name}: no {" and no ".join(missing)} limit ({why})')
        if lower is not None and upper is not None:
            if lower < upper:
                columns[:2, axis] = lower, upper
            else:
                problems.append(f'{name}: the positions {lower} to {upper} are no range')
        if velocity is not None:
            columns[2, axis] = velocity
    return JointLimits(*columns), problems


def _first(values: Iterable[float | None]) -> float | None:
    return next((value for value in values if value is not None), None)


def _read(joint: ElementTree.Element) -> JointLimit:
    kind = joint.get('type', '')
    if kind not in MOVING:
        return JointLimit(why=f'the URDF has it {kind or "without type"}')
    master = mimicked(joint)
    if master is not None:
        return JointLimit(why=f'the URDF has it mimic {master or "another"}')
    limit = joint.find('limit')
    endless = kind == 'continuous'
    if limit is None:
        why = 'the URDF has no <limit> for it'
        return JointLimit(-math.inf, math.inf, why=why) if endless else JointLimit(why=why)
    wrong: list[str] = []
    velocity = _number(limit, 'velocity', '', wrong)
    if velocity is not None and velocity <= 0.0:
        wrong.append(f'velocity {velocity}')
        velocity = None
    if endless:
        return JointLimit(-math.inf, math.inf, velocity, _why(wrong))
    # 0 is what the URDF specification says of a bound that is left out.
    lower, upper = _number(limit, 'lower', '0', wrong), _number(limit, 'upper', '0', wrong)
    if lower is not None and upper is not None and lower >= upper:
        wrong.append(f'lower {lower} and upper {upper}')
        lower = upper = None
    if lower is None or upper is None:
        lower = upper = None
    return JointLimit(lower, upper, velocity, _why(wrong))


def _why(wrong: Sequence[str]) -> str:
    return f'its <limit> in the URDF has {", ".join(wrong)}' if wrong else ''


def _number(limit: ElementTree.Element, name: str, default: str, wrong: list[str]) -> float | None:
    """Return a finite number, or None with what is there instead added to ``wrong``."""
    text = limit.get(name, default)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value):
        return value
    wrong.append(f'{name} {text!r}' if text else f'no {name}')
    return None
