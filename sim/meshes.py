# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Draw the robot with meshes that the user has, instead of the primitives of the scene.

The folder is that of mujoco_menagerie: ``franka_emika_panda``, for the gripper ``robotiq_2f85``
beside it. Its meshes are drawn and no more: they have no mass and touch nothing. The primitives
still do, unseen, so that every number of the physics stays what it was.

The Panda's own hand is not drawn: the gripper of the scene is longer and opens wider.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros_sim.linkage import Finger, Rod
from openpi_policy_ros_sim.renderer import mujoco
from openpi_policy_ros_sim.scene import ARM, LINKS, WRIST_CAMERA, build_xml
from openpi_policy_ros_sim.state import Vector

PANDA, ROBOTIQ = 'franka_emika_panda', 'robotiq_2f85'
PANDA_FILES: Final = ('panda.xml', 'panda_nohand.xml')
ROBOTIQ_FILE: Final = '2f85.xml'
DRAWN, UNSEEN = 2, 3
"""Geom groups: MuJoCo draws 0 to 2 unless told otherwise."""

_EXPECTED = f"expected mujoco_menagerie's {PANDA}, or a folder that has it (and {ROBOTIQ})"
_FRANKA = tuple(f'{ARM}{number}' for number in range(len(LINKS) + 1))
_HAND: Final = ('hand', 'left_finger', 'right_finger')
# At our +y is what they call right.
_SIDES: Final = {'right': ('left_finger', 1), 'left': ('right_finger', -1)}
_TURNING: Final = ('driver', 'coupler', 'spring_link')
_SLIDING: Final = ('follower', 'pad', 'silicone_pad')
_PAD_AT = np.array([0.0, 0.0493, 0.1227])
"""Their open pad from the flange, m: 42.7 mm from the middle to its face, its tip at 160 mm."""
_REACH = np.array([0.0, 0.037, 0.044])
"""From pin to pin of their inner rods when open, m."""
_BASE_AT = np.array([0.0, 0.0, 0.0108])
"""Their housing from the flange, m; which way the plate between is turned, differs by version."""
_UNTURNED = np.array([1.0, 0.0, 0.0, 0.0])
_TOLERANCE_M = 0.002
_TOLERANCE_RAD = 0.01


@dataclass(frozen=True)
class Material:
    """How a surface looks; ``rgba`` from 0 to 1."""

    rgba: tuple[float, ...]
    specular: float = 0.5
    shininess: float = 0.5


@dataclass(frozen=True)
class Picture:
    """One mesh on a body of the scene.

    Attributes:
        name: of its geom.
        body: of the scene, which it moves with.
        file: OBJ, STL or MSH.
        scale: [3].
        frame: position [3] and quaternion [4] that the file's coordinates are taken from.
        position: [3] in m, in the body's frame.
        quaternion: [4], w first.
        material: how it looks.

    """

    name: str
    body: str
    file: Path
    scale: Vector
    frame: tuple[Vector, Vector]
    position: Vector
    quaternion: Vector
    material: Material


@dataclass(frozen=True)
class Meshes:
    """What a folder has for the robot of the scene.

    Attributes:
        folder: where it was read.
        pictures: meshes of all links.
        fingers: with rods that turn, none where the gripper is the scene's own.

    """

    folder: Path
    pictures: tuple[Picture, ...]
    fingers: tuple[Finger, ...] = ()

    def model(self) -> Any:
        """Return the scene as a compiled model, drawn with these meshes.

        Raises:
            ConfigurationError: MuJoCo cannot read one of them.

        """
        spec = mujoco.MjSpec.from_string(build_xml())
        for name in dict.fromkeys(picture.body for picture in self.pictures):
            for geom in spec.body(name).geoms:
                if geom.name not in WRIST_CAMERA:
                    geom.group = UNSEEN
        materials: dict[Material, str] = {}
        files: dict[Path, str] = {}
        for picture in self.pictures:
            look = materials.setdefault(picture.material, f'mesh{len(materials)}')
            if spec.material(look) is None:
                spec.add_material(
                    name=look,
                    rgba=picture.material.rgba,
                    specular=picture.material.specular,
                    shininess=picture.material.shininess,
                )
            shape = files.setdefault(picture.file, picture.name)
            if shape == picture.name:
                spec.add_mesh(
                    name=shape,
                    file=str(picture.file),
                    scale=picture.scale,
                    refpos=picture.frame[0],
                    refquat=picture.frame[1],
                    # Unlike the volume's it exists for open and flat meshes, too.
                    inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL,
                )
            spec.body(picture.body).add_geom(
                spec.find_default('picture'),
                name=picture.name,
                type=mujoco.mjtGeom.mjGEOM_MESH,
                meshname=shape,
                material=look,
                group=DRAWN,
                contype=0,
                conaffinity=0,
                mass=0.0,
                pos=picture.position,
                quat=picture.quaternion,
            )
        try:
            return spec.compile()
        except (ValueError, mujoco.FatalError) as error:
            raise ConfigurationError(f'meshes {self.folder}', [_told(error)]) from error


@dataclass
class _Part:
    """A body of theirs: where it is from its root, and from its parent."""

    name: str
    parent: str
    position: Vector
    quaternion: Vector
    own: tuple[Vector, Vector]
    geoms: list[Any] = field(default_factory=list)
    # Joint's position from the root; of the last joint, theirs have one at most.
    joint: Vector | None = None


class _File:
    """A MJCF file of theirs; what is wrong with it goes into ``problems``."""

    def __init__(self, path: Path, problems: list[str]) -> None:
        self.path, self.problems = path, problems
        self.parts: dict[str, _Part] = {}
        try:
            self._spec = mujoco.MjSpec.from_file(str(path))
        except (ValueError, mujoco.FatalError) as error:
            problems.append(f'{path.name}: {_told(error)}')
            return
        self._meshes = {mesh.name or Path(mesh.file).stem: mesh for mesh in self._spec.meshes}
        for body in self._spec.worldbody.bodies:
            self._add(body, np.zeros(3), _UNTURNED)

    def refuse_others(self, known: set[str]) -> None:
        """Refuse bodies with meshes that nobody knows a place for, and missing ones."""
        if not self.parts:
            return
        self.problems += [
            f'{self.path.name}: {name} has a mesh, but the robot of the scene has no such link'
            for name, part in self.parts.items()
            if part.geoms and name not in known
        ]

    def part(self, name: str) -> _Part | None:
        """Return a body that has to have meshes."""
        part = self.parts.get(name)
        if self.parts and (part is None or not part.geoms):
            what = 'has no body' if part is None else 'has no mesh to draw on'
            self.problems.append(f'{self.path.name}: {what} {name}')
            return None
        return part

    def rebase(self, part: _Part, position: Vector) -> None:
        """Count all poses from a part which has this position there and is not turned."""
        origin, back = part.position, part.quaternion * (1, -1, -1, -1)
        for each in self.parts.values():
            if each.joint is not None:
                each.joint = _after(position, back, each.joint - origin, _UNTURNED)[0]
            each.position, each.quaternion = _after(
                position, back, each.position - origin, each.quaternion
            )

    def pictures(
        self, part: _Part, body: str, position: Vector, quaternion: Vector
    ) -> Iterator[Picture]:
        """Yield what is drawn of a part that has this pose in the frame of a body of the scene."""
        for number, geom in enumerate(part.geoms):
            mesh = self._meshes.get(geom.meshname)
            if mesh is None:
                self.problems.append(
                    f'{self.path.name}: {part.name} has mesh {geom.meshname!r}, which is not among '
                    'the assets'
                )
                continue
            file = (self.path.parent / self._spec.meshdir / mesh.file).resolve()
            if not file.is_file():
                self.problems.append(f'{self.path.name}: {file} is missing (of {part.name})')
                continue
            place, turn = _after(position, quaternion, geom.pos, geom.quat)
            yield Picture(
                f'{self.path.stem}/{part.name}/{number}',
                body,
                file,
                np.array(mesh.scale),
                (np.array(mesh.refpos), np.array(mesh.refquat)),
                place,
                turn,
                self._material(geom),
            )

    def _material(self, geom: Any) -> Material:
        named = self._spec.material(geom.material) if geom.material else None
        if named is None:
            return Material(tuple(geom.rgba.tolist()))
        return Material(tuple(named.rgba.tolist()), float(named.specular), float(named.shininess))

    def _add(self, body: Any, position: Vector, quaternion: Vector, parent: str = '') -> None:
        quat = mujoco.mjtOrientation.mjORIENTATION_QUAT
        geoms = [
            geom
            for geom in body.geoms
            if geom.type == mujoco.mjtGeom.mjGEOM_MESH and not geom.contype and not geom.conaffinity
        ]
        self.problems += [
            f'{self.path.name}: {body.name} is turned by angles or axes, expected quaternions'
            for thing in (body, *geoms)
            if thing.alt.type != quat
        ]
        place, turn = _after(position, quaternion, body.pos, body.quat)
        part = _Part(body.name, parent, place, turn, (body.pos.copy(), body.quat.copy()), geoms)
        for joint in body.joints:
            part.joint = _after(place, turn, joint.pos, _UNTURNED)[0]
        self.parts[body.name] = part
        for child in body.bodies:
            self._add(child, place, turn, body.name)


def read_meshes(folder: str | Path) -> Meshes:
    """Read which meshes there are for the robot, and where each belongs.

    Args:
        folder: mujoco_menagerie's ``franka_emika_panda``; or one that has it, where
            ``robotiq_2f85`` is taken for the gripper if it is there.

    Raises:
        ConfigurationError: there is no such folder, or not that in it; a file is missing; a link is
            unknown, lacks a mesh or is somewhere else than in the scene. All of it at once.

    """
    root = Path(folder).expanduser()
    source = f'meshes {root}'
    if not root.is_dir():
        what = 'is a file' if root.exists() else 'no such folder'
        raise ConfigurationError(source, [f'{what}; {_EXPECTED}'])
    candidates = [place / name for place in (root, root / PANDA) for name in PANDA_FILES]
    panda = next((file for file in candidates if file.is_file()), None)
    if panda is None:
        raise ConfigurationError(
            source,
            [f'has neither {" nor ".join(PANDA_FILES)}, nor {PANDA}/ with them; {_EXPECTED}'],
        )
    problems: list[str] = []
    pictures = _arm(_File(panda, problems))
    fingers: tuple[Finger, ...] = ()
    if (root / ROBOTIQ).is_dir():
        file = root / ROBOTIQ / ROBOTIQ_FILE
        if file.is_file():
            gripper, fingers = _gripper(_File(file, problems))
            pictures += gripper
        else:
            problems.append(f'{ROBOTIQ}/ has no {ROBOTIQ_FILE}')
    if problems:
        raise ConfigurationError(source, problems)
    return Meshes(root, tuple(pictures), fingers)


def _arm(file: _File) -> list[Picture]:
    """Return the arm's pictures; each link has to be where the scene has it."""
    file.refuse_others({*_FRANKA, *_HAND})
    result: list[Picture] = []
    for number, name in enumerate(_FRANKA):
        part = file.part(name)
        if part is None:
            continue
        if number:
            link = LINKS[number - 1]
            wanted = _vector(link.position), _vector(link.quaternion)
            if part.parent != _FRANKA[number - 1] or _apart(part.own, wanted):
                file.problems.append(
                    f'{file.path.name}: {name} is at {part.own[0].tolist()}, turned by '
                    f'{part.own[1].tolist()}, from {part.parent or "the world"}; expected '
                    f'{wanted[0].tolist()}, {wanted[1].tolist()} from {_FRANKA[number - 1]}'
                )
        result += file.pictures(part, name, np.zeros(3), _UNTURNED)
    return result


def _gripper(file: _File) -> tuple[list[Picture], tuple[Finger, ...]]:
    """Return the gripper's pictures and its fingers; its flange is ours."""
    moving = [f'{side}_{name}' for side in _SIDES for name in (*_TURNING, *_SLIDING)]
    bodies = dict.fromkeys(('base_mount', 'base'), 'gripper')
    bodies |= {name: _SIDES[name.partition('_')[0]][0] for name in moving}
    file.refuse_others(set(bodies))
    found = {name: part for name in bodies if (part := file.part(name)) is not None}
    if len(found) < len(bodies):
        return [], ()
    file.rebase(found['base'], _BASE_AT)
    pictures = [
        picture
        for name, part in found.items()
        for picture in file.pictures(part, bodies[name], part.position, part.quaternion)
    ]
    fingers = []
    for side, (joint, sign) in _SIDES.items():
        pad, follower, link = (
            found[f'{side}_{name}'] for name in ('pad', 'follower', 'spring_link')
        )
        wanted = _PAD_AT * (1, sign, 1)
        if np.abs(pad.position - wanted).max() > _TOLERANCE_M:
            file.problems.append(
                f'{file.path.name}: {pad.name} is at {pad.position.round(4).tolist()} from the '
                f'flange, expected {wanted.tolist()}, where the finger of the scene is'
            )
        if follower.joint is None or link.joint is None:
            file.problems.append(f'{file.path.name}: {follower.name} or {link.name} has no joint')
            continue
        reach = (follower.joint - link.joint) * (1, sign, 1)
        if np.abs(reach - _REACH).max() > _TOLERANCE_M:
            file.problems.append(
                f'{file.path.name}: {link.name} spans {reach.round(4).tolist()} m from pin to pin, '
                f'expected {_REACH.tolist()}'
            )
        # The coupler ends at the follower's origin; it and the driver turn as one.
        pins = {'spring_link': follower.joint}
        rods = tuple(
            Rod(picture.name, pins.get(name, follower.position))
            for name in _TURNING
            for picture in pictures
            if picture.name.split('/')[1] == f'{side}_{name}'
        )
        fingers.append(Finger(joint, sign, (float(reach[1]), float(reach[2])), rods))
    return pictures, tuple(fingers)


def _after(position: Any, quaternion: Any, then: Any, turn: Any) -> tuple[Vector, Vector]:
    """Return the pose that a pose has within another, its quaternion normalised."""
    place, product = np.empty(3), np.empty(4)
    mujoco.mju_rotVecQuat(place, np.asarray(then, float), np.asarray(quaternion, float))
    mujoco.mju_mulQuat(product, np.asarray(quaternion, float), _unit(turn))
    return position + place, product


def _apart(one: tuple[Vector, Vector], other: tuple[Vector, Vector]) -> bool:
    """Return whether two poses differ by more than rounding does."""
    along = min(1.0, abs(float(_unit(one[1]) @ _unit(other[1]))))
    return bool(
        np.abs(one[0] - other[0]).max() > _TOLERANCE_M or 2 * np.arccos(along) > _TOLERANCE_RAD
    )


def _unit(quaternion: Any) -> Vector:
    values = np.asarray(quaternion, float)
    return values / np.linalg.norm(values)


def _vector(text: str) -> Vector:
    return np.array([float(word) for word in text.split()])


def _told(error: Exception) -> str:
    return ' '.join(str(error).split())
