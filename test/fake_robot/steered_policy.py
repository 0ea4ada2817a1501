# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that does what its prompt says, good or bad, for a node in its own process.

A prompt is a behaviour and numbers, ``sine gripper=0.9 slow=0.3``. Columns are the joints of
``arm``: positions in rad, then the gripper from 0 (open) to 1 (closed).

still       stay at the measured joints
sine        swing slowly around home, from wherever the joints are; the default
chatter     sine, and a gripper that hesitates at its threshold
step        beside the measured joints by ``by`` rad (0.15), at once, each chunk to the other side
fast        swing to and fro at ``speed`` rad/s (3)
beyond      move towards ``to`` rad (1.0) at ``pace`` rad/s (0.4)
jump        every action is ``by`` rad (1.0) off the measured joints
wild        a new random position within ±``to`` rad (1.5) for every action
nan, inf    not finite
narrow      a column too few
raise       an exception
late        answer after ``after`` seconds (1.2), longer than a chunk lasts
hang        answer after ``after`` seconds (3.0), longer than anybody waits
die         the worker thread ends

``slow``: answer so many seconds later, whatever the behaviour.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from arm import ACTION_RATE, CAMERAS, HOME, JOINTS, WIRE_IMAGES, WIRE_STATE

from openpi_policy_ros.policies.base import (
    ACTIONS,
    ActionChunk,
    CameraSpec,
    InferenceRequest,
    InferenceResult,
    Policy,
    PolicySpec,
    StateSpec,
)
from openpi_policy_ros.policies.registry import LoadRequest, PolicyPlugin

HORIZON, WIDTH = 16, len(JOINTS)
DT = 1.0 / ACTION_RATE
SWING, OMEGA = 0.25, 0.8
"""Amplitude (rad) and angular frequency (1/s) of the sine: 0.2 rad/s at most."""
SETTLING = 1.5
"""Time constant with which a sine is approached from elsewhere, s."""

Rows = npt.NDArray[np.float64]
_HOME = np.array([HOME[joint] for joint in JOINTS[:-1]])


class WorkerEnds(BaseException):
    """No Exception: no engine may take it for a failed call."""


def parse(prompt: str) -> tuple[str, dict[str, float]]:
    """Return the behaviour and the numbers of a prompt."""
    behaviour, *pairs = prompt.split()
    return behaviour, {key: float(value) for key, _, value in (one.partition('=') for one in pairs)}


def chunk_rows(
    behaviour: str,
    numbers: Mapping[str, float],
    measured: npt.ArrayLike,
    now_s: float,
    count: int,
    random: np.random.Generator,
) -> Rows:
    """Return the actions of a behaviour that has any, [HORIZON, WIDTH].

    Args:
        behaviour: of the prompt.
        numbers: of the prompt.
        measured: joints, [WIDTH].
        now_s: time of the observation; row i is for i + 1 steps later.
        count: of chunks so far.
        random: source of ``wild``.

    """
    ahead = (np.arange(HORIZON) + 1.0)[:, np.newaxis] * DT
    joints = np.asarray(measured, np.float64)[:-1]
    if behaviour == 'still':
        arm = np.repeat(joints[np.newaxis], HORIZON, axis=0)
    elif behaviour == 'jump':
        # Across the middle, so that no limit of positions is in the way.
        off = np.copysign(numbers.get('by', 1.0), -joints)
        arm = np.repeat((joints + off)[np.newaxis], HORIZON, axis=0)
    elif behaviour == 'step':
        side = numbers.get('by', 0.15) * (1 if count % 2 else -1)
        arm = np.repeat((joints + side)[np.newaxis], HORIZON, axis=0)
    elif behaviour == 'fast':
        # A triangle of that slope between ±0.3 rad.
        phase = (numbers.get('speed', 3.0) * (now_s + ahead)) % 1.2
        arm = np.repeat(np.abs(phase - 0.6) - 0.3, WIDTH - 1, axis=1)
        arm = arm + (joints - arm[0]) * np.exp(-ahead / SETTLING)
    elif behaviour == 'beyond':
        reach = numbers.get('pace', 0.4) * ahead
        target = np.full(WIDTH - 1, numbers.get('to', 1.0))
        arm = joints + np.clip(target - joints, -reach, reach)
    elif behaviour == 'wild':
        arm = random.uniform(-1, 1, (HORIZON, WIDTH - 1)) * numbers.get('to', 1.5)
    else:
        goal = _HOME + SWING * np.sin(OMEGA * (now_s + ahead))
        here = _HOME + SWING * np.sin(OMEGA * now_s)
        arm = goal + (joints - here) * np.exp(-ahead / SETTLING)
    gripper = np.full((HORIZON, 1), numbers.get('gripper', 0.1))
    if behaviour == 'chatter':
        gripper[:, 0] = np.where(np.arange(HORIZON) % 2, 0.45, 0.55)
    rows = np.hstack([arm, gripper])
    if behaviour in ('nan', 'inf'):
        rows[count % HORIZON, count % WIDTH] = np.nan if behaviour == 'nan' else np.inf
    return rows[:, 1:] if behaviour == 'narrow' else rows


class SteeredPolicy(Policy):
    """Does as told."""

    def __init__(self, wanted: LoadRequest) -> None:
        profile = wanted.profile
        assert profile is not None
        self._spec = PolicySpec(
            name='steered',
            model=wanted.model,
            cameras=tuple(
                CameraSpec(key, (key,), required=True) for key in map(WIRE_IMAGES.get, CAMERAS)
            ),
            state=StateSpec((WIRE_STATE,), max_dim=WIDTH),
            horizon=HORIZON,
            action_dim=WIDTH,
            action_space=profile.action_space,
            action_names=tuple(profile.action_names),
            output_shapes={ACTIONS: (HORIZON, WIDTH)},
            handshake={'action_horizon': HORIZON, 'action_dim': WIDTH},
        )
        self._random = np.random.default_rng(1)
        self._count = 0

    @property
    def spec(self) -> PolicySpec:
        """Return the fixed spec."""
        return self._spec

    def warm_up(self) -> None:
        """Be warm."""

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Do what each prompt says."""
        return [self._answer(one) for one in requests]

    def _answer(self, one: InferenceRequest) -> InferenceResult:
        began = time.monotonic()
        self._count += 1
        behaviour, numbers = parse(one.observation['prompt'])
        if behaviour == 'die':
            raise WorkerEnds
        if behaviour == 'raise':
            raise RuntimeError('the device fell off the bus')
        pause = numbers.get('slow', 0.0)
        pause += {'late': 1.2, 'hang': 3.0}.get(behaviour, 0.0)
        time.sleep(numbers.get('after', pause))
        measured = one.observation[WIRE_STATE]
        rows = chunk_rows(behaviour, numbers, measured, began, self._count, self._random)
        return ActionChunk({ACTIONS: rows.astype(np.float32)})


PLUGIN = PolicyPlugin(load=SteeredPolicy)
