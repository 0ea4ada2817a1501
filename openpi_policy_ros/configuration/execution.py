# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What of a chunk reaches the robot: outputs, limits, execution and safety of a robot file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field, field_validator, model_validator

from openpi_policy_ros.configuration.names import ros_name
from openpi_policy_ros.configuration.schema import Section

_GRIPPER_KEYS = ('scale', 'offset', 'threshold', 'hysteresis', 'closed', 'open', 'invert')
"""Keys of an output that mean something for a gripper alone."""


class Output(Section):
    """One controller of the robot: which columns of a chunk command which of its joints."""

    type: Literal['trajectory', 'array', 'gripper'] = Field(
        description='trajectory = trajectory_msgs/JointTrajectory (positions) for a '
        'joint_trajectory_controller, array = std_msgs/Float64MultiArray for a '
        'forward_command_controller, gripper = control_msgs/action/GripperCommand.',
    )
    topic: str = Field(
        min_length=1, description="Topic, or the gripper's action, relative to the namespace."
    )
    joints: list[str] = Field(
        min_length=1, description="Joints of this controller, in the controller's own order."
    )
    action_indices: list[int] = Field(
        min_length=1, description='Column of the chunk that commands each joint, after the crop.'
    )
    controller_names: list[str] = Field(
        default_factory=list,
        description="Trajectory: the controller's own names of these joints, where they are not "
        'those of joints.names (two arms with a prefix each).',
    )
    gripper: bool = Field(
        default=False,
        description='These numbers are those of a gripper: held between actions, never faded or '
        'interpolated, shaped by the keys below. Always so for the type gripper.',
    )
    scale: float | None = Field(
        default=None,
        ge=-1e6,
        le=1e6,
        description='Gripper: command = (action - offset) / scale; absent = joints.scale, or 1 '
        'for a joint that joints.names lacks.',
    )
    offset: float | None = Field(
        default=None,
        ge=-1e6,
        le=1e6,
        description='Gripper: see scale; absent = joints.offset, or 0 for a joint that '
        'joints.names lacks.',
    )
    invert: bool = Field(
        default=False, description='Gripper: 1 - action comes first, before all else.'
    )
    threshold: float | None = Field(
        default=None,
        ge=-1e6,
        le=1e6,
        description='Gripper: only open or closed; actions from here up close it. Absent = the '
        'action itself is the command, scaled.',
    )
    hysteresis: float = Field(
        default=0.0,
        ge=0.0,
        le=1000.0,
        description='Gripper: how far beyond the threshold an action must lie to change between '
        'open and closed, action units.',
    )
    closed: float | None = Field(
        default=None,
        ge=-1e6,
        le=1e6,
        description='Gripper with threshold: command that closes it, ROS units (rad or m).',
    )
    open: float | None = Field(
        default=None,
        ge=-1e6,
        le=1e6,
        description='Gripper with threshold: command that opens it, ROS units (rad or m).',
    )
    max_effort: float = Field(
        default=0.0,
        ge=0.0,
        le=100000.0,
        description="Largest effort in a gripper's goal, N or Nm; what 0 means is the driver's "
        'matter: to some no force at all.',
    )

    @property
    def message_names(self) -> list[str]:
        """Return the names of the joints as they are written into messages."""
        return self.controller_names or self.joints

    @property
    def is_gripper(self) -> bool:
        """Return whether these numbers are those of a gripper."""
        return self.gripper or self.type == 'gripper'

    @field_validator('topic')
    @classmethod
    def _named_as_ros_does(cls, topic: str) -> str:
        return ros_name(topic)

    @model_validator(mode='after')
    def _columns_of_joints(self) -> Output:
        if len(self.joints) != len(self.action_indices):
            raise ValueError(
                f'action_indices has {len(self.action_indices)} entries for {len(self.joints)} '
                'joints'
            )
        if '' in self.joints or len(set(self.joints)) != len(self.joints):
            raise ValueError(f'joints must be different names, found {self.joints}')
        if min(self.action_indices) < 0:
            raise ValueError(
                f'action_indices are columns, 0 or more, found {self.action_indices}; leave out a '
                'joint that no action moves'
            )
        if not self.is_gripper and len(set(self.action_indices)) != len(self.joints):
            raise ValueError(
                f'action_indices must be different columns, found {self.action_indices} (only '
                'fingers of a gripper may share one)'
            )
        if self.type == 'gripper' and len(self.joints) != 1:
            raise ValueError(
                f'joints: a gripper action takes one number, found {len(self.joints)} joints; '
                'write an output for each, or type: array with gripper: true'
            )
        return self

    @model_validator(mode='after')
    def _names_of_the_controller(self) -> Output:
        names = self.controller_names
        if not names:
            return self
        if self.type != 'trajectory':
            raise ValueError(
                f'controller_names: no effect, as type {self.type} carries no names; leave it out'
            )
        if len(names) != len(self.joints):
            raise ValueError(
                f'controller_names has {len(names)} entries for {len(self.joints)} joints'
            )
        if '' in names or len(set(names)) != len(names):
            raise ValueError(f'controller_names must be different names, found {names}')
        if names == self.joints:
            raise ValueError('controller_names: no effect, as joints says the same; leave it out')
        return self

    @model_validator(mode='after')
    def _keys_of_grippers(self) -> Output:
        if not self.is_gripper:
            idle = self._set(_GRIPPER_KEYS)
            if idle:
                raise ValueError(
                    f'{", ".join(idle)}: only for grippers (type: gripper, or gripper: true); '
                    'other joints take joints.scale and joints.offset'
                )
        if self.max_effort and self.type != 'gripper':
            raise ValueError(f'max_effort: type {self.type} carries no effort, only gripper does')
        if self.scale == 0.0:
            raise ValueError('scale: 0 would lose the command; give action units per ROS unit')
        if self.threshold is None:
            idle = self._set(('hysteresis', 'closed', 'open'))
            if idle:
                raise ValueError(f'{", ".join(idle)}: no effect without threshold')
        elif self.closed is None or self.open is None:
            raise ValueError('threshold: needs closed and open, the two commands in ROS units')
        elif self.scale is not None or self.offset is not None:
            raise ValueError('scale, offset: no effect with threshold; closed and open say it')
        return self

    def _set(self, keys: Sequence[str]) -> list[str]:
        fields = type(self).model_fields
        return [key for key in keys if getattr(self, key) != fields[key].default]


class Limits(Section):
    """What each joint may be commanded; lists in the order of ``joints.names``."""

    position_min: list[float] = Field(
        default_factory=list,
        description="Lowest position of each joint, rad or m; absent = the URDF's.",
    )
    position_max: list[float] = Field(
        default_factory=list,
        description="Highest position of each joint, rad or m; absent = the URDF's.",
    )
    velocity: list[float] = Field(
        default_factory=list,
        description="Largest speed of each joint, rad/s or m/s; absent = the URDF's.",
    )

    @model_validator(mode='after')
    def _in_order(self) -> Limits:
        if len(self.position_min) != len(self.position_max):
            raise ValueError(
                f'position_min has {len(self.position_min)} entries and position_max '
                f'{len(self.position_max)}; expected one of each for every joint'
            )
        bounds = zip(self.position_min, self.position_max, strict=True)
        inverted = [
            f'joint {i}: {low} to {high}' for i, (low, high) in enumerate(bounds) if low >= high
        ]
        if inverted:
            raise ValueError(f'position_min must be below position_max ({"; ".join(inverted)})')
        if any(speed <= 0.0 for speed in self.velocity):
            raise ValueError(f'velocity must be above 0 for every joint, found {self.velocity}')
        return self


class Execution(Section):
    """How chunks are played."""

    mode: Literal['open_loop', 'async', 'rtc', 'ensemble'] = Field(
        default='async',
        description='open_loop = play a chunk, wait, infer again; async = infer all the time and '
        'change to the new chunk at the same point in time; rtc = async, and the policy continues '
        'the running chunk; ensemble = mean of every chunk that covers a moment.',
    )
    control_rate: float = Field(
        default=50.0, ge=1.0, le=1000.0, description='Commands per second, Hz.'
    )
    blend_steps: int = Field(
        default=3,
        ge=0,
        le=100,
        description='Actions over which the step between two chunks is faded out; 0 = at once.',
    )
    open_loop_steps: int | None = Field(
        default=None,
        ge=1,
        le=10000,
        description='open_loop: actions to play of each chunk; absent = all.',
    )
    min_lead_time: float = Field(
        default=0.02,
        ge=0.0,
        le=1.0,
        description='An action due sooner than this has elapsed and is dropped, s.',
    )
    max_lookahead: float = Field(
        default=0.3,
        gt=0.0,
        le=10.0,
        description='Most of a trajectory that is sent ahead: what still moves after a kill, s.',
    )
    ensemble_decay: float = Field(
        default=0.01,
        ge=0.0,
        le=100.0,
        description='ensemble: m of the weights exp(-m i), i = 0 for the oldest chunk.',
    )
    rtc_horizon: int | None = Field(
        default=None,
        ge=1,
        le=10000,
        description="rtc: rows of the running chunk that guide the new one; absent = the policy's.",
    )

    @model_validator(mode='after')
    def _trajectories_last_until_the_next(self) -> Execution:
        period = 1.0 / self.control_rate
        if self.max_lookahead <= self.min_lead_time + period:
            raise ValueError(
                f'max_lookahead is {self.max_lookahead} s, expected more than min_lead_time + '
                f'1 / control_rate ({self.min_lead_time} s + {period:.4g} s), or a trajectory ends '
                'before the next comes'
            )
        return self


class Safety(Section):
    """Gates between chunks and the robot. Not a certified safety function."""

    stale_hold: float = Field(
        default=0.5,
        gt=0.0,
        le=60.0,
        description='S2: hold when a camera or the joints have been silent for so long, s.',
    )
    position_margin: float = Field(
        default=0.02,
        ge=0.0,
        le=10.0,
        description='S6: commands keep this far from the position limits, rad or m.',
    )
    clamp_max: float = Field(
        default=0.2,
        ge=0.0,
        le=10.0,
        description='S6: hold when a limit would cut off more than this, rad or m.',
    )
    velocity_scale: float = Field(
        default=0.5,
        gt=0.0,
        le=1.0,
        description='S7: part of the velocity limits that commands may use.',
    )
    max_start_jump: float = Field(
        default=0.2,
        gt=0.0,
        le=10.0,
        description='S8: hold when the first command is further from the measured joints, rad or '
        'm.',
    )
    watchdog_periods: float = Field(
        default=2.0,
        gt=1.0,
        le=1000.0,
        description='S9: hold when no command went out for so many control periods.',
    )
    max_failures: int = Field(
        default=3, ge=1, le=1000, description='S11: hold after so many failed inferences in a row.'
    )
    interlock_topic: str = Field(
        default='',
        description='S12: std_msgs/Bool, true again and again while the robot may move; empty = '
        'none.',
    )
    interlock_timeout: float = Field(
        default=0.2,
        gt=0.0,
        le=60.0,
        description='S12: hold when the interlock has been silent for so long, s.',
    )
    clock_jump: float = Field(
        default=1.0,
        gt=0.0,
        le=3600.0,
        description='S13: hold when the ROS clock jumps forward by more; back by any, s.',
    )
    max_wait: float = Field(
        default=2.0,
        gt=0.0,
        le=600.0,
        description='S15: hold when there has been no usable chunk for so long, s.',
    )
    remote_clients: Literal['allow', 'reject_while_enabled'] = Field(
        default='reject_while_enabled',
        description='Whether remote clients are served while the robot is enabled; a running call '
        'of theirs delays its next chunk.',
    )

    @field_validator('interlock_topic')
    @classmethod
    def _named_as_ros_does(cls, topic: str) -> str:
        return ros_name(topic) if topic else topic


def output_problems(
    outputs: Mapping[str, Output], joints: Sequence[str], columns: Mapping[str, int]
) -> list[str]:
    """Return what is wrong between outputs, and between them and the joints of the robot file.

    Args:
        outputs: by name.
        joints: ``joints.names``.
        columns: joint → its entry in ``joints.action_indices``, where that is set.

    """
    problems = []
    topics: dict[str, str] = {}
    owners: dict[str, str] = {}
    taken: dict[int, str] = {}
    movers = {column: joint for joint, column in columns.items() if column >= 0}
    if outputs and not joints:
        problems.append(
            'outputs: need joints.names, as nothing moves without knowing where the joints are'
        )
    for name, output in outputs.items():
        other = topics.setdefault(output.topic, name)
        if other != name:
            problems.append(f'outputs.{name}.topic: {output.topic!r} is that of outputs.{other}')
        for column in dict.fromkeys(output.action_indices):
            other = taken.setdefault(column, name)
            if other != name:
                problems.append(
                    f'outputs.{name}.action_indices: column {column} commands outputs.{other}'
                )
        for joint, column in zip(output.joints, output.action_indices, strict=True):
            other = owners.setdefault(joint, name)
            if other != name:
                problems.append(f'outputs.{name}.joints: {joint!r} belongs to outputs.{other}')
            if joints and joint not in joints and not output.is_gripper:
                problems.append(
                    f'outputs.{name}.joints: {joint!r} is not in joints.names, so where it is '
                    'cannot be known before it moves'
                )
            known = columns.get(joint)
            # A gripper is often none of the joints that an action moves, as its units differ.
            if known is not None and known != column and not (output.is_gripper and known == -1):
                problems.append(
                    f'outputs.{name}.action_indices: {joint!r} takes column {column}, but '
                    f'{known} in joints.action_indices{" (no action moves it)" * (known < 0)}'
                )
            elif joint in columns and movers.get(column, joint) not in output.joints:
                problems.append(
                    f'outputs.{name}.action_indices: {joint!r} takes column {column}, which is '
                    f'that of {movers[column]!r} in joints.action_indices'
                )
    return problems


def limit_problems(limits: Limits, joints: Sequence[str]) -> list[str]:
    """Return the lists of limits that do not hold a number for each of ``joints.names``."""
    return [
        f'limits.{name} has {len(values)} entries for {len(joints)} joints.names'
        for name in ('position_min', 'position_max', 'velocity')
        if (values := getattr(limits, name)) and len(values) != len(joints)
    ]
