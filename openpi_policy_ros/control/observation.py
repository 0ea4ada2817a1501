# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Assemble the robot's newest messages into one observation, or say exactly why there is none.

The observation is the one a WebSocket client of the same robot sends: the profile's keys, layout
and colour order, so that both doors pass the same reader in the policy.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.buffers import (
    NANOSECONDS,
    ClockWatch,
    Latest,
    Reason,
    Refusal,
    Sample,
    check_stamp,
    skew_reason,
    stale_text,
)
from openpi_policy_ros.control.encodings import UInt8Array
from openpi_policy_ros.control.framing import check_crop, frame
from openpi_policy_ros.control.images import (
    check_compressed_image,
    check_image,
    decode_compressed_image,
    decode_image,
)
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
        serial: rises with every message; equal serials mean nothing new came in.
        epoch: results of an older epoch no longer count.
        session: number of the session this observation belongs to.

    """

    observation: Observation
    t_obs_ns: int
    serial: int
    epoch: int
    session: int


@dataclass(frozen=True)
class Blocked:
    """Why there is no observation; never empty."""

    reasons: tuple[Reason, ...]


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
    ) -> None:
        """Start empty.

        Args:
            robot: a validated robot file.
            clock: returns now in nanoseconds on the clock that stamps are measured against;
                0 = not known yet.
            resolve: returns the full name of a topic, for messages.

        """
        self._robot = robot
        self._timing = robot.timing
        self._clock = clock
        self._resolve = resolve
        self._lock = threading.Lock()
        self._watch = ClockWatch()
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
        self._decoded: dict[str, tuple[Sample[Any], UInt8Array]] = {}
        self._prompt = ''
        self._serial = 0
        self._epoch = 0
        self._session = 0

    @property
    def epoch(self) -> int:
        """Return the number of the epoch; it rises with a restart and with a changed prompt.

        Looks at the clock: a jump back is noticed here even if no message has come since.
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

    def add_image(self, camera: str, message: Stamped) -> None:
        """Take in the newest image of a camera (raw or compressed as the robot file says)."""
        with self._lock:
            buffer = self._cameras[camera]
            now = self._now()
            stamp = check_stamp(_stamp(message), now, self._timing)
            try:
                self._check(camera, message)
            except InvalidObservation as error:
                buffer.refuse(_unreadable(error))
                return
            if isinstance(stamp, Refusal):
                buffer.refuse(stamp)
                return
            buffer.accept(message, stamp, now)
            self._serial += 1

    def add_joints(self, message: JointStateMessage) -> None:
        """Take in a message of joint positions; it may carry any part of the robot's joints."""
        with self._lock:
            now = self._now()
            if message.name and not len(message.position):
                # Legal: a publisher of velocities or efforts only. It says nothing of positions,
                # so it takes none away from the publisher that does.
                for name in self._wanted.intersection(message.name):
                    if self._joints[name].sample is None:
                        self._joints[name].refuse(_NO_POSITIONS)
                return
            try:
                positions, problems = read_joint_state(message, self._wanted)
            except InvalidObservation as error:
                # Without names nobody can tell whose positions these are.
                names = self._wanted.intersection(message.name) if message.name else self._wanted
                for name in names:
                    self._joints[name].refuse(_unreadable(error))
                return
            stamp = check_stamp(_stamp(message), now, self._timing)
            for name, text in problems.items():
                self._joints[name].refuse(Refusal(text, text))
            if isinstance(stamp, Refusal):
                for name in positions:
                    self._joints[name].refuse(stamp)
                return
            for name, position in positions.items():
                self._joints[name].accept(position, stamp, now)
            if positions:
                self._serial += 1

    def snapshot(self) -> Ready | Blocked:
        """Return the newest observation, or every reason why there is none."""
        with self._lock:
            now = self._now()
            reasons = self._reasons(now)
            if reasons:
                return Blocked(reasons)
            images = {name: _sample(buffer) for name, buffer in self._cameras.items()}
            joints = {name: _sample(buffer) for name, buffer in self._joints.items()}
            prompt, serial = self._prompt, self._serial
            epoch, session = self._epoch, self._session
        observation: dict[str, Any] = {}
        for name, image in images.items():
            try:
                observation[self._robot.cameras[name].key] = self._decode(name, image)
            except InvalidObservation as error:
                return self._refuse_image(name, image, error)
        positions = {name: sample.value for name, sample in joints.items()}
        observation.update(self.joint_map.state(positions))
        observation[self._robot.profile.prompt_key] = prompt
        stamps = [sample.stamp_ns for sample in (*images.values(), *joints.values())]
        return Ready(observation, min(stamps), serial, epoch, session)

    def _now(self) -> int:
        now = self._clock()
        if self._watch.jumped_back(now):
            _log.warning(
                'the clock jumped back to %.3f s: buffers cleared, new session', now / NANOSECONDS
            )
            self._restart()
        return now

    def _restart(self) -> None:
        for buffer in (*self._cameras.values(), *self._joints.values()):
            buffer.clear()
        self._session += 1
        self._epoch += 1
        self._serial += 1

    def _check(self, camera: str, message: Any) -> None:
        """Refuse what can be told at arrival; the size of a compressed image cannot."""
        name = self._cameras[camera].name
        settings = self._robot.cameras[camera]
        if settings.transport == 'compressed':
            check_compressed_image(message, name=name)
        else:
            check_image(message, name=name)
            check_crop(settings.crop, message.height, message.width, name=name)

    def _decode(self, name: str, image: Sample[Any]) -> UInt8Array:
        """Return the frame; a camera that sent nothing new is not decoded again."""
        known = self._decoded.get(name)
        if known is not None and known[0] is image:
            return known[1]
        profile, settings = self._robot.profile, self._robot.cameras[name]
        who = self._cameras[name].name
        decode: Callable[..., UInt8Array] = (
            decode_compressed_image if settings.transport == 'compressed' else decode_image
        )
        pixels = decode(image.value, profile.colour_order, name=who)
        pixels = frame(pixels, settings.crop, settings.rotate, name=who)
        if profile.layout == 'CHW':
            pixels = pixels.transpose(2, 0, 1)
        self._decoded[name] = (image, pixels)
        return pixels

    def _refuse_image(self, name: str, image: Sample[Any], error: InvalidObservation) -> Blocked:
        refusal = _unreadable(error)
        with self._lock:
            buffer = self._cameras[name]
            if buffer.sample is image:
                buffer.refuse(refusal)
        return Blocked((_refused((buffer.name,), buffer.name, refusal),))

    def _reasons(self, now: int) -> tuple[Reason, ...]:
        reasons: list[Reason] = []
        if now <= 0:
            reasons.append(
                Reason('clock', (), 'use_sim_time is on, but no /clock message has come yet')
            )
        reasons += self._camera_reasons(now)
        reasons += self._joint_reasons(now)
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
                (stream, what, _sample(buffer).stamp_ns)
                for stream, what, buffer in (
                    *((one.name, one.name, one) for one in self._cameras.values()),
                    *(('joint_states', f'joint {n!r}', one) for n, one in self._joints.items()),
                )
            ]
            skew = skew_reason(stamps, self._timing.max_skew)
            if skew is not None:
                reasons.append(skew)
        return tuple(reasons)

    def _camera_reasons(self, now: int) -> list[Reason]:
        reasons: list[Reason] = []
        for name, buffer in self._cameras.items():
            streams = (buffer.name,)
            if buffer.refusal is not None:
                reasons.append(_refused(streams, buffer.name, buffer.refusal))
            elif buffer.sample is None:
                topic = self._resolve(self._robot.cameras[name].topic)
                hint = f' ({buffer.hint})' if buffer.hint else ''
                text = f'{buffer.name}: no image on {topic} yet{hint}'
                reasons.append(Reason('missing', streams, text, buffer.hint))
            elif buffer.is_stale(now):
                text = stale_text(buffer.sample, buffer.max_age_ns, now)
                hint = f'; {buffer.hint}' if buffer.hint else ''
                reasons.append(Reason('stale', streams, f'{buffer.name} {text}{hint}', buffer.hint))
        return reasons

    def _joint_reasons(self, now: int) -> list[Reason]:
        """Return one reason per kind of trouble, naming all its joints."""
        reasons: list[Reason] = []
        missing = [
            name for name, one in self._joints.items() if one.sample is None and one.refusal is None
        ]
        if missing:
            topic = self._resolve('joint_states')
            text = f'joint_states: no message on {topic} has named {_list(missing)} yet'
            reasons.append(Reason('missing', tuple(missing), text))
        refused: dict[str, list[str]] = {}
        for name, one in self._joints.items():
            if one.refusal is not None:
                refused.setdefault(one.refusal.detail, []).append(name)
        for names in refused.values():
            refusal = self._joints[names[0]].refusal
            assert refusal is not None
            reasons.append(_refused(tuple(names), f'joint_states: {_list(names)}', refusal))
        stale = [name for name, one in self._joints.items() if one.is_stale(now)]
        if stale:
            oldest = min(
                (self._joints[name] for name in stale), key=lambda one: _sample(one).stamp_ns
            )
            text = stale_text(_sample(oldest), oldest.max_age_ns, now)
            reasons.append(Reason('stale', tuple(stale), f'joint_states: {_list(stale)} {text}'))
        return reasons


def _stamp(message: Any) -> int:
    stamp = message.header.stamp
    return int(stamp.sec) * NANOSECONDS + int(stamp.nanosec)


def _sample(buffer: Latest[Any]) -> Sample[Any]:
    assert buffer.sample is not None
    return buffer.sample


def _unreadable(error: InvalidObservation) -> Refusal:
    return Refusal(str(error), str(error))


def _refused(streams: tuple[str, ...], who: str, refusal: Refusal) -> Reason:
    # The text of an InvalidObservation names its stream already.
    named = refusal.text.startswith(('camera ', 'joint_states'))
    text = refusal.text if named else f'{who} {refusal.text}'
    return Reason('refused', streams, text, refusal.detail)


def _list(names: Sequence[str]) -> str:
    return ', '.join(names)
