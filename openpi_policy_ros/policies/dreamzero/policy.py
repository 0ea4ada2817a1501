# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""DreamZero as a policy: sessions that remember, let in while there is memory for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from openpi_policy_ros.errors import InvalidObservation, InvalidOutput, NoCapacity
from openpi_policy_ros.policies.base import (
    ACTIONS,
    ActionChunk,
    InferenceRequest,
    InferenceResult,
    Policy,
    PolicySpec,
    SessionKey,
)
from openpi_policy_ros.policies.dreamzero.encoders import STRIDE
from openpi_policy_ros.policies.dreamzero.memory import (
    REMEDY,
    Admission,
    Budget,
    free_budget,
    size,
)
from openpi_policy_ros.policies.dreamzero.model import Call, DreamZeroModel, Noise
from openpi_policy_ros.policies.dreamzero.prompt import Prompts
from openpi_policy_ros.policies.dreamzero.session import Session
from openpi_policy_ros.policies.dreamzero.transform import DreamZeroTransform, Inputs
from openpi_policy_ros.policies.dreamzero.window import BLOCK_FRAMES
from openpi_policy_ros.policies.stage_clock import StageClock

logger = logging.getLogger('openpi_policy_ros.policies.dreamzero')

ACTION_RATE = 15.0
"""Action steps a second in DROID, which the published checkpoints are trained on."""


class DreamZeroPolicy(Policy):
    """A DreamZero checkpoint on one device, with a window of keys and values for each session.

    A session is opened by its first call and closed by ``close_session``; nothing else takes its
    memory away. A request that is refused leaves its session as it was, and one that fails in the
    networks too, but that the next call starts a new window from its newest image. A session whose
    first call fails is closed again.

    Args:
        spec: what it says of itself.
        model: the networks.
        transform: observation to images and state, and actions back.
        prompts: encodes instructions.
        seed: of every call that brings none: each then starts from equal noise, as in the
            reference.
        noise_device: whose generator draws the noise; None = the model's.
        session_memory: bytes for all sessions; None = what is free after warming up.
        max_sessions: most sessions at a time; None = as many as fit.
        imagined: whether a chunk comes with the video that was imagined with it.

    Attributes:
        model: the networks.
        transform: observation to images and state, and actions back.
        prompts: encodes instructions.
        draw_noise: seed → where a call begins.
        new_clock: returns what times one call.

    """

    def __init__(
        self,
        spec: PolicySpec,
        model: DreamZeroModel,
        transform: DreamZeroTransform,
        prompts: Prompts,
        *,
        seed: int,
        noise_device: torch.device | None = None,
        session_memory: int | None = None,
        max_sessions: int | None = None,
        imagined: bool = False,
    ) -> None:
        self._spec = spec
        self.model = model
        self.transform = transform
        self.prompts = prompts
        self._seed = seed
        self._imagined = imagined
        model.keep_seen = imagined
        self._session_memory = session_memory
        self._max_sessions = max_sessions
        self._sessions: dict[SessionKey, Session] = {}
        self._admission: Admission | None = None
        config = model.config
        height, width = (side // 4 for side in transform.view_size)
        self.draw_noise: Callable[[int], Noise] = NoiseSource(
            (1, config.dit.out_dim, config.dit.num_frame_per_block, height, width),
            (1, config.action_horizon, config.dit.action_dim),
            noise_device or model.device,
            model.dtype,
        )
        self.new_clock: Callable[[], StageClock] = lambda: StageClock(model.device)
        block = STRIDE * config.dit.num_frame_per_block
        self._imagined_fps = ACTION_RATE * block / config.action_horizon

    @property
    def spec(self) -> PolicySpec:
        """Return the facts that hold for this policy's lifetime."""
        return self._spec

    @property
    def live_sessions(self) -> int:
        """Return how many sessions hold memory."""
        return len(self._sessions)

    def session(self, key: SessionKey) -> Session | None:
        """Return what a session keeps, None = it is not open; for tests and measurements."""
        return self._sessions.get(key)

    def warm_up(self) -> None:
        """Run a session through its window, then settle how many sessions fit.

        On a GPU at every length the window takes, since kernels are chosen and memory is reserved
        per shape there; on a CPU the first call and one that goes on.

        Raises:
            InvalidOutput: a chunk is not finite, so the weights are not.
            NoCapacity: not even one session fits.

        """
        self._admission = None
        device, dit = self.model.device, self.model.config.dit
        cuda = device.type == 'cuda'
        calls = dit.cached_frames // dit.num_frame_per_block + 1 if cuda else 2
        key = SessionKey('warm-up', 'warm-up')
        before = 0
        if cuda:
            torch.cuda.reset_peak_memory_stats(device)
            before = torch.cuda.memory_allocated(device) + self.model.bytes_per_session
        try:
            for number in range(calls):
                self._warm_up(key, 1 if number == 0 else BLOCK_FRAMES)
        finally:
            self.close_session(key)
        reserve = max(0, torch.cuda.max_memory_allocated(device) - before) if cuda else 0
        if cuda:
            torch.cuda.empty_cache()
        self._admission = self._make_admission(reserve)
        self._admission.check(0)
        capacity = self._admission.capacity
        logger.info(
            'a session takes %s; %s',
            size(self._admission.per_session),
            'nothing limits how many there are: set max_sessions or session_memory'
            if capacity is None
            else f'{capacity} fit',
        )

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Answer each request in turn; see ``Policy.infer``.

        Timing of a chunk in ms: ``preprocess`` (observation to tensors), ``text``, ``clip`` and
        ``vae`` (the encoders; the first two where a window starts), ``prefill`` (what was observed
        into the window), ``denoise``, ``imagined`` (where it is on), ``postprocess``, and ``model``
        = all but the first and the last.

        Raises:
            NoCapacity: a session that is not open yet does not fit.

        """
        return [self._answer(request) for request in requests]

    def problem(self) -> str:
        """Return whether a device is lost; see ``Policy.problem``."""
        return self.model.guidance.problem()

    def close_session(self, key: SessionKey) -> None:
        """Free the state of a session; unknown keys are fine."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self.model.close(session)

    def close(self) -> None:
        """Free sessions and weights."""
        self._sessions.clear()
        self.model.guidance.shutdown()
        del self.model
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    @torch.inference_mode()
    def _answer(self, request: InferenceRequest) -> InferenceResult:
        clock = self.new_clock()
        if request.session not in self._sessions:
            # Whoever has to wait for room asks again and again: that must cost nothing.
            self._admit()
        try:
            with clock.stage('preprocess'):
                inputs, call = self._prepare(request)
        except InvalidObservation as error:
            # The traceback would keep the whole observation alive as long as the error.
            return error.with_traceback(None)
        with self._session(request.session) as session:
            prediction = self.model.call(session, call, clock)
            # What is no number may have got into the window, which must not outlive this call.
            session.failed = not np.isfinite(prediction.actions).all()
        with clock.stage('postprocess'):
            # What overflows is no number, which the engine refuses by name.
            with np.errstate(over='ignore', invalid='ignore'):
                actions = self.transform.robot_actions(prediction.actions, inputs.joint)
            actions = actions[: self._spec.horizon, : self._spec.action_dim]
        timing = clock.milliseconds()
        outside = ('preprocess', 'postprocess')
        timing['model'] = sum(took for name, took in timing.items() if name not in outside)
        logger.debug(
            'session %s: window %d, latent frame %d, network ran at %d sampler steps',
            request.session,
            session.window,
            prediction.turn.denoise_start,
            prediction.evaluations,
        )
        chunk = ActionChunk(
            outputs={ACTIONS: np.array(actions, np.float32, order='C')},
            timing_ms=timing,
            state=np.concatenate([inputs.joint, inputs.gripper]).astype(np.float32),
        )
        if prediction.imagined is None:
            return chunk
        return replace(chunk, imagined=prediction.imagined, imagined_fps=self._imagined_fps)

    def _prepare(self, request: InferenceRequest) -> tuple[Inputs, Call]:
        """Return what a request holds, and what of it the networks get.

        Raises:
            InvalidObservation: anything in the request that is wrong.

        """
        sampling = None
        if request.num_inference_steps is not None:
            try:
                sampling = self.model.sampling.with_steps(request.num_inference_steps)
            except ValueError as error:
                raise InvalidObservation(
                    'num_inference_steps',
                    f'is {request.num_inference_steps}',
                    expected=str(error),
                    remedy='leave it out to use the configured number, or set step_cache: dynamic '
                    'or off in the policy file for another one',
                ) from None
        noise = self.draw_noise(_checked_seed(self._seed if request.seed is None else request.seed))
        inputs = self.transform.read(request.observation)
        call = Call(
            frames=list(self.transform.tile(inputs.views[-BLOCK_FRAMES:])),
            state=torch.from_numpy(self.transform.normalise_state(inputs.joint, inputs.gripper)),
            prompt=self.prompts.encode(inputs.prompt),
            noise=noise,
            reset=request.reset,
            sampling=sampling,
            imagined=self._imagined,
        )
        return inputs, call

    @contextmanager
    def _session(self, key: SessionKey) -> Iterator[Session]:
        """Give a session, opened if need be; closed again where its first call fails."""
        known = self._sessions.get(key)
        session = self._open(key) if known is None else known
        try:
            yield session
        except BaseException:
            if known is None:
                self.close_session(key)
            elif session.failed:
                logger.warning('session %s: a call failed; the next one starts a new window', key)
            raise

    def _admit(self) -> None:
        if self._admission is None:
            self._admission = self._make_admission(reserve=0)
        self._admission.check(len(self._sessions))

    def _open(self, key: SessionKey) -> Session:
        live = len(self._sessions)
        try:
            session = self.model.open(str(key))
        except torch.OutOfMemoryError as error:
            raise NoCapacity(
                f'no memory for another session: {self.model.device} could not give '
                f'{size(self.model.bytes_per_session)} beside {live} live ones',
                expected='one of them to end first' if live else 'memory for one',
                remedy=REMEDY,
            ) from error
        self._sessions[key] = session
        return session

    def _make_admission(self, reserve: int) -> Admission:
        """Return the rule, by what is free now if nothing is configured."""
        budget = (
            free_budget(self.model.device, reserve)
            if self._session_memory is None
            else Budget(self._session_memory, 'session_memory')
        )
        return Admission(self.model.bytes_per_session, budget, self._max_sessions)

    def _warm_up(self, key: SessionKey, frames: int) -> None:
        observation: dict[str, Any] = self.transform.example(frames)
        result = self._answer(InferenceRequest(observation, key))
        if isinstance(result, InvalidObservation):
            raise result
        if not np.isfinite(result.actions).all():
            raise InvalidOutput(
                f'{self._spec.model}: the first chunks hold NaN or infinity',
                expected='finite actions',
                remedy='the weights are damaged: copy or download the checkpoint again',
            )


class NoiseSource:
    """Draws where a call begins: video and actions each by a generator that starts at the seed.

    Args:
        video: shape of the video's noise.
        action: shape of the actions'.
        device: whose generator draws; the same seed gives other noise on another kind of device.
        dtype: in which it is drawn.

    """

    def __init__(
        self,
        video: tuple[int, ...],
        action: tuple[int, ...],
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self._video, self._action = video, action
        self._device, self._dtype = device, dtype

    def __call__(self, seed: int) -> Noise:
        """Return standard normal noise."""
        return Noise(self._draw(self._video, seed), self._draw(self._action, seed))

    def _draw(self, shape: tuple[int, ...], seed: int) -> torch.Tensor:
        generator = torch.Generator(self._device).manual_seed(seed)
        return torch.randn(shape, generator=generator, device=self._device, dtype=self._dtype)


def _checked_seed(seed: int) -> int:
    if -(2**63) <= seed < 2**64:
        return seed
    raise InvalidObservation(
        'seed',
        f'is {seed}',
        expected='a 64-bit number',
        remedy='choose a smaller one, or leave it out for the configured one',
    )
