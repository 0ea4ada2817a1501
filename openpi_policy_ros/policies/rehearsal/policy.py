# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The rehearsal: a policy without a model, which moves a robot gently around where it found it.

It answers like any other policy, through both doors, so that outputs, limits and gates can be tried
before there is a checkpoint. It looks at no image.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

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
from openpi_policy_ros.policies.rehearsal.motion import (
    Motion,
    Row,
    Rows,
    Start,
    continued,
)
from openpi_policy_ros.policies.rehearsal.options import RehearsalOptions

_log = logging.getLogger('openpi_policy_ros.policies.rehearsal')


_MOST_CENTRES = 64
"""Connections whose centre is remembered; those that are longest unused are forgotten."""


class RehearsalPolicy(Policy):
    """Moves each column of the actions to one side of where the state has it, and back.

    The first observation of a connection says where that is, and sessions of the same connection
    that come later go on around there, so that a robot which is stopped and started over and over
    does not creep. A motion begins at rest where the robot is: with every session, and anew where a
    robot does not follow, as it was not asked to. A robot that is found further from its way than
    the way is long is moved around there.

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
        self._sessions: dict[SessionKey, Start] = {}
        self._centres: OrderedDict[str, Start] = OrderedDict()

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
        """Forget where the session's motion began, but not around where."""
        self._sessions.pop(key, None)

    def _answer(self, request: InferenceRequest, now: float) -> InferenceResult:
        try:
            state = read_state(request.observation, self._layout)
            measured = state[self._layout.entries].astype(np.float64)
            start = self._start(request, measured, now)
            rows = self._motion.rows(start, now - start.began, self._layout.step, self._horizon)
            if request.rtc is not None:
                rows = self._continued(rows, request.rtc)
        except InvalidObservation as error:
            return error
        model = rows.astype(np.float32)
        # The units of the robot are those of this model: rows of either kind can be handed back.
        return ActionChunk(
            {ACTIONS: model[: self.spec.horizon].copy()}, model_actions=model, state=state
        )

    def _start(self, request: InferenceRequest, measured: Row, now: float) -> Start:
        """Return where the motion of a session began, which may be here and now."""
        start = None if request.reset else self._sessions.get(request.session)
        if start is not None and self._motion.is_followed(start, now - start.began, measured):
            return start
        connection = request.session.connection
        last = self._centres.pop(connection, None)
        if last is not None and self._motion.is_elsewhere(last.centre, measured):
            _log.warning(
                'session %s: the robot is elsewhere (%s); the motion begins anew there',
                request.session,
                ', '.join(f'{value:.4g}' for value in measured),
            )
            last = None
        if last is None:
            start = Start(measured, measured, now)
        else:
            # Columns that stay do so where they are.
            centre = np.where(self._motion.amplitude == 0.0, measured, last.centre)
            start = Start(centre, measured, now, -last.side)
        self._sessions[request.session] = self._centres[connection] = start
        while len(self._centres) > _MOST_CENTRES:
            self._centres.popitem(last=False)
        return start

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
