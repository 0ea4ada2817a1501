# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The rehearsal: a policy without a model, which moves a robot gently around where it found it.

It answers like any other policy, through both doors, so that outputs, limits and gates can be tried
before there is a checkpoint. It looks at no image.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from openpi_policy_ros.configuration.robot import Profile, RobotConfig
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.errors import InvalidObservation
from openpi_policy_ros.policies.base import (
    ACTIONS,
    ActionChunk,
    InferenceRequest,
    InferenceResult,
    Policy,
    PolicySpec,
    RtcPrefix,
    SessionKey,
)
from openpi_policy_ros.policies.registry import LoadRequest
from openpi_policy_ros.policies.rehearsal.layout import Layout, make_layout, read_state
from openpi_policy_ros.policies.rehearsal.motion import Motion, Row, Rows, continued
from openpi_policy_ros.policies.rehearsal.options import RehearsalOptions

_log = logging.getLogger('openpi_policy_ros.policies.rehearsal')


@dataclass(frozen=True)
class _Session:
    """Where and when a session's motion began: state in action units [D], and seconds."""

    anchor: Row
    began: float


class RehearsalPolicy(Policy):
    """Moves each column of the actions to one side of where the state has it, and back.

    The first observation of a session says where that is. It begins anew where a robot is found
    further from its way than the way is long.

    Args:
        layout: what a chunk looks like, and which number of the state each column is.
        options: of the policy file.
        clock: seconds, monotonic.
        sleep: waits for so many seconds.

    """

    def __init__(
        self,
        layout: Layout,
        options: RehearsalOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._layout = layout
        self._latency = options.latency
        self._horizon = options.horizon
        self._motion = Motion(layout.amplitude, options.period, layout.rate)
        self._clock = clock
        self._sleep = sleep
        self._sessions: dict[SessionKey, _Session] = {}

    @property
    def spec(self) -> PolicySpec:
        """Return what the robot file makes of it."""
        return self._layout.spec

    def warm_up(self) -> None:
        """Be warm."""

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Answer each request; see ``Policy.infer``."""
        began = self._clock()
        results = [self._answer(one, began) for one in requests]
        left = self._latency - (self._clock() - began)
        if left > 0.0:
            self._sleep(left)
        return results

    def close_session(self, key: SessionKey) -> None:
        """Forget where the session's motion began."""
        self._sessions.pop(key, None)

    def _answer(self, request: InferenceRequest, now: float) -> InferenceResult:
        try:
            state = read_state(request.observation, self._layout)
            measured = state[self._layout.entries].astype(np.float64)
            session = self._session(request, measured, now)
            rows = self._motion.rows(
                session.anchor, now - session.began, self._layout.step, self._horizon
            )
            if request.rtc is not None:
                rows = self._continued(rows, request.rtc)
        except InvalidObservation as error:
            return error
        model = rows.astype(np.float32)
        # The units of the robot are those of this model: rows of either kind can be handed back.
        return ActionChunk(
            {ACTIONS: model[: self.spec.horizon].copy()}, model_actions=model, state=state
        )

    def _session(self, request: InferenceRequest, measured: Row, now: float) -> _Session:
        session = None if request.reset else self._sessions.get(request.session)
        if session is not None and self._motion.is_elsewhere(session.anchor, measured):
            _log.warning(
                'session %s: the robot is elsewhere (%s); the motion begins anew there',
                request.session,
                ', '.join(f'{value:.4g}' for value in measured),
            )
            session = None
        if session is None:
            session = self._sessions[request.session] = _Session(measured, now)
        return session

    def _continued(self, rows: Rows, rtc: RtcPrefix) -> Rows:
        leftover = np.asarray(rtc.leftover)
        wrong = leftover.ndim != 2 or leftover.shape[1] != rows.shape[1] or not len(leftover)
        if wrong or not np.isfinite(leftover).all() or rtc.inference_delay < 0:
            raise InvalidObservation(
                'rtc',
                f'a leftover of shape {list(leftover.shape)} after {rtc.inference_delay} steps',
                expected=f'finite rows [1 or more, {rows.shape[1]}] and a delay of at least 0',
                remedy='hand back the rows of the last chunk that are not executed yet',
            )
        guided = rtc.execution_horizon or rtc.inference_delay + len(rows) // 4
        return continued(rows, leftover, rtc.inference_delay, guided)


def load(request: LoadRequest) -> RehearsalPolicy:
    """Return the policy for the robot of ``request``.

    Raises:
        ConfigurationError: the options are wrong, or the actions of the robot are not numbers of
            its state.

    """
    source = request.options_source or 'policy: rehearsal'
    options = validate(RehearsalOptions, request.options or {}, source)
    if request.model:
        _log.warning('the rehearsal has no model: %s is not loaded', request.model)
    robot = request.robot or RobotConfig(profile=request.profile or Profile())
    return RehearsalPolicy(make_layout(robot, options, source), options)
