# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot file: how one robot names its cameras, joints, states and actions.

Read by rclpy as a parameter file and, without ROS, by the server, into the same typed object. So
it holds only what ROS parameters can: scalars and non-empty flat lists of one type. An absent key
means none.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from openpi_policy_ros.configuration import files
from openpi_policy_ros.configuration.diagnostics import Diagnostics
from openpi_policy_ros.configuration.execution import (
    Execution,
    Limits,
    Output,
    Safety,
    limit_problems,
    output_problems,
)
from openpi_policy_ros.configuration.names import close_name, list_problems, listed, ros_name
from openpi_policy_ros.configuration.robot_file import read_robot_values, untold
from openpi_policy_ros.configuration.schema import Section, validate
from openpi_policy_ros.configuration.visual import Visual
from openpi_policy_ros.errors import ConfigurationError

ARROW = '->'
JOINT_STATES = 'joint_states'
"""Where joint states come from unless ``joints.sources`` says otherwise."""
STATE_FEATURES = ('observation.state', 'state')
"""The proprioceptive state's feature, and its short name."""
CONTROL_KEYS = frozenset(('endpoint', 'session_id', 'seed', 'sampling_params'))
"""Keys of a request that the server consumes."""


class Profile(Section):
    """Conventions of one robot's observations and actions. Data, never guessed."""

    key_map: list[str] = Field(
        default_factory=list,
        description='"<wire key> -> <feature>" per entry; "a/b" is the flat key if present, else '
        'a nested lookup. Several keys on one state feature are concatenated in order. Absent: '
        "the model's own feature names, and `state` for observation.state.",
    )
    prompt_key: str = Field(
        default='prompt', min_length=1, description='Wire key of the instruction (text).'
    )
    optional_cameras: list[str] | None = Field(
        default=None,
        description='Features whose image may be missing (masked). Replaces the list of the '
        'policy file. Every other camera is required. [""] = none may be missing.',
    )
    state_dims: list[int] = Field(
        default_factory=list,
        description='Numbers under each state key of key_map, in its order; another length is an '
        'error. Absent: any length, up to the width of the checkpoint.',
    )
    ignore_keys: list[str] = Field(
        default_factory=list,
        description='Wire keys of images that clients send and nobody reads; any other unread '
        'image is an error, so that a typo cannot blind the robot.',
    )
    layout: Literal['HWC', 'CHW'] = Field(
        default='HWC', description='Axis order of images on the wire: HWC or CHW.'
    )
    colour_order: Literal['RGB', 'BGR'] = Field(
        default='RGB', description='Channel order of images on the wire: RGB or BGR.'
    )
    action_space: str = Field(
        default='',
        description='Meaning of the actions: joint_position, joint_velocity, '
        'cartesian_position, cartesian_velocity, …; empty = not declared.',
    )
    action_names: list[str] = Field(
        default_factory=list, description='One label per action column after the crop.'
    )
    delta_mask: list[bool] = Field(
        default_factory=list,
        description='For a checkpoint of openpi, whose files cannot say it: true for each action '
        'column that is a difference from the state, which is then added; columns after the last '
        'entry are absolute.',
    )
    crop_rows: int | None = Field(
        default=None, ge=1, description='Send only the first rows (steps) of a chunk.'
    )
    crop_columns: int | None = Field(
        default=None, ge=1, description='Send only the first columns (dimensions) of a chunk.'
    )
    policy_server_config: dict[str, Any] = Field(
        default_factory=dict,
        description="Handshake keys that override the policy file's, key by key.",
    )

    @field_validator('key_map')
    @classmethod
    def _arrows(cls, entries: list[str]) -> list[str]:
        bad = [entry for entry in entries if len(split_arrow(entry)) != 2]
        if bad:
            raise ValueError(f'entries must read "<wire key> -> <feature>", found {bad}')
        sources = [split_arrow(entry)[0] for entry in entries]
        twice = sorted({key for key in sources if sources.count(key) > 1})
        if twice:
            raise ValueError(f'wire keys mapped twice: {twice}')
        return entries

    @field_validator('optional_cameras')
    @classmethod
    def _empty_text_is_none(cls, names: list[str] | None) -> list[str] | None:
        # ROS parameters know no empty list.
        return None if names is None else [name for name in names if name]

    @model_validator(mode='after')
    def _control_keys_are_taken(self) -> Profile:
        taken = CONTROL_KEYS.intersection([self.prompt_key, *(key for key, _ in self.pairs())])
        if taken:
            raise ValueError(
                f'the keys {sorted(taken)} of a request mean something else and never reach the '
                'policy; expected other names in key_map and prompt_key'
            )
        return self

    @model_validator(mode='after')
    def _dims_of_every_state_key(self) -> Profile:
        keys = self.state_keys()
        if self.state_dims and (len(self.state_dims) != len(keys) or min(self.state_dims) < 1):
            raise ValueError(
                f'state_dims is {self.state_dims}, expected a positive number for each state key '
                f'of key_map: {keys}'
            )
        return self

    @model_validator(mode='after')
    def _names_match_crop(self) -> Profile:
        if self.action_names and self.crop_columns not in (None, len(self.action_names)):
            raise ValueError(
                f'action_names has {len(self.action_names)} entries, but crop_columns is '
                f'{self.crop_columns}'
            )
        return self

    @model_validator(mode='after')
    def _mask_fits_the_columns(self) -> Profile:
        columns = self.crop_columns or len(self.action_names)
        if columns and len(self.delta_mask) > columns:
            raise ValueError(
                f'delta_mask has {len(self.delta_mask)} entries, but a reply has {columns} columns'
            )
        if any(self.delta_mask) and self.action_space.endswith('_velocity'):
            raise ValueError(
                f'delta_mask is {self.delta_mask}, but action_space is {self.action_space!r}: '
                'velocities are no differences from the state; correct one of them'
            )
        return self

    def state_keys(self) -> list[str]:
        """Return the wire keys that key_map leads to the state, in order."""
        return [key for key, feature in self.pairs() if feature in STATE_FEATURES]

    def pairs(self) -> list[tuple[str, str]]:
        """Return ``key_map`` as (wire key, feature) pairs in order."""
        return [(pair[0], pair[1]) for pair in map(split_arrow, self.key_map)]


class Camera(Section):
    """One camera of the robot, subscribed by the node."""

    topic: str = Field(min_length=1, description='Topic, relative to the namespace.')
    key: str = Field(min_length=1, description="The policy's observation key for this image.")
    transport: Literal['raw', 'compressed'] = Field(
        default='raw',
        description='raw = sensor_msgs/Image, compressed = CompressedImage (jpeg, png; its topic '
        'usually ends in /compressed).',
    )
    reliability: Literal['best_effort', 'reliable'] = Field(
        default='best_effort', description='QoS of the subscription: best_effort or reliable.'
    )
    max_age: float | None = Field(
        default=None, gt=0.0, le=60.0, description='Seconds; overrides timing.camera_max_age.'
    )
    crop: list[int] = Field(
        default_factory=list,
        description='[x, y, width, height] in pixels of the sensor: the part the policy sees. '
        'Absent = the whole image.',
    )
    rotate: Literal[0, 90, 180, 270] = Field(
        default=0, description='Degrees clockwise that turn the cropped image upright.'
    )

    @field_validator('crop')
    @classmethod
    def _inside(cls, crop: list[int]) -> list[int]:
        if crop and (len(crop) != 4 or min(crop[:2]) < 0 or min(crop[2:]) < 1):
            raise ValueError(
                f'expected [x, y, width, height] with x, y ≥ 0 and width, height ≥ 1, found {crop}'
            )
        return crop

    @field_validator('topic')
    @classmethod
    def _named_as_ros_does(cls, topic: str) -> str:
        return ros_name(topic)


class Joints(Section):
    """How ``joint_states`` becomes the state, and which action column moves which joint.

    All lists are in the order of ``names``. state = scale · position + offset.
    """

    names: list[str] = Field(
        default_factory=list, description='Joint names as in joint_states, in state order.'
    )
    keys: list[str] = Field(
        default_factory=list,
        description='Observation key that carries each joint; joints of one key are concatenated '
        'in order. One entry serves all. Empty text: not part of the state.',
    )
    scale: list[float] = Field(
        default_factory=list, description='Policy units per ROS unit (sign included); default 1.'
    )
    offset: list[float] = Field(
        default_factory=list, description='Policy units added after scaling; default 0.'
    )
    velocity_scale: list[float] = Field(
        default_factory=list,
        description='Action units per ROS velocity unit (rad/s or m/s) of a joint-velocity policy; '
        'default: scale.',
    )
    action_indices: list[int] = Field(
        default_factory=list,
        description='Action column that commands each joint, -1 = none; absent = none.',
    )
    sources: list[str] = Field(
        default_factory=list,
        description='"<topic> -> <prefix>" per topic of joint states: the prefix is put before '
        'every name in its messages, which tells two arms with equal names apart; "<topic>" alone '
        'for none. Absent: joint_states.',
    )

    @field_validator('sources')
    @classmethod
    def _topics_with_prefixes(cls, sources: list[str]) -> list[str]:
        topics = [topic for topic, _ in map(joint_source, sources)]
        twice = sorted({topic for topic in topics if topics.count(topic) > 1})
        if twice:
            raise ValueError(f'topics named twice: {twice}; its names can have one prefix only')
        return sources

    def topics(self) -> list[tuple[str, str]]:
        """Return (topic of joint states, prefix of the names in its messages), '' = none."""
        return [joint_source(entry) for entry in self.sources] or [(JOINT_STATES, '')]

    def count(self, key: str) -> int:
        """Return how many joints an observation key carries."""
        return len(self.names) if self.keys == [key] else self.keys.count(key)

    @model_validator(mode='after')
    def _lengths(self) -> Joints:
        count = len(self.names)
        if len(set(self.names)) != count:
            twice = sorted({n for n in self.names if self.names.count(n) > 1})
            raise ValueError(f'names are not unique: {twice}')
        for field_name, singles in (
            ('keys', True),
            ('scale', False),
            ('offset', False),
            ('velocity_scale', False),
            ('action_indices', False),
        ):
            length = len(getattr(self, field_name))
            if length not in ((0, 1, count) if singles else (0, count)):
                raise ValueError(f'{field_name} has {length} entries for {count} names')
        if count and not self.keys:
            raise ValueError('keys: required with names (the observation key of each joint)')
        used = [index for index in self.action_indices if index >= 0]
        if len(set(used)) != len(used) or any(index < -1 for index in self.action_indices):
            raise ValueError('action_indices must be distinct columns, or -1 for none')
        for field_name in ('scale', 'velocity_scale'):
            if 0.0 in getattr(self, field_name):
                raise ValueError(
                    f'{field_name}: 0 would lose the joint; give policy units per ROS unit'
                )
        return self

    @model_validator(mode='after')
    def _sources_say_each_joint(self) -> Joints:
        if self.sources and not self.names:
            raise ValueError('sources: no effect without names')
        prefixes = [prefix for _, prefix in self.topics()]
        idle = [
            entry
            for entry, prefix in zip(self.sources, prefixes, strict=False)
            if not any(name.startswith(prefix) for name in self.names)
        ]
        if idle:
            raise ValueError(f'sources: no joint of names begins as {idle} say')
        silent = [name for name in self.names if not name.startswith(tuple(prefixes))]
        if silent:
            raise ValueError(
                f'sources: {silent} can come from none of {self.sources}; correct the names or '
                'the prefixes'
            )
        return self


class Timing(Section):
    """Rates and freshness. All in seconds or hertz."""

    action_rate: float | None = Field(
        default=None, gt=0.0, le=1000.0, description='Actions per second of the policy (1/dt), Hz.'
    )
    camera_max_age: float = Field(
        default=0.15, gt=0.0, le=60.0, description='Oldest image an inference may use, s.'
    )
    joint_max_age: float = Field(
        default=0.1, gt=0.0, le=60.0, description='Oldest joint state an inference may use, s.'
    )
    max_skew: float = Field(
        default=0.1, gt=0.0, le=60.0, description='Largest spread between stamps of streams, s.'
    )
    future_tolerance: float = Field(
        default=0.02,
        ge=0.0,
        le=60.0,
        description='How far in the future a stamp may lie before it is refused, s.',
    )
    allow_unstamped: bool = Field(
        default=False, description='Accept messages with stamp 0 and use their arrival time.'
    )
    inference_rate: float = Field(
        default=0.0,
        ge=0.0,
        le=1000.0,
        description='Most inferences per second of the ROS door; 0 = as fast as the policy goes.',
    )
    inference_timeout: float | None = Field(
        default=None,
        gt=0.0,
        le=3600.0,
        description='inference_timeout where that is not set itself: for a policy that thinks '
        'long, s.',
    )


def _camera(name: str, info: ValidationInfo) -> str:
    return listed(name, info.data.get('camera_names'), 'camera_names')


def _output(name: str, info: ValidationInfo) -> str:
    return listed(name, info.data.get('output_names'), 'output_names')


class RobotConfig(Section):
    """One robot: profile for every door; all else is for the ROS door."""

    profile: Profile = Field(default_factory=Profile)
    camera_names: list[str] = Field(
        default_factory=list, description='Cameras to subscribe; each has cameras.<name>.*.'
    )
    cameras: dict[Annotated[str, AfterValidator(_camera)], Camera] = Field(default_factory=dict)
    joints: Joints = Field(default_factory=Joints)
    timing: Timing = Field(default_factory=Timing)
    output_names: list[str] = Field(
        default_factory=list,
        description='Controllers to command; each has outputs.<name>.*. Absent: nothing moves.',
    )
    outputs: dict[Annotated[str, AfterValidator(_output)], Output] = Field(default_factory=dict)
    limits: Limits = Field(default_factory=Limits)
    execution: Execution = Field(default_factory=Execution)
    safety: Safety = Field(default_factory=Safety)
    diagnostics: Diagnostics = Field(default_factory=Diagnostics)
    visual: Visual = Field(default_factory=Visual)

    @model_validator(mode='after')
    def _fits_together(self) -> RobotConfig:
        problems = [*self._sensor_problems(), *self._output_problems()]
        if problems:
            raise ValueError('; '.join(problems))
        return self

    def state_joints(self) -> list[str]:
        """Return the joint that each number of the state is; [] where no joint is named."""
        joints = self.joints
        keys = joints.keys * len(joints.names) if len(joints.keys) == 1 else joints.keys
        pairs = [(key, name) for key, name in zip(keys, joints.names, strict=True) if key]
        wanted = self.profile.state_keys() or list(dict.fromkeys(key for key, _ in pairs))
        return [name for key in wanted for own, name in pairs if own == key]

    def _sensor_problems(self) -> list[str]:
        problems = list_problems(self.camera_names, self.cameras, 'camera_names')
        keys = [camera.key for camera in self.cameras.values()]
        keys += dict.fromkeys(key for key in self.joints.keys if key)
        keys.append(self.profile.prompt_key)
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            problems.append(
                'two entries share an observation key (cameras, joints.keys, '
                f'profile.prompt_key): {twice}'
            )
        problems += self._unmapped()
        counts = {key: self.joints.count(key) for key in self.joints.keys if key}
        for key, dims in zip(self.profile.state_keys(), self.profile.state_dims, strict=False):
            if counts.get(key, dims) != dims:
                problems.append(
                    f'profile.state_dims says {dims} for {key!r}, but joints.keys gives it '
                    f'{counts[key]} joints'
                )
        return problems

    def _unmapped(self) -> list[str]:
        """Return the keys of cameras and joints that no policy would read, by the key map."""
        state = self.profile.state_keys()
        images = [key for key, _ in self.profile.pairs() if key not in state]
        own = [
            (f'cameras.{name}.key', 'image', camera.key, images)
            for name, camera in self.cameras.items()
        ]
        own += [
            ('joints.keys', 'state', key, state) for key in dict.fromkeys(self.joints.keys) if key
        ]
        return [
            f'{where}: profile.key_map leads no {kind} from {key!r}{close_name(key, known)}'
            for where, kind, key, known in own
            # A map may be silent of one kind altogether.
            if known and key not in known
        ]

    def _output_problems(self) -> list[str]:
        problems = list_problems(self.output_names, self.outputs, 'output_names')
        columns = dict(zip(self.joints.names, self.joints.action_indices, strict=False))
        problems += output_problems(self.outputs, self.joints.names, columns)
        problems += limit_problems(self.limits, self.joints.names)
        if self.outputs and self.timing.action_rate is None:
            problems.append(
                'timing.action_rate: required with outputs, to time the actions (the rate of the '
                "policy's training data, e.g. 15.0 for DROID)"
            )
        return problems


def split_arrow(entry: str) -> list[str]:
    """Return the stripped, non-empty parts of ``"<wire key> -> <feature>"``."""
    return [part.strip() for part in entry.split(ARROW) if part.strip()]


def joint_source(entry: str) -> tuple[str, str]:
    """Return (topic, prefix) of ``"<topic> -> <prefix>"`` or ``"<topic>"``.

    Raises:
        ValueError: neither; quotes the entry.

    """
    topic, *prefixes = (part.strip() for part in entry.split(ARROW))
    wrong = len(prefixes) > 1 or '' in prefixes
    if wrong or not topic or any(map(str.isspace, ''.join(prefixes))):
        raise ValueError(
            f'{entry!r} must read "<topic> -> <prefix>", or "<topic>" for no prefix, e.g. '
            '"follower_left/joint_states -> left/"'
        )
    return ros_name(topic), ''.join(prefixes)


def load_robot(name: str) -> RobotConfig:
    """Return the robot that ``name`` (a stem of ``config/`` or a path) describes.

    Raises:
        ConfigurationError: no such file, or every problem in it.

    """
    path = files.resolve(name, 'robot')
    values, told = read_robot_values(path)
    problems = list(told.values())
    try:
        robot = validate(RobotConfig, values, str(path))
    except ConfigurationError as error:
        problems += untold(error.problems, told)
    if problems:
        raise ConfigurationError(str(path), problems)
    return robot
