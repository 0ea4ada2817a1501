# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Read what a recorder wrote: requests as the policy got them, answers, and the robot's motion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rosbags.rosbag2 import Reader

from openpi_policy_ros.errors import PolicyRosError
from openpi_policy_ros.policies.base import FloatArray, InferenceRequest, SessionKey
from openpi_policy_ros.recording import messages, values
from openpi_policy_ros.recording.bag import METADATA
from openpi_policy_ros.recording.messages import STORE
from openpi_policy_ros.recording.session import (
    CHUNK,
    CHUNK_ARRAY,
    CONTROLLER,
    INFERENCE,
    RECORDING,
    SCHEMA,
    read_rtc,
)

JOINT_STATES = 'sensor_msgs/msg/JointState'
TRAJECTORY = 'trajectory_msgs/msg/JointTrajectory'
ARRAY = 'std_msgs/msg/Float64MultiArray'


_HEADER = {'door', 'connection', 'session', 'node', 'policy', 'robot', 'version'}
"""Keys of what ``~/recording`` says that are read here."""


@dataclass(frozen=True)
class Recorded:
    """One inference.

    Attributes:
        number: 1 for the first of the session; a gap was dropped.
        request: as the policy got it, bit by bit.
        actions: the answer, float32 [H, D]; None = it failed.
        error: why.
        observed_ns: when the policy began.
        answered_ns: when it had ended.
        timing_ms: stage → milliseconds.

    """

    number: int
    request: InferenceRequest
    actions: FloatArray | None
    error: str
    observed_ns: int
    answered_ns: int
    timing_ms: dict[str, float]


@dataclass
class Track:
    """One number of the robot over time; lists of equal length.

    Attributes:
        times_ns: rising.
        values: ROS units.

    """

    times_ns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


@dataclass
class Motion:
    """What happened to the joints.

    Attributes:
        measured: joint → positions.
        commanded: joint → what was sent; of a trajectory its points, each at its own time.
        planned: joint → chunks as they came, (times, values) each.
        states: (time, state) whenever the robot's door said one.
        end_ns: of the newest message.

    """

    measured: dict[str, Track] = field(default_factory=dict)
    commanded: dict[str, Track] = field(default_factory=dict)
    planned: dict[str, list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]] = field(
        default_factory=dict
    )
    states: list[tuple[int, str]] = field(default_factory=list)
    end_ns: int = 0

    def spans(self, state: str) -> list[tuple[int, int]]:
        """Return when the robot's door was in a state: (from, to) each, ns."""
        ends = [time_ns for time_ns, _ in self.states[1:]] + [self.end_ns]
        return [
            (start, max(start, end))
            for (start, one), end in zip(self.states, ends, strict=False)
            if one == state
        ]


class Recording:
    """One bag of a session.

    Args:
        folder: holds ``metadata.yaml`` and the MCAP file.

    Attributes:
        folder: as handed in.
        header: what ``~/recording`` says.

    Raises:
        PolicyRosError: no such bag, one that was not closed, or none of a recorder.

    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            with Reader(folder) as reader:
                self.counts = {one.topic: one.msgcount for one in reader.connections}
                self.duration_s = 1e-9 * reader.duration
        except Exception as error:
            # Where the index is damaged, numbers of any size and text of any kind come of it.
            raise PolicyRosError(
                f'{folder} cannot be read: {_said(error)}',
                remedy='if its process was killed, or its disk failed: openpi-policy replay '
                f'--repair {folder}',
            ) from None
        with self._undamaged():
            self.header = self._header()

    @property
    def name(self) -> str:
        """Return the name of the folder."""
        return self.folder.name

    @cached_property
    def action_names(self) -> tuple[str, ...]:
        """Return one label per column of a chunk."""
        return tuple(self.header['policy']['action_names'])

    @property
    def action_rate(self) -> float | None:
        """Return the rate of the actions in Hz; None = nobody said."""
        config = self.header['robot']['config']
        rate = None if config is None else config['timing']['action_rate']
        return rate if rate is None else float(rate)

    def inferences(self) -> Iterator[Recorded]:
        """Yield every inference in its order, one at a time in memory.

        Raises:
            PolicyRosError: an observation that is not whole, or a damaged file.

        """
        with self._undamaged():
            yield from self._inferences()

    def _inferences(self) -> Iterator[Recorded]:
        node = self.header['node']
        own = f'{node}/{values.FOLDER}/'
        pictures: dict[tuple[str, int], list[Any]] = {}
        chunks: dict[int, Any] = {}
        wanted = {f'{node}/{INFERENCE}', f'{node}/{CHUNK_ARRAY}'}
        for topic, time_ns, message in self._messages(
            lambda name, kind: name in wanted or (name.startswith(own) and kind != ARRAY)
        ):
            if topic.startswith(own):
                name = topic[len(node) + 1 :]
                key = name, messages.nanoseconds(message.header.stamp)
                pictures.setdefault(key, []).append(messages.pixels_of(message))
            elif topic.endswith(CHUNK_ARRAY):
                chunks[time_ns] = message
            else:
                told = json.loads(message.data)
                yield self._recorded(told, pictures, chunks.get(told['answered_ns']))
                # Older ones belong to an inference that was torn.
                kept = {key: all_ for key, all_ in pictures.items() if key[1] > time_ns}
                pictures, chunks = kept, {}

    def motion(self) -> Motion:
        """Return measured, commanded and planned joints.

        Raises:
            PolicyRosError: a damaged file.

        """
        with self._undamaged():
            return self._motion()

    def _motion(self) -> Motion:
        config = self.header['robot']['config'] or {}
        outputs = config.get('outputs', {})
        planned = f'{self.header["node"]}/{CHUNK}'
        own = f'{self.header["node"]}/'
        states = f'{own}{CONTROLLER}'
        motion = Motion()
        for topic, time_ns, message in self._messages(
            lambda name, kind: (
                name == states
                or kind in (JOINT_STATES, TRAJECTORY)
                or (kind == ARRAY and not name.startswith(own))
            )
        ):
            motion.end_ns = max(motion.end_ns, time_ns)
            if topic == states:
                motion.states.append((time_ns, message.data.partition(':')[0]))
            elif message.__msgtype__ == JOINT_STATES:
                for joint, value in zip(message.name, message.position, strict=False):
                    _add(motion.measured, joint, time_ns, float(value))
            elif topic == planned:
                _plan(motion, message)
            elif message.__msgtype__ == TRAJECTORY:
                _command(motion, message, _joints(outputs, topic), time_ns)
            else:
                for joint, value in zip(_joints(outputs, topic), message.data, strict=False):
                    _add(motion.commanded, joint, time_ns, float(value))
        return motion

    @contextmanager
    def _undamaged(self) -> Iterator[None]:
        """Tell what reading a damaged file ends with, each library and message in its own way."""
        try:
            yield
        except PolicyRosError:
            raise
        except Exception as error:
            raise PolicyRosError(
                f'{self.folder} is damaged: {_said(error)}',
                remedy=f'to save what comes before the damage, delete its {METADATA}, then: '
                f'openpi-policy replay --repair {self.folder}',
            ) from error

    def _header(self) -> dict[str, Any]:
        for _, _, message in self._messages(lambda name, _: name.endswith(f'/{RECORDING}')):
            try:
                header: dict[str, Any] = json.loads(message.data)
                schema = header['schema']
            except (AttributeError, ValueError, KeyError, TypeError):
                break
            if schema == SCHEMA and not header.keys() >= _HEADER:
                break
            if schema != SCHEMA:
                raise PolicyRosError(
                    f'{self.folder} was recorded in format {schema}',
                    expected=str(SCHEMA),
                    remedy='use the version that wrote it, or a newer one',
                )
            return header
        raise PolicyRosError(
            f'{self.folder} is a bag, but not one of this package',
            expected='a topic …/recording that tells policy and robot',
            remedy='record with openpi-policy serve --record, or the parameter record',
        )

    def _messages(self, wanted: Any) -> Iterator[tuple[str, int, Any]]:
        with Reader(self.folder) as reader:
            chosen = [one for one in reader.connections if wanted(one.topic, one.msgtype)]
            if not chosen:
                return
            for connection, time_ns, data in reader.messages(chosen):
                yield (
                    connection.topic,
                    time_ns,
                    STORE.deserialize_cdr(data, connection.msgtype),
                )

    def _recorded(
        self,
        told: dict[str, Any],
        pictures: dict[tuple[str, int], list[Any]],
        chunk: Any,
    ) -> Recorded:
        observed_ns = int(told['observed_ns'])
        try:
            observation = values.read(
                told['observation'], lambda name: pictures.get((name, observed_ns), [])
            )
        except ValueError as error:
            raise PolicyRosError(
                f'{self.folder}: inference {told["number"]} cannot be repeated: {error}'
            ) from None
        request = InferenceRequest(
            observation,
            SessionKey(self.name, str(self.header['session'])),
            reset=told['reset'],
            seed=told['seed'],
            num_inference_steps=told['num_inference_steps'],
            rtc=read_rtc(told['rtc']),
        )
        actions = None if chunk is None else messages.rows_of(chunk).astype(np.float32)
        return Recorded(
            told['number'],
            request,
            actions,
            told['error'],
            observed_ns,
            told['answered_ns'],
            told.get('timing_ms', {}),
        )


def _said(error: Exception) -> str:
    return f'{type(error).__name__}: {error}'.removesuffix(': ')


def bags(folder: Path) -> list[Path]:
    """Return the bags in a folder, or the folder itself where it is one.

    Raises:
        PolicyRosError: there is none.

    """
    if not folder.is_dir():
        raise PolicyRosError(f'{folder} is no folder', expected='a bag, or a folder of bags')
    if is_bag(folder):
        return [folder]
    found = sorted(one for one in folder.iterdir() if one.is_dir() and is_bag(one))
    if not found:
        raise PolicyRosError(
            f'{folder} holds no bag', expected='folders with an .mcap file, as --record writes'
        )
    return found


def is_bag(folder: Path) -> bool:
    """Return whether a folder is a bag, if perhaps one that was not closed."""
    return (folder / METADATA).exists() or any(folder.glob('*.mcap'))


def _add(tracks: dict[str, Track], joint: str, time_ns: int, value: float) -> None:
    track = tracks.setdefault(joint, Track())
    track.times_ns.append(time_ns)
    track.values.append(value)


def _values(point: Any) -> Any:
    return point.positions if len(point.positions) else point.velocities


def _plan(motion: Motion, message: Any) -> None:
    start = messages.nanoseconds(message.header.stamp)
    times = np.array(
        [start + messages.nanoseconds(point.time_from_start) for point in message.points], np.int64
    )
    rows = np.array([_values(point) for point in message.points], np.float64)
    for column, joint in enumerate(message.joint_names):
        motion.planned.setdefault(joint, []).append((times, rows[:, column]))


def _joints(outputs: dict[str, Any], topic: str) -> list[str]:
    """Return the joints behind the output on a topic, which the file names without namespace."""
    fitting = [one for one in outputs.values() if topic.endswith('/' + one['topic'].lstrip('~/'))]
    longest: dict[str, Any] = max(
        fitting, key=lambda one: len(one['topic']), default={'joints': []}
    )
    return list(longest['joints'])


def _command(motion: Motion, message: Any, joints: list[str], time_ns: int) -> None:
    # The controller may call them otherwise, but in this order.
    names = joints or list(message.joint_names)
    # What is sent later takes the place of points that have not come yet; the first is enough.
    for joint, value in zip(names, _values(message.points[0]), strict=True):
        due = time_ns + messages.nanoseconds(message.points[0].time_from_start)
        _add(motion.commanded, joint, due, float(value))
