# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a server is sent and what of its answer is executed: from its handshake and a robot file.

The two have to agree, and the simulator has to have what they ask for; else everything that is in
the way is said at once, before anything moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from openpi_policy_ros.client.trial import EXTERNAL, WRIST
from openpi_policy_ros.configuration.robot import STATE_FEATURES, Profile, RobotConfig, load_robot
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.environment import ACTION_SPACES
from openpi_policy_ros_sim.episodes import View
from openpi_policy_ros_sim.privileged import POSES, PRIVILEGED_KEYS

NO_ROBOT: Final = 'none'
"""Instead of a robot file: the names of LeRobot's pi0_base."""
NATIVE: Final = (720, 1280)
"""Height and width of DROID's cameras."""
USUAL: Final = (224, 224)
"""What OpenPI clients send where a handshake has no ``image_resolution``."""
HORIZON, STACK_HORIZON = 8, 24
_EXTERIOR: Final = ('exterior_1', 'exterior_2')
_LARGEST: Final = 1920
# RoboArena counts cameras from 0, and sends a pose of the hand that its policies do not read.
_ZERO_BASED: Final = 'observation/exterior_image_0_left'
_UNREAD: Final = {'observation/cartesian_position': 6}
_KNOWN_NEEDS: Final = ('needs_wrist_camera', 'needs_stereo_camera', 'needs_session_id')


@dataclass(frozen=True)
class Plan:
    """What a request holds, and how its answer is executed.

    Attributes:
        robot: name of the robot file.
        prompt_key: key of the instruction.
        images: key → how to look.
        layout: HWC or CHW.
        colour_order: RGB or BGR.
        state: key → which of the eight numbers (seven angles, the gripper) it holds.
        zeros: key → how many zeros it holds.
        poses: keys of ``privileged.POSES`` to send.
        session_id: whether an episode is named.
        commands: whether requests say ``endpoint``.
        action_space: of the answer.
        horizon: rows that are executed before it asks again.
        offsets: images of each camera, in actions from the newest; (0,) = that alone, without a
            leading axis.
        crop: whether an answer may have more than eight columns, of which the first are executed.

    """

    robot: str
    prompt_key: str
    images: Mapping[str, View]
    layout: str
    colour_order: str
    state: Mapping[str, slice]
    zeros: Mapping[str, int]
    poses: tuple[str, ...]
    session_id: bool
    commands: bool
    action_space: str
    horizon: int
    offsets: tuple[int, ...] = (0,)
    crop: bool = False

    @property
    def stacked(self) -> bool:
        """Return whether images have a leading time axis."""
        return self.offsets != (0,)

    def contents(self) -> dict[str, str]:
        """Return key → what is sent under it, for people."""
        told = {key: self._image(view) for key, view in self.images.items()}
        for key, part in self.state.items():
            count = part.stop - part.start
            what = 'gripper, 0 open to 1 closed' if part.start == c.JOINTS else 'angles in rad'
            if part == slice(0, c.ACTION_DIM):
                what = 'seven angles in rad and the gripper'
            told[key] = f'float32 [{count}], {what}'
        told |= {key: f'float32 [{count}], zeros' for key, count in self.zeros.items()}
        told |= dict.fromkeys(self.poses, 'float32 [7], a pose no real robot knows')
        told[self.prompt_key] = 'the instruction'
        if self.session_id:
            told['session_id'] = 'a new one for each episode'
        return told

    def execution(self) -> str:
        """Return how answers are executed, for people."""
        return f'{self.horizon} rows of each chunk as {self.action_space}'

    def described(self) -> dict[str, Any]:
        """Return it for the file of results."""
        return {
            'robot': self.robot,
            'keys': self.contents(),
            'action_space': self.action_space,
            'horizon': self.horizon,
            'frame_offsets': list(self.offsets),
            'crop_columns': self.crop,
        }

    def _image(self, view: View) -> str:
        height, width = view.frame or (view.height, view.width)
        size = f'{height}x{width}'
        bars = '' if view.frame is None else f', of which {view.height}x{view.width} are not bars'
        layout = '' if self.layout == 'HWC' else f', {self.layout}'
        order = '' if self.colour_order == 'RGB' else f', {self.colour_order}'
        count = f', images at {",".join(map(str, self.offsets))}' if self.stacked else ''
        return f'{view.camera} {size}{bars}{layout}{order}{count}'


def make_plan(
    handshake: Mapping[str, Any],
    robot: str,
    *,
    horizon: int | None = None,
    frames: Sequence[int] = (0,),
    crop: bool = False,
    privileged: bool = False,
    commands: bool = False,
) -> Plan:
    """Return what to send to the server with this handshake.

    Args:
        handshake: of the server; keys it leaves out are the robot file's.
        robot: robot file, or ``none``.
        horizon: rows to execute; None = 8 (24 with a history of images), fewer where a chunk has
            fewer.
        frames: offsets of a history of images, that rise and end with 0.
        crop: take the first columns of an answer that has more than the robot.
        privileged: send every pose, asked for or not.
        commands: whether the server reads ``endpoint``.

    Raises:
        ConfigurationError: everything the simulator cannot give, and every contradiction.

    """
    config = None if robot == NO_ROBOT else load_robot(robot)
    profile = config.profile if config is not None else Profile()
    reader = _Reader(handshake, robot)
    images = reader.images(profile, named=config is not None)
    state = reader.state(config)
    space = reader.action_space(profile)
    reader.columns(profile, crop)
    executed = reader.horizon(profile, horizon, stacked=tuple(frames) != (0,))
    poses = reader.poses()
    session = reader.flag('needs_session_id', False)
    reader.refuse_other_needs()
    if reader.problems:
        raise ConfigurationError('the server asks for what this simulator cannot give, or '
                                 'contradicts the robot file', reader.problems)  # fmt: skip
    return Plan(
        robot=robot,
        prompt_key=profile.prompt_key,
        images=images,
        layout=profile.layout,
        colour_order=profile.colour_order,
        state=state,
        zeros=_UNREAD if _ZERO_BASED in images else {},
        poses=tuple(POSES) if privileged else poses,
        session_id=session,
        commands=commands,
        action_space=space,
        horizon=executed,
        offsets=tuple(frames),
        crop=crop,
    )


class _Reader:
    """Reads a handshake beside a robot file and keeps what is wrong in ``problems``."""

    def __init__(self, handshake: Mapping[str, Any], robot: str) -> None:
        self._said = handshake
        self._robot = 'no robot file' if robot == NO_ROBOT else f'robot file {robot!r}'
        self.problems: list[str] = []

    def flag(self, key: str, otherwise: bool) -> bool:
        """Return a yes or no."""
        value = self._said.get(key, otherwise)
        if not isinstance(value, bool):
            self.problems.append(f'{key} is {value!r}, expected true or false')
            return otherwise
        return value

    def images(self, profile: Profile, *, named: bool) -> dict[str, View]:
        """Return wire key → view."""
        if named:
            exterior, wrists = _cameras(profile)
            mapped = sum(feature not in STATE_FEATURES for _, feature in profile.pairs())
            known = mapped - len(wrists)
        else:
            exterior, wrists, known = [EXTERNAL], [WRIST], 1
        count = self._said.get('n_external_cameras', known)
        if type(count) is not int or count < 0:
            self.problems.append(f'n_external_cameras is {count!r}, expected a number of cameras')
            count = 0
        if count > len(_EXTERIOR):
            self.problems.append(
                f'n_external_cameras is {count}, but the simulator has {len(_EXTERIOR)}: '
                f'{" and ".join(_EXTERIOR)}'
            )
        elif count > len(exterior):
            self.problems.append(
                f'n_external_cameras is {count}, but {self._robot} has keys for {len(exterior)} '
                f'({", ".join(exterior) or "none"}); name the robot file that fits (--robot), e.g. '
                'roboarena has two'
            )
        pairs = list(zip(exterior[:count], _EXTERIOR, strict=False))
        if self.flag('needs_wrist_camera', bool(wrists)):
            if not wrists:
                self.problems.append(
                    f'needs_wrist_camera is true, but {self._robot} has no key for a wrist camera'
                )
            pairs += [(key, 'wrist') for key in wrists[:1]]
        if self.flag('needs_stereo_camera', False):
            self.problems.append(
                'needs_stereo_camera is true, but the cameras of the simulator have one lens each'
            )
        size = self._size()
        return {key: view_of(camera, *size) for key, camera in pairs}

    def _size(self) -> tuple[int, int]:
        if 'image_resolution' not in self._said:
            return USUAL
        size = self._said['image_resolution']
        if size is None:
            return NATIVE
        if (
            isinstance(size, (list, tuple))
            and len(size) == 2
            and all(type(side) is int and 8 <= side <= _LARGEST for side in size)
        ):
            return size[0], size[1]
        self.problems.append(
            f'image_resolution is {size!r}, expected [height, width] of 8 to {_LARGEST}, or null'
        )
        return USUAL

    def state(self, robot: RobotConfig | None) -> dict[str, slice]:
        """Return key → part of the state."""
        if robot is None:
            return {STATE_FEATURES[0]: slice(0, c.ACTION_DIM)}
        keys = robot.profile.state_keys() or [STATE_FEATURES[0]]
        dims = robot.profile.state_dims or [robot.joints.count(key) for key in keys]
        if len(keys) == 1 and dims == [0]:
            dims = [c.ACTION_DIM]
        if sum(dims) != c.ACTION_DIM or min(dims) < 1:
            told = ', '.join(f'{key}: {n or "?"}' for key, n in zip(keys, dims, strict=True))
            self.problems.append(
                f'{self._robot} has a state of {told}; expected {c.ACTION_DIM} numbers in all, '
                'seven angles and the gripper'
            )
        ends = [sum(dims[: number + 1]) for number in range(len(dims))]
        return {
            key: slice(end - size, end) for key, size, end in zip(keys, dims, ends, strict=True)
        }

    def action_space(self, profile: Profile) -> str:
        """Return what the actions mean."""
        own, said = profile.action_space, self._said.get('action_space')
        if said is not None and own and said != own:
            self.problems.append(
                f'action_space is {said!r}, but {self._robot} says {own!r}; name the robot file '
                'that fits (--robot): droid has joint velocities, droid_jointpos joint positions'
            )
        space = own if said is None else said
        if space not in ACTION_SPACES:
            self.problems.append(
                f'action_space is {space!r}; the simulated robot takes {" or ".join(ACTION_SPACES)}'
                if space
                else f'neither the handshake nor {self._robot} has an action_space; name a robot '
                'file that has (--robot)'
            )
        return str(space)

    def columns(self, profile: Profile, crop: bool) -> None:
        """Check the columns of an answer, as far as somebody says."""
        said = self._said.get('action_dim', profile.crop_columns)
        if said is None or said == c.ACTION_DIM:
            return
        if type(said) is not int or said < c.ACTION_DIM:
            self.problems.append(
                f'action_dim is {said!r}, but the robot takes {c.ACTION_DIM}: seven joints and the '
                'gripper'
            )
        elif not crop:
            self.problems.append(
                f'action_dim is {said}, but the robot takes {c.ACTION_DIM}: seven joints and the '
                f'gripper; where those are the first {c.ACTION_DIM} columns, say so with '
                '--crop-columns'
            )

    def horizon(self, profile: Profile, given: int | None, *, stacked: bool) -> int:
        """Return how many rows to execute."""
        rows = self._said.get('action_horizon')
        if rows is not None and (type(rows) is not int or rows < 1):
            self.problems.append(f'action_horizon is {rows!r}, expected a number of rows')
            rows = None
        wanted = given if given is not None else STACK_HORIZON if stacked else HORIZON
        if wanted < 1:
            self.problems.append(f'--horizon is {wanted}, expected at least 1')
        elif rows is not None and wanted > rows:
            if given is None and not stacked:
                return rows
            self.problems.append(
                f'{wanted} rows are to be executed before it asks again, but a chunk has {rows} '
                '(action_horizon); take fewer with --horizon'
            )
        return wanted

    def poses(self) -> tuple[str, ...]:
        """Return the privileged keys that were asked for."""
        keys = self._said.get(PRIVILEGED_KEYS, [])
        if not isinstance(keys, (list, tuple)):
            self.problems.append(f'{PRIVILEGED_KEYS} is {keys!r}, expected a list of keys')
            return ()
        for key in keys:
            if not isinstance(key, str) or key not in POSES:
                self.problems.append(
                    f'{PRIVILEGED_KEYS} has {key!r}; the simulator tells {", ".join(POSES)}'
                )
        return tuple(key for key in POSES if key in keys)

    def refuse_other_needs(self) -> None:
        """Refuse what is needed and unknown here."""
        for key, value in self._said.items():
            if key.startswith('needs_') and value and key not in _KNOWN_NEEDS:
                self.problems.append(f'{key} is {value!r}, which this simulator knows nothing of')


def view_of(camera: str, height: int, width: int) -> View:
    """Return how a 720×1280 camera is seen in an image of this size: scaled to fit, centred.

    Drawn at the size it is scaled to; the rounding is that of openpi's ``resize_with_pad``.
    """
    ratio = max(NATIVE[1] / width, NATIVE[0] / height)
    rows, columns = int(NATIVE[0] / ratio), int(NATIVE[1] / ratio)
    frame = None if (rows, columns) == (height, width) else (height, width)
    return View(camera, rows, columns, frame)


def _cameras(profile: Profile) -> tuple[list[str], list[str]]:
    """Return the keys of exterior cameras and of wrist cameras, the mapped ones first.

    What a robot file ignores is what its clients may send besides: the partner of a lens excepted.
    """
    mapped = [key for key, feature in profile.pairs() if feature not in STATE_FEATURES]
    spare = [key for key in profile.ignore_keys if not key.endswith('_right')]
    features = dict(profile.pairs())
    exterior: list[str] = []
    wrists: list[str] = []
    for key in dict.fromkeys([*mapped, *spare]):
        wrist = 'wrist' in f'{key} {features.get(key, "")}'.lower()
        (wrists if wrist else exterior).append(key)
    return exterior, wrists
