# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Assemble the robot's newest messages into one observation, or say exactly why there is none.

The observation is the one a WebSocket client of the same robot sends: the profile's keys, layout
and colour order, so that both doors pass the same reader in the policy.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.blocking import camera_reasons, joint_reasons, newest, refused
from openpi_policy_ros.control.buffers import (
    NANOSECONDS,
    ClockWatch,
    Latest,
    Reason,
    Refusal,
    Sample,
    StreamCount,
    check_stamp,
    seconds,
    skew_reason,
)
from openpi_policy_ros.control.decoding import Decoder
from openpi_policy_ros.control.encodings import UInt8Array
from openpi_policy_ros.control.gates import Stream, StreamReport
from openpi_policy_ros.control.history import History
from openpi_policy_ros.control.images import Picture, picture
from openpi_policy_ros.control.joints import JointMap, JointStateMessage, read_joint_state
from openpi_policy_ros.errors import InvalidObservation
from openpi_policy_ros.policies.base import Observation

_log = logging.getLogger('openpi_policy_ros.control')


_NO_POSITIONS = Refusal(
    'come without positions (velocities or efforts only); let the driver publish positions',
    'no positions',
)


class Stamped(Protocol):
    """A message with a ``std_msgs/Header``."""

    header: Any


@dataclass(frozen=True)
class Ready:
    """One observation and what its result will have to be measured against.

    Attributes:
        observation: wire key → value, as a WebSocket client would send it.
        t_obs_ns: the oldest among the newest message of each stream.
        age_ns: how old that is.
        serial: rises with every message; equal serials mean nothing new came in.
        epoch: results of an older epoch no longer count.
        session: number of the session this observation belongs to.

    """

    observation: Observation
    t_obs_ns: int
    age_ns: int
    serial: int
    epoch: int
    session: int


@dataclass(frozen=True)
class Blocked:
    """Why there is no observation; never empty."""

    reasons: tuple[Reason, ...]


@dataclass(frozen=True)
class StreamCounts:
    """What came of every stream.

    Attributes:
        cameras: by name.
        joints: by name.
        pictures: camera → its newest image, usable or not; without those that sent none.

    """

    cameras: Mapping[str, StreamCount]
    joints: Mapping[str, StreamCount]
    pictures: Mapping[str, Picture]


class Assembler:
    """Newest message per camera and per joint, the prompt, and what still counts of them.

    Every method may be called from any thread, except that only one thread may call
    ``snapshot``. Messages are decoded there, not when they arrive.
    """

    def __init__(
        self,
        robot: RobotConfig,
        clock: Callable[[], int],
        resolve: Callable[[str], str] = str,
        steady: Callable[[], int] = time.monotonic_ns,
        *,
        history_offsets: tuple[int, ...] = (),
    ) -> None:
        """Start empty.

        Args:
            robot: a validated robot file.
            clock: returns now in nanoseconds on the clock that stamps are measured against;
                0 = not known yet.
            resolve: returns the full name of a topic, for messages.
            steady: returns nanoseconds on a clock that never jumps.
            history_offsets: as ``PolicySpec.history_offsets``.

        Raises:
            ValueError: there are such offsets and cameras, but no ``timing.action_rate``.

        """
        self._robot = robot
        self._timing = robot.timing
        self._clock = clock
        self._resolve = resolve
        self._steady = steady
        self._lock = threading.Lock()
        self._watch = ClockWatch(robot.safety.clock_jump)
        self._skew = ''
        self.joint_map = JointMap(robot.joints)
        self._wanted = frozenset(self.joint_map.names)
        self._cameras: dict[str, Latest[Any]] = {
            name: Latest(
                f'camera {name!r}', robot.cameras[name].max_age or robot.timing.camera_max_age
            )
            for name in robot.camera_names
        }
        self._joints: dict[str, Latest[float]] = {
            name: Latest(name, robot.timing.joint_max_age) for name in self.joint_map.names
        }
        self._histories: dict[str, History[Any]] = {}
        if history_offsets and robot.camera_names:
            dt_ns = _action_step(robot.timing.action_rate)
            self._histories = {name: History(history_offsets, dt_ns) for name in self._cameras}
        self._decoder = Decoder(robot)
        self._pictures: dict[str, Picture] = {}
        self._prompt = ''
        self._serial = 0
        self._epoch = 0
        self._session = 0

    @property
    def epoch(self) -> int:
        """Return the number of the epoch: it rises with ``restart``, ``forget``, a changed prompt.

        Looks at the clock: a jump is noticed here even if no message has come since.
        """
        with self._lock:
            self._now()
            return self._epoch

    @property
    def session(self) -> int:
        """Return the number of the session; it rises with every restart."""
        with self._lock:
            return self._session

    @property
    def prompt(self) -> str:
        """Return the current prompt, '' = none."""
        with self._lock:
            return self._prompt

    def set_prompt(self, prompt: str) -> bool:
        """Use another instruction from now on; return whether it differs from the last one."""
        with self._lock:
            if prompt == self._prompt:
                return False
            self._prompt = prompt
            self._epoch += 1
            self._serial += 1
            return True

    def explain_silence(self, camera: str, hint: str) -> None:
        """Note why nothing, or too little, comes from a camera; '' = nothing is known."""
        with self._lock:
            self._cameras[camera].hint = hint

    def restart(self) -> None:
        """Begin a new session: forget every message (the prompt stays)."""
        with self._lock:
            self._restart()

    def forget(self) -> None:
        """Forget every message, within the same session: only what comes from now on counts."""
        with self._lock:
            self._forget()

    def streams(self) -> StreamReport:
        """Return how old the newest usable message of each stream is, for the gates.

        Of the joints the one heard longest ago counts; one never heard is told apart (S5).
        """
        with self._lock:
            steady = self._steady()
            streams = {
                one.name: Stream(one.age_ns(steady), one.max_age_ns)
                for one in self._cameras.values()
            }
            if self._joints:
                ages = (one.age_ns(steady) for one in self._joints.values())
                heard = [age for age in ages if age is not None]
                max_age_ns = next(iter(self._joints.values())).max_age_ns
                streams['joint_states'] = Stream(max(heard, default=None), max_age_ns)
            return StreamReport(streams, self._skew)

    def counts(self) -> StreamCounts:
        """Return what came of each stream so far, for the diagnostics."""
        with self._lock:
            steady = self._steady()
            return StreamCounts(
                {name: one.count(steady) for name, one in self._cameras.items()},
                {name: one.count(steady) for name, one in self._joints.items()},
                dict(self._pictures),
            )

    def add_image(self, camera: str, message: Stamped) -> None:
        """Take in the newest image of a camera (raw or compressed as the robot file says)."""
        with self._lock:
            buffer = self._cameras[camera]
            now, steady = self._now()
            stamp = check_stamp(_stamp(message), now, self._timing)
            self._pictures[camera] = picture(message)
            try:
                self._decoder.check(camera, message)
            except InvalidObservation as error:
                buffer.refuse(_unreadable(error))
                return
            if isinstance(stamp, Refusal):
                buffer.refuse(stamp)
                return
            buffer.accept(message, stamp, now, steady)
            if camera in self._histories:
                self._histories[camera].add(newest(buffer))
            self._serial += 1

    def add_joints(self, message: JointStateMessage) -> dict[str, float]:
        """Take in a message of joint positions; it may carry any part of the robot's joints.

        Returns:
            What of it can be used: joint of the robot file → position, rad or m.

        """
        with self._lock:
            now, steady = self._now()
            if message.name and not len(message.position):
                # Legal: a publisher of velocities or efforts only. It says nothing of positions,
                # so it takes none away from the publisher that does.
                for name in self._wanted.intersection(message.name):
                    if self._joints[name].sample is None:
                        self._joints[name].refuse(_NO_POSITIONS)
                return {}
            try:
                positions, problems = read_joint_state(message, self._wanted)
            except InvalidObservation as error:
                # Without names nobody can tell whose positions these are.
                names = self._wanted.intersection(message.name) if message.name else self._wanted
                for name in names:
                    self._joints[name].refuse(_unreadable(error))
                return {}
            stamp = check_stamp(_stamp(message), now, self._timing)
            for name, text in problems.items():
                self._joints[name].refuse(Refusal(text, text))
            if isinstance(stamp, Refusal):
                for name in positions:
                    self._joints[name].refuse(stamp)
                return {}
            for name, position in positions.items():
                self._joints[name].accept(position, stamp, now, steady)
            if positions:
                self._serial += 1
            return positions

    def snapshot(self, begun: int | None = None) -> Ready | Blocked:
        """Return the newest observation, or every reason why there is none.

        Args:
            begun: number of the session in which a call has succeeded already: in every other one
                this observation is the first, which holds no history.

        """
        with self._lock:
            now, _ = self._now()
            reasons = self._reasons(now)
            self._skew = next((one.text for one in reasons if one.kind == 'skew'), '')
            if reasons:
                return Blocked(reasons)
            images = {name: newest(buffer) for name, buffer in self._cameras.items()}
            joints = {name: newest(buffer) for name, buffer in self._joints.items()}
            kept = {name: history.kept for name, history in self._histories.items()}
            prompt, serial = self._prompt, self._serial
            epoch, session = self._epoch, self._session
        observation: dict[str, Any] = {}
        for name, image in images.items():
            try:
                pixels = self._decoder.decode(name, image, kept.get(name, ()))
            except InvalidObservation as error:
                return self._refuse_image(name, image, error)
            if name in kept:
                first = begun != session
                pixels = pixels[np.newaxis] if first else self._look_back(name, kept[name])
            observation[self._robot.cameras[name].key] = pixels
        with self._lock:
            for name, image in images.items():
                self._cameras[name].could_read(image)
        positions = {name: sample.value for name, sample in joints.items()}
        observation.update(self.joint_map.state(positions))
        observation[self._robot.profile.prompt_key] = prompt
        stamps = [sample.stamp_ns for sample in (*images.values(), *joints.values())]
        oldest = min(stamps)
        return Ready(observation, oldest, now - oldest, serial, epoch, session)

    def _now(self) -> tuple[int, int]:
        """Return the node's clock and the steady one; holds the lock."""
        now, steady = self._clock(), self._steady()
        jump = self._watch.jump_ns(now, steady)
        if jump:
            _log.warning(
                'the clock jumped %s by %s to %.3f s: buffers cleared, new session',
                'back' if jump < 0 else 'forward',
                seconds(abs(jump)),
                now / NANOSECONDS,
            )
            self._restart()
        return now, steady

    def _restart(self) -> None:
        self._session += 1
        self._forget()

    def _forget(self) -> None:
        for buffer in (*self._cameras.values(), *self._joints.values()):
            buffer.clear()
        for history in self._histories.values():
            history.clear()
        self._skew = ''
        self._epoch += 1
        self._serial += 1

    def _look_back(self, name: str, kept: tuple[Sample[Any], ...]) -> UInt8Array:
        """Return the frames at the offsets, counted from the newest image of this camera."""
        history, newest_ns = self._histories[name], kept[-1].stamp_ns
        frames, unusable = self._decoder.stack(
            name, kept, lambda some: history.choose(some, newest_ns)
        )
        with self._lock:
            for image in unusable:
                history.discard(image)
        return frames

    def _refuse_image(self, name: str, image: Sample[Any], error: InvalidObservation) -> Blocked:
        refusal = _unreadable(error)
        with self._lock:
            buffer = self._cameras[name]
            buffer.could_not_read(image, refusal)
            if name in self._histories:
                self._histories[name].discard(image)
        return Blocked((refused((buffer.name,), buffer.name, refusal),))

    def _joint_topics(self) -> str:
        """Return the full names of the topics of joint states, for messages."""
        return ' or '.join(self._resolve(topic) for topic, _ in self._robot.joints.topics())

    def _reasons(self, now: int) -> tuple[Reason, ...]:
        reasons: list[Reason] = []
        if now <= 0:
            reasons.append(
                Reason('clock', (), 'use_sim_time is on, but no /clock message has come yet')
            )
        topics = {name: one.topic for name, one in self._robot.cameras.items()}
        reasons += camera_reasons(self._cameras, lambda name: self._resolve(topics[name]), now)
        reasons += joint_reasons(self._joints, self._joint_topics, now)
        if not self._prompt.strip():
            reasons.append(
                Reason(
                    'prompt',
                    (),
                    'no prompt; publish a std_msgs/String on `prompt`, or set default_prompt',
                )
            )
        if not reasons:
            stamps = [
                (stream, what, newest(buffer).stamp_ns)
                for stream, what, buffer in (
                    *((one.name, one.name, one) for one in self._cameras.values()),
                    *(('joint_states', f'joint {n!r}', one) for n, one in self._joints.items()),
                )
            ]
            skew = skew_reason(stamps, self._timing.max_skew)
            if skew is not None:
                reasons.append(skew)
        return tuple(reasons)


def _stamp(message: Any) -> int:
    stamp = message.header.stamp
    return int(stamp.sec) * NANOSECONDS + int(stamp.nanosec)


def _action_step(rate: float | None) -> int:
    if rate is None:
        raise ValueError('timing.action_rate is None, expected the rate of the actions in Hz')
    return round(NANOSECONDS / rate)


def _unreadable(error: InvalidObservation) -> Refusal:
    return Refusal(str(error), str(error))
