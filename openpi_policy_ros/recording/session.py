# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What one session's bag holds, and on which topics."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from openpi_policy_ros import __version__
from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.chunk import ChunkLayout
from openpi_policy_ros.engine import Lane
from openpi_policy_ros.policies.base import (
    ACTIONS,
    ActionChunk,
    InferenceRequest,
    PolicySpec,
    RtcPrefix,
)
from openpi_policy_ros.recording import messages, values
from openpi_policy_ros.recording.bag import BagWriter

SCHEMA = 1
"""Of the JSON in ``~/recording`` and ``~/inference``; rises where an old reader would err."""

RECORDING, INFERENCE = 'recording', 'inference'
CHUNK, CHUNK_ARRAY, MODEL_ACTIONS = 'action_chunk', 'action_chunk_array', 'model_actions'
PROMPT, STATUS, CONTROLLER = 'current_prompt', 'status', 'controller_state'
NODE = '/openpi_policy'


@dataclass(frozen=True)
class Setting:
    """What every bag of one run says of itself.

    Attributes:
        spec: of the policy.
        node: full name of the node, whose own topics lie below it.
        robot: the robot file as it was understood; None = there is none.
        robot_name: as the user named it.
        robot_text: the file itself.
        device: torch device.

    """

    spec: PolicySpec
    node: str = NODE
    robot: RobotConfig | None = None
    robot_name: str = ''
    robot_text: str = ''
    device: str = ''

    @property
    def layout(self) -> ChunkLayout | None:
        """Return how a chunk reads on the robot; None = nobody knows."""
        return None if self.robot is None else ChunkLayout(self.robot, self.spec)

    def header(self, door: str, connection: str, session: str) -> dict[str, Any]:
        """Return what ``~/recording`` says, first in every bag."""
        fields = set(RobotConfig.model_fields)
        robot = None if self.robot is None else self.robot.model_dump(mode='json', include=fields)
        return {
            'schema': SCHEMA,
            'version': __version__,
            'python': sys.version.split()[0],
            'numpy': np.__version__,
            'door': door,
            'connection': connection,
            'session': session,
            'node': self.node,
            'device': self.device,
            'policy': asdict(self.spec),
            'robot': {'name': self.robot_name, 'file': self.robot_text, 'config': robot},
        }


@dataclass(frozen=True)
class Inference:
    """One request that ran, as the worker handed it over; nothing is copied yet.

    Attributes:
        number: 1 for the first of its session; one that was dropped leaves a gap.
        request: with the very arrays that the policy got.
        lane: the door.
        chunk: the answer; None = it failed.
        error: why, '' = it did not.
        answered_ns: when, ROS time of the node, else since 1970.

    """

    number: int
    request: InferenceRequest
    lane: Lane
    chunk: ActionChunk | None
    error: str
    answered_ns: int

    @property
    def size(self) -> int:
        """Return about how many bytes this holds in memory."""
        held = _bytes(self.request.observation)
        if self.request.rtc is not None:
            held += self.request.rtc.leftover.nbytes
        if self.chunk is not None:
            held += sum(array.nbytes for array in self.chunk.outputs.values())
            held += 0 if self.chunk.model_actions is None else self.chunk.model_actions.nbytes
        return held + 1024


class SessionBag:
    """One open bag, which knows how to write an inference.

    Args:
        folder: must not exist.
        setting: of the run.
        first: the inference that begins the session.

    """

    def __init__(self, folder: Path, setting: Setting, first: Inference) -> None:
        self._setting = setting
        self._layout = setting.layout
        profile = None if setting.robot is None else setting.robot.profile
        self._chw = profile is not None and profile.layout == 'CHW'
        self._bgr = profile is not None and profile.colour_order == 'BGR'
        self._prompt_key = 'prompt' if profile is None else profile.prompt_key
        self._prompt: str | None = None
        self._last_ns = 0
        self.lane = first.lane
        self.bag = BagWriter(folder)
        key = first.request.session
        header = setting.header(first.lane.name.lower(), key.connection, key.session_id)
        # Observed before it was answered, and the header comes before all else.
        self.began_ns = first.answered_ns - _took_ns(first) - 1
        self.write(self.own(RECORDING), messages.text(_json(header)), self.began_ns)

    def own(self, name: str) -> str:
        """Return the full name of a topic of the node itself (``~/name``)."""
        return f'{self._setting.node}/{name}'

    def write(self, topic: str, message: messages.Message, time_ns: int) -> int:
        """Append one message; return its bytes."""
        return self.bag.write(topic, message, time_ns)

    def infer(self, one: Inference) -> int:
        """Append an inference; return its bytes.

        Everything observed is stamped with one time, everything answered is at another: the reader
        finds what belongs together by it.
        """
        # Equal times would join two inferences.
        observed_ns = max(one.answered_ns - _took_ns(one), self._last_ns + 1)
        taken = values.write(one.request.observation, chw=self._chw)
        # Readers sort by time alone, so frames and what closes the inference need times of their
        # own, a nanosecond apart.
        frames = max(map(len, taken.images.values()), default=0)
        answered_ns = max(one.answered_ns, observed_ns + frames + 1)
        self._last_ns = answered_ns + 1
        size = self._observation(one, taken, observed_ns)
        if one.chunk is not None:
            size += self._chunk(one, one.chunk, observed_ns, answered_ns)
        told = {
            'number': one.number,
            'observed_ns': observed_ns,
            'answered_ns': answered_ns,
            'observation': taken.tree,
            'reset': one.request.reset,
            'seed': one.request.seed,
            'num_inference_steps': one.request.num_inference_steps,
            'rtc': _write_rtc(one.request.rtc),
            'error': one.error,
            **_result(one.chunk),
        }
        # Last, so that one without it is known to be torn.
        return size + self.write(self.own(INFERENCE), messages.text(_json(told)), self._last_ns)

    def _observation(self, one: Inference, taken: values.Written, time_ns: int) -> int:
        size = 0
        for name, frames in taken.images.items():
            for number, frame in enumerate(frames):
                picture = messages.image(frame, time_ns, name, bgr=self._bgr)
                size += self.write(self.own(name), picture, time_ns + number)
        for name, vector in taken.vectors.items():
            size += self.write(self.own(name), messages.numbers(vector), time_ns)
        prompt = one.request.observation.get(self._prompt_key, self._setting.spec.default_prompt)
        prompt = str(prompt)
        if prompt != self._prompt:
            self._prompt = prompt
            size += self.write(self.own(PROMPT), messages.text(prompt), time_ns)
        return size

    def _chunk(self, one: Inference, chunk: ActionChunk, observed_ns: int, time_ns: int) -> int:
        array = messages.numbers(chunk.actions, self._setting.spec.action_names)
        size = self.write(self.own(CHUNK_ARRAY), array, time_ns)
        if chunk.model_actions is not None:
            rows = messages.numbers(
                chunk.model_actions, [f'm{i}' for i in range(chunk.model_actions.shape[1])]
            )
            size += self.write(self.own(MODEL_ACTIONS), rows, time_ns)
        if one.lane is Lane.REMOTE:
            # The robot's own comes from its door, which knows when it was observed.
            size += self.trajectory(chunk, observed_ns, time_ns)
        return size

    def trajectory(self, chunk: ActionChunk, stamp_ns: int, time_ns: int) -> int:
        """Append a chunk as joint rows, where it can be written so."""
        rows = None if self._layout is None else self._layout.trajectory(chunk)
        if rows is None:
            return 0
        message = messages.trajectory(rows.names, rows.quantity, rows.rows, rows.times_ns, stamp_ns)
        return self.write(self.own(CHUNK), message, time_ns)


def read_rtc(node: Mapping[str, Any] | None) -> RtcPrefix | None:
    """Return the rest of a chunk that a request came with."""
    if node is None:
        return None
    return RtcPrefix(
        values.read_array(node['leftover']),
        node['inference_delay'],
        node['execution_horizon'],
        None if node['state'] is None else values.read_array(node['state']),
        node['robot_units'],
    )


def _write_rtc(rtc: RtcPrefix | None) -> dict[str, Any] | None:
    if rtc is None:
        return None
    return {
        'leftover': values.write_array(rtc.leftover),
        'inference_delay': rtc.inference_delay,
        'execution_horizon': rtc.execution_horizon,
        'state': None if rtc.state is None else values.write_array(rtc.state),
        'robot_units': rtc.robot_units,
    }


def _result(chunk: ActionChunk | None) -> dict[str, Any]:
    if chunk is None:
        return {}
    return {
        'timing_ms': dict(chunk.timing_ms),
        'state': None if chunk.state is None else values.write_array(chunk.state),
        'outputs': {
            name: values.write_array(array)
            for name, array in chunk.outputs.items()
            if name != ACTIONS
        },
    }


def _took_ns(one: Inference) -> int:
    took = 0.0 if one.chunk is None else one.chunk.timing_ms.get('infer', 0.0)
    return round(1e6 * took)


def _bytes(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(_bytes(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return sum(_bytes(item) for item in value)
    return int(getattr(value, 'nbytes', 64))


def _json(value: Any) -> str:
    # A handshake may hold what JSON has no form for; it is there to be read, not to be replayed.
    return json.dumps(value, default=_plain, allow_nan=True)


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return list(value) if isinstance(value, (tuple, set, frozenset)) else str(value)
