# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy without weights that behaves at its seam as DreamZero does.

It keeps the last four frames of three cameras per session, wants one frame in the first call of a
session and four in later ones (one is taken too), takes a number of sessions at most, imagines a
future, and may think for long. The model's name holds numbers: ``thinks=1.2,sessions=2,dreams=1``.

Chunk of call k of a session: joints drift to measured ± 0.05 rad (odd calls up, even ones down),
the gripper is the mean of all remembered frames over 255. Frame i of the future is grey 10 k + i.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from openpi_policy_ros.errors import InvalidObservation, NoCapacity
from openpi_policy_ros.policies.base import (
    ACTIONS,
    ActionChunk,
    CameraSpec,
    InferenceRequest,
    InferenceResult,
    Policy,
    PolicySpec,
    SessionKey,
    StateSpec,
)
from openpi_policy_ros.policies.registry import LoadRequest, PolicyPlugin

HORIZON, WIDTH = 24, 8
OFFSETS = (-23, -16, -8, 0)
CAMERAS = (
    'observation/exterior_image_0_left',
    'observation/exterior_image_1_left',
    'observation/wrist_image_left',
)
JOINTS, GRIPPER = 'observation/joint_position', 'observation/gripper_position'
DREAM = (8, 16, 32, 3)
"""Shape of what it imagines with a chunk."""
DRIFT = 0.05
HANDSHAKE = {
    'image_resolution': [180, 320],
    'n_external_cameras': 2,
    'needs_wrist_camera': True,
    'needs_stereo_camera': False,
    'needs_session_id': True,
    'action_space': 'joint_position',
}

_log = logging.getLogger('openpi_policy_ros.dreaming')


@dataclass
class Memory:
    """Of one session."""

    calls: int = 0
    frames: dict[str, deque[np.ndarray]] = field(
        default_factory=lambda: {key: deque(maxlen=4) for key in CAMERAS}
    )


class DreamingPolicy(Policy):
    """Behaves like DreamZero; ``seen`` lists (session, reset, frames per camera) of each call."""

    def __init__(self, *, thinks: float = 0.0, sessions: float = 100, dreams: float = 0) -> None:
        self._thinks, self._most, self._dreams = thinks, int(sessions), bool(dreams)
        self.live: dict[SessionKey, Memory] = {}
        self.seen: list[tuple[SessionKey, bool, list[list[int]]]] = []
        self._spec = PolicySpec(
            name='dreaming',
            model='dreaming',
            cameras=tuple(CameraSpec(key, (key,), required=True) for key in CAMERAS),
            state=StateSpec((JOINTS, GRIPPER), max_dim=64),
            horizon=HORIZON,
            action_dim=WIDTH,
            action_space='joint_position',
            action_names=(*(f'joint_{i}' for i in range(1, 8)), 'gripper'),
            output_shapes={ACTIONS: (HORIZON, WIDTH)},
            handshake=HANDSHAKE,
            stateful=True,
            history_offsets=OFFSETS,
            imagines=bool(dreams),
        )

    @property
    def spec(self) -> PolicySpec:
        """Return the fixed spec."""
        return self._spec

    def warm_up(self) -> None:
        """Be warm."""

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Answer each request."""
        return [self._answer(one) for one in requests]

    def close_session(self, key: SessionKey) -> None:
        """Forget a session."""
        self.live.pop(key, None)

    def _answer(self, one: InferenceRequest) -> InferenceResult:
        views = {}
        for key in CAMERAS:
            if key not in one.observation:
                return InvalidObservation(key, 'is missing')
            view = np.asarray(one.observation[key])
            view = view[np.newaxis] if view.ndim == 3 else view
            if view.dtype != np.uint8 or view.ndim != 4 or view.shape[-1] != 3:
                return InvalidObservation(key, f'is {view.dtype} {list(view.shape)}')
            views[key] = view
        if one.session not in self.live and len(self.live) >= self._most:
            raise NoCapacity(
                f'{self._most} sessions of 10.1 GB each are alive, 3.0 GB are free',
                remedy='let a client disconnect, or lower the memory of a session',
            )
        if one.reset or one.session not in self.live:
            self.live[one.session] = Memory()
        time.sleep(self._thinks)
        memory = self.live[one.session]
        memory.calls += 1
        for key, view in views.items():
            memory.frames[key].extend(view)
        marks = [[int(frame[0, 0, 0]) for frame in views[key]] for key in CAMERAS]
        self.seen.append((one.session, one.reset, marks))
        shapes = ' '.join('x'.join(map(str, view.shape)) for view in views.values())
        _log.info('call %d of %s, reset %s: %s', memory.calls, one.session, one.reset, shapes)
        return self._chunk(one, memory)

    def _chunk(self, one: InferenceRequest, memory: Memory) -> ActionChunk:
        ramp = (np.arange(HORIZON) + 1.0) / HORIZON * DRIFT * (1 if memory.calls % 2 else -1)
        actions = np.empty((HORIZON, WIDTH), np.float32)
        actions[:, :7] = np.asarray(one.observation[JOINTS], np.float64) + ramp[:, np.newaxis]
        kept = [frame.mean() for frames in memory.frames.values() for frame in frames]
        actions[:, 7] = np.mean(kept) / 255.0
        imagined = None
        if self._dreams:
            grey = (10 * memory.calls + np.arange(DREAM[0])) % 256
            imagined = np.broadcast_to(grey[:, None, None, None], DREAM).astype(np.uint8)
        return ActionChunk(
            {ACTIONS: actions},
            timing_ms={'model': 1e3 * self._thinks},
            imagined=imagined,
            imagined_fps=5.0 if self._dreams else None,
        )


def _load(wanted: LoadRequest) -> Policy:
    pairs = (one.split('=') for one in wanted.model.split(',') if '=' in one)
    return DreamingPolicy(**{key: float(value) for key, value in pairs})


PLUGIN = PolicyPlugin(load=_load)
