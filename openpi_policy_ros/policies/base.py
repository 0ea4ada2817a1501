# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The seam everything hangs on: what a policy is, what goes in and what comes out.

Both doors (the OpenPI WebSocket server and the ROS node) build the same observation, the engine
hands it to the same policy, and neither door can tell where the policy runs. Nothing here knows
about sockets, ROS or torch.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.errors import InvalidObservation

Observation: TypeAlias = Mapping[str, Any]
"""One observation as the robot names it: wire key → value.

Values are NumPy arrays (images uint8 or float32, HWC or CHW as the profile says; states float),
``str`` for the prompt, or nested mappings of these. Arrays may be read-only views into a network
buffer: a policy copies what it changes. Control keys (``endpoint``, ``session_id``, ``seed``,
``sampling_params``, and where it was offered ``rtc/prev_actions``, ``rtc/delay``) have been removed
by the door.
"""

FloatArray: TypeAlias = npt.NDArray[np.float32]

ACTIONS = 'actions'
"""Name of the output every policy declares: the chunk of actions, float32 [H, D]."""

QUEUE, INFER = 'queue', 'infer'
"""Stages of ``ActionChunk.timing_ms`` that the engine adds."""


@dataclass(frozen=True)
class SessionKey:
    """Owner of model-side state: two connections that both say ``default`` are two sessions."""

    connection: str
    session_id: str

    def __str__(self) -> str:
        """Return ``connection/session_id`` for log lines."""
        return f'{self.connection}/{self.session_id}'


@dataclass(frozen=True)
class RtcPrefix:
    """What real-time chunking needs to know of the chunk being executed.

    Attributes:
        leftover: not yet executed rows of the previous chunk, float32 [T, D], T >= 1: in model
            space (rows of ``ActionChunk.model_actions``), or with ``robot_units`` as the robot got
            them (rows of ``outputs['actions']``).
        inference_delay: rows that will have been executed when the new chunk arrives, >= 0.
        execution_horizon: rows the guidance reaches over; None = the policy's configured one.
        state: the state the leftover was made from (``ActionChunk.state``), float32 [S]; needed in
            model space by a policy whose actions are relative to it.
        robot_units: which of the two ``leftover`` is.

    """

    leftover: FloatArray
    inference_delay: int
    execution_horizon: int | None = None
    state: FloatArray | None = None
    robot_units: bool = False


@dataclass(frozen=True)
class InferenceRequest:
    """One call to a policy.

    Attributes:
        observation: see ``Observation``.
        session: whose model-side state to use.
        reset: start that state afresh before this call.
        seed: None draws independent noise, or is the seed that the policy is configured with
            (DreamZero); equal seed and observation (and, for a stateful policy, equal history)
            give an equal chunk.
        num_inference_steps: sampler steps for this call; None = the policy's configured number.
        rtc: previous chunk for real-time chunking, only where ``spec.supports_rtc``.

    """

    observation: Observation
    session: SessionKey
    reset: bool = False
    seed: int | None = None
    num_inference_steps: int | None = None
    rtc: RtcPrefix | None = None


@dataclass(frozen=True)
class ActionChunk:
    """A policy's answer.

    Attributes:
        outputs: output name → float32 array, not written to again by the policy.
            ``outputs['actions']`` is [H, D] in the robot's units, cropped to the profile.
        model_actions: the chunk in model space (normalised, uncropped), float32
            [chunk_size, max_action_dim], for a later ``RtcPrefix``; None where unsupported.
        state: the raw state the chunk answers, float32 [S], for a later ``RtcPrefix``.
        imagined: the future that the policy saw before it with this chunk, uint8 RGB [T, H, W, 3];
            None = it imagines none, or was not told to show it.
        imagined_fps: frames of ``imagined`` to a second of the robot's time; None = unknown.
        timing_ms: stage → milliseconds, e.g. ``preprocess``, ``model``; stages may contain one
            another. The engine adds ``queue`` (waiting for the worker) and ``infer`` (the whole
            call of the policy).

    """

    outputs: Mapping[str, FloatArray]
    model_actions: FloatArray | None = None
    timing_ms: Mapping[str, float] = field(default_factory=dict)
    state: FloatArray | None = None
    imagined: npt.NDArray[np.uint8] | None = None
    imagined_fps: float | None = None

    @property
    def actions(self) -> FloatArray:
        """Return the chunk of actions, float32 [H, D]."""
        return self.outputs[ACTIONS]


@dataclass(frozen=True)
class CameraSpec:
    """One camera slot of a policy.

    Attributes:
        feature: name of the model input, e.g. ``observation.images.base_0_rgb``.
        wire_keys: observation keys that may carry the image (the profile's map applied).
        required: False = a missing image is masked; True = it is an error.

    """

    feature: str
    wire_keys: tuple[str, ...]
    required: bool


@dataclass(frozen=True)
class StateSpec:
    """The proprioceptive state: keys concatenated in order into one vector.

    Attributes:
        wire_keys: observation keys, concatenated in this order.
        max_dim: widest state the model takes.

    """

    wire_keys: tuple[str, ...]
    max_dim: int


@dataclass(frozen=True)
class PolicySpec:
    """What the doors need to know of a loaded policy, fixed for its lifetime.

    Attributes:
        name: registry entry, e.g. ``pi0``.
        model: directory or hub id the weights came from.
        revision: hub commit, or '' for a local directory.
        default_prompt: instruction used where an observation has none; '' = none is set, and such
            an observation is an error.
        weights_hash: short digest that tells two sets of weights apart, or '' for a remote policy.
        cameras: camera slots in model order.
        state: the proprioceptive state.
        horizon: rows H of the chunk in ``outputs['actions']``, after the profile's crop.
        action_dim: columns D of it, after the profile's crop.
        action_space: e.g. ``joint_position``, ``joint_velocity``; '' where nobody declared it.
        action_names: one label per column, length D.
        output_shapes: every declared output → shape; always contains ``actions``.
        stateful: True when a session carries model-side state from call to call.
        handshake: the ``policy_server_config`` sent to OpenPI clients verbatim; None = none
            declared (the OpenPI path then answers "unsupported").
        supports_rtc: whether ``InferenceRequest.rtc`` may be set.
        max_batch: most requests ``infer`` takes at once.
        max_in_flight: calls to ``infer`` that may run at the same time. 1 for a policy on the
            local device; more for one that lives elsewhere and is merely awaited.
        history_offsets: which images of each camera the policy sees, in action steps from the
            newest, oldest first, e.g. (-23, -16, -8, 0): an image then comes with a leading time
            axis, with one frame in the first call of a session and one per offset in later ones.
            () = the newest image alone, without that axis.
        default_seed: what a request without a seed is answered with; None = independent noise.
        imagines: whether chunks come with the video that the policy imagined.

    Raises:
        ValueError: ``history_offsets`` do not rise strictly, or do not end with 0.

    """

    name: str
    model: str
    cameras: tuple[CameraSpec, ...]
    state: StateSpec
    horizon: int
    action_dim: int
    action_space: str
    action_names: tuple[str, ...]
    output_shapes: Mapping[str, tuple[int, ...]]
    handshake: Mapping[str, Any] | None
    revision: str = ''
    weights_hash: str = ''
    default_prompt: str = ''
    stateful: bool = False
    supports_rtc: bool = False
    max_batch: int = 1
    max_in_flight: int = 1
    history_offsets: tuple[int, ...] = ()
    default_seed: int | None = None
    imagines: bool = False

    def __post_init__(self) -> None:
        """Refuse a history whose order nobody could tell."""
        offsets = self.history_offsets
        if offsets and (offsets[-1] != 0 or list(offsets) != sorted(set(offsets))):
            raise ValueError(
                f'history_offsets of policy {self.name!r} are {offsets}, expected action steps '
                'that rise strictly and end with 0 (the newest image), e.g. (-23, -16, -8, 0)'
            )


InferenceResult: TypeAlias = ActionChunk | InvalidObservation


class Policy(abc.ABC):
    """A loaded policy. Plain synchronous code; only the engine's worker calls it.

    A local policy is never called from two threads at once. One that declares
    ``spec.max_in_flight`` > 1 must be safe to call from that many threads.
    """

    @property
    @abc.abstractmethod
    def spec(self) -> PolicySpec:
        """Return the facts that hold for this policy's lifetime."""

    @abc.abstractmethod
    def warm_up(self) -> None:
        """Run one inference at a real observation's shape, so that the first client never waits.

        Raises whatever the inference raises; the server then does not start.
        """

    @abc.abstractmethod
    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Answer a batch, one result per request, in order.

        A request whose observation is wrong yields its ``InvalidObservation`` in its place; the
        others are unaffected. Any other failure is raised and fails the whole batch; a stateful
        policy without memory for another session raises ``NoCapacity``, one that can never answer
        again ``PolicyLost``.
        """

    def problem(self) -> str:
        """Return why no request will be answered any more, '' = no such reason is known.

        One sentence for ``/readyz``: it names no path and no address. Called from any thread, at
        any time before ``close``, also while ``infer`` runs; returns at once.
        """
        return ''

    def close_session(self, key: SessionKey) -> None:
        """Free the state of a session; unknown keys are fine. Nothing to do when stateless."""
        del key

    def close(self) -> None:
        """Free the device. The policy is not used afterwards."""
        return None
