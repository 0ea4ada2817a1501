# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where a robot's links are, computed from its URDF: forward kinematics with NumPy alone."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.control.urdf import SOURCE, mimicked, read_urdf
from openpi_policy_ros.errors import ConfigurationError

Array = npt.NDArray[np.float64]

TURNING = ('revolute', 'continuous')
SLIDING = ('prismatic',)
FIXED = 'fixed'
FREE = ('floating', 'planar')
"""Types of joints whose position is more than one number."""


@dataclass(frozen=True)
class Joint:
    """One joint of a URDF.

    Attributes:
        name, kind, parent, child: as in the URDF.
        rotation, translation: float64 [3, 3] and [3], from the parent link to the joint, m.
        axis: float64 [3], of length 1, in the joint's frame.
        driver: joint whose position moves this one: itself, unless it mimics another.
        multiplier, offset: position = multiplier · position of the driver + offset, rad or m.

    """

    name: str
    kind: str
    parent: str
    child: str
    rotation: Array
    translation: Array
    axis: Array
    driver: str
    multiplier: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class Chain:
    """The joints from the root to one link.

    Attributes:
        root: link that everything is measured from.
        tip: link at the other end.
        joints: from the root to the tip.

    """

    root: str
    tip: str
    joints: tuple[Joint, ...]

    @property
    def drivers(self) -> tuple[str, ...]:
        """Return the joints whose positions tell where the tip is, each once, from the root on."""
        return tuple(dict.fromkeys(one.driver for one in self.joints if one.kind != FIXED))

    def poses(self, positions: Mapping[str, npt.ArrayLike]) -> tuple[Array, Array]:
        """Return where the tip is, seen from the root.

        Args:
            positions: joint → position, rad or m; a number, or arrays that broadcast to one shape
                [...]. Holds every one of ``drivers``.

        Returns:
            (rotation float64 [..., 3, 3], position float64 [..., 3] in m). With numbers alone,
            [3, 3] and [3].

        """
        rotation, place = np.eye(3), np.zeros(3)
        for joint in self.joints:
            place = place + rotation @ joint.translation
            rotation = rotation @ joint.rotation
            if joint.kind == FIXED:
                continue
            moved = joint.multiplier * np.asarray(positions[joint.driver], np.float64)
            moved = moved + joint.offset
            if joint.kind in TURNING:
                rotation = rotation @ about(joint.axis, moved)
            else:
                place = place + (rotation @ joint.axis) * moved[..., None]
        shape = np.broadcast_shapes(rotation.shape[:-2], place.shape[:-1])
        return np.broadcast_to(rotation, (*shape, 3, 3)), np.broadcast_to(place, (*shape, 3))


class KinematicTree:
    """The joints of a URDF, from its root link outwards.

    Attributes:
        root: the link that no joint carries.
        joints: by name.

    Raises:
        ConfigurationError: everything for which this is no tree of joints.

    """

    def __init__(self, text: str) -> None:
        """Read a URDF."""
        urdf = read_urdf(text)
        problems: list[str] = []
        read = [_read(name, element, problems) for name, element in urdf.joints.items()]
        joints = {one.name: one for one in read if one is not None}
        if not problems:
            problems = [
                *_link_problems(joints.values(), urdf.links),
                *_mimic_problems(joints),
            ]
        if problems:
            raise ConfigurationError(SOURCE, problems)
        self.joints: Mapping[str, Joint] = {
            name: _with_driver(joint, joints) for name, joint in joints.items()
        }
        self._carried_by = {joint.child: joint for joint in self.joints.values()}
        self._links = frozenset(urdf.links)
        (self.root,) = self._links.difference(self._carried_by)

    def chain(self, tip: str) -> Chain:
        """Return the joints from the root to a link.

        Raises:
            ConfigurationError: no such link, or a joint on the way is free in more than one number.

        """
        if tip not in self._links:
            raise ConfigurationError(SOURCE, [f'has no link {tip!r}'])
        joints = tuple(self._up(tip))[::-1]
        free = [f'{one.name!r} is {one.kind}' for one in joints if one.kind in FREE]
        if free:
            raise ConfigurationError(
                SOURCE, [f'{", ".join(free)} between {self.root} and {tip}: not one number']
            )
        return Chain(self.root, tip, joints)

    def tips(self, joints: Collection[str]) -> tuple[str, ...]:
        """Return the links at the end of what some joints move.

        That is, behind each of them that carries no other one, the link at the end of its fixed
        joints; where these branch, the link at which they do.

        Args:
            joints: names in ``joints``.

        """
        carriers = {
            above.name
            for name in joints
            for above in self._up(self.joints[name].parent)
            if above.name in joints
        }
        ends = (self.joints[name] for name in self.joints if name in joints)
        return tuple(
            dict.fromkeys(self._end_of_fixed(one.child) for one in ends if one.name not in carriers)
        )

    def _up(self, link: str) -> Iterator[Joint]:
        while link in self._carried_by:
            joint = self._carried_by[link]
            yield joint
            link = joint.parent

    def _end_of_fixed(self, link: str) -> str:
        while True:
            fixed = [
                joint.child
                for joint in self.joints.values()
                if joint.parent == link and joint.kind == FIXED
            ]
            if len(fixed) != 1:
                return link
            (link,) = fixed


def about(axis: Array, angle: Array) -> Array:
    """Return rotations about an axis, float64 [..., 3, 3], by Rodrigues' formula.

    Args:
        axis: float64 [3], of length 1.
        angle: float64 [...], rad.

    """
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    turned = np.asarray(angle)[..., None, None]
    return np.asarray(np.eye(3) + np.sin(turned) * cross + (1.0 - np.cos(turned)) * (cross @ cross))


def from_rpy(roll: float, pitch: float, yaw: float) -> Array:
    """Return Rz(yaw) · Ry(pitch) · Rx(roll), float64 [3, 3]: a URDF's ``rpy``, rad."""
    x, y, z = np.eye(3)
    angles = np.array([yaw, pitch, roll])
    return np.asarray(about(z, angles[0]) @ about(y, angles[1]) @ about(x, angles[2]))


def _read(name: str, element: ElementTree.Element, problems: list[str]) -> Joint | None:
    """Return a joint, or None with what is wrong added to ``problems``; mimics not yet resolved."""
    before = len(problems)
    kind = element.get('type', '')
    if kind not in (*TURNING, *SLIDING, FIXED, *FREE):
        problems.append(f'joint {name!r} has type {kind!r}, which a URDF does not know')
    ends = []
    for part in ('parent', 'child'):
        end = element.find(part)
        ends.append('' if end is None else end.get('link', ''))
        if not ends[-1]:
            problems.append(f'joint {name!r} has no {part} link')
    translation = _three(name, element.find('origin'), 'xyz', (0.0, 0.0, 0.0), problems)
    angles = _three(name, element.find('origin'), 'rpy', (0.0, 0.0, 0.0), problems)
    # What the URDF specification says of one that is left out.
    axis = _three(name, element.find('axis'), 'xyz', (1.0, 0.0, 0.0), problems)
    length = math.hypot(*axis)
    if kind in (*TURNING, *SLIDING) and not length > 0.0:
        problems.append(f'joint {name!r} has the axis {axis}, which points nowhere')
    multiplier, offset = (
        _number(name, element.find('mimic'), key, default, problems)
        for key, default in (('multiplier', 1.0), ('offset', 0.0))
    )
    if len(problems) > before:
        return None
    return Joint(
        name,
        kind,
        ends[0],
        ends[1],
        from_rpy(*angles),
        np.array(translation),
        np.array(axis) / (length or 1.0),
        # A fixed joint stays where it is, whatever it is said to mimic.
        name if kind == FIXED else mimicked(element) or name,
        multiplier,
        offset,
    )


def _three(
    joint: str,
    element: ElementTree.Element | None,
    key: str,
    default: tuple[float, float, float],
    problems: list[str],
) -> tuple[float, float, float]:
    text = None if element is None else element.get(key)
    if element is None or text is None:
        return default
    try:
        x, y, z = (float(part) for part in text.split())
    except ValueError:
        x = y = z = math.nan
    if not all(map(math.isfinite, (x, y, z))):
        problems.append(f'joint {joint!r}: {element.tag} {key}={text!r}, expected three numbers')
    return x, y, z


def _number(
    joint: str, element: ElementTree.Element | None, key: str, default: float, problems: list[str]
) -> float:
    text = None if element is None else element.get(key)
    if element is None or text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        problems.append(f'joint {joint!r}: {element.tag} {key}={text!r}, expected a number')
    return value


def _link_problems(joints: Collection[Joint], links: Sequence[str]) -> list[str]:
    known = set(links)
    problems = [
        f'joint {one.name!r} joins {one.parent!r} and {one.child!r}, but there is no link {end!r}'
        for one in joints
        for end in (one.parent, one.child)
        if end not in known
    ]
    carriers: dict[str, list[str]] = {}
    for one in joints:
        carriers.setdefault(one.child, []).append(one.name)
    problems += [
        f'link {link!r} is the child of {" and ".join(map(repr, names))}, expected one joint'
        for link, names in carriers.items()
        if len(names) > 1
    ]
    roots = [link for link in links if link not in carriers]
    if len(roots) != 1:
        found = ', '.join(map(repr, roots)) or 'none: the joints form a ring'
        problems.append(f'expected one link that no joint carries, found {found}')
    elif not problems and len(_reached(roots[0], joints)) != len(links):
        problems.append('some joints form a ring that does not hang on the root link')
    return problems


def _reached(root: str, joints: Collection[Joint]) -> set[str]:
    children: dict[str, list[str]] = {}
    for one in joints:
        children.setdefault(one.parent, []).append(one.child)
    reached, ahead = {root}, [root]
    while ahead:
        found = children.get(ahead.pop(), [])
        reached.update(found)
        ahead += found
    return reached


def _mimic_problems(joints: Mapping[str, Joint]) -> list[str]:
    problems = []
    for name, joint in joints.items():
        if joint.driver == name:
            continue
        driver = joints.get(joint.driver)
        if driver is None or driver.kind not in (*TURNING, *SLIDING):
            what = 'is not there' if driver is None else f'is {driver.kind}'
            problems.append(f'joint {name!r} mimics {joint.driver!r}, which {what}')
        elif joint.kind in FREE:
            problems.append(f'joint {name!r} mimics {joint.driver!r}, but is {joint.kind}')
    if problems:
        return problems
    for name in joints:
        seen = [name]
        while joints[seen[-1]].driver != seen[-1]:
            seen.append(joints[seen[-1]].driver)
            if seen[-1] in seen[:-1]:
                return [f'joints mimic each other in a ring: {" → ".join(seen)}']
    return []


def _with_driver(joint: Joint, joints: Mapping[str, Joint]) -> Joint:
    """Return a joint whose driver moves by itself."""
    driver, multiplier, offset = joint.name, 1.0, 0.0
    while joints[driver].driver != driver:
        one = joints[driver]
        offset += multiplier * one.offset
        multiplier *= one.multiplier
        driver = one.driver
    return Joint(
        joint.name,
        joint.kind,
        joint.parent,
        joint.child,
        joint.rotation,
        joint.translation,
        joint.axis,
        driver,
        multiplier,
        offset,
    )
