# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""π0 as a policy: one observation in, one chunk of actions out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from openpi_policy_ros.errors import InvalidObservation, InvalidOutput
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
from openpi_policy_ros.policies.feature_map import FeatureMap
from openpi_policy_ros.policies.observation import ObservationReader
from openpi_policy_ros.policies.pi0 import sampler
from openpi_policy_ros.policies.pi0.config import MAX_STEPS, Pi0Config
from openpi_policy_ros.policies.pi0.model import Pi0Model
from openpi_policy_ros.policies.pi0.preprocess import preprocess_image
from openpi_policy_ros.policies.pi0.sampler import Guidance
from openpi_policy_ros.policies.pi0.tokenizer import PromptTokenizer

_TIME_TABLES = 8


@dataclass(frozen=True)
class _Inputs:
    """One request, ready for the network."""

    images: Tensor
    tokens: Tensor
    state: Tensor
    noise: Tensor
    steps: int
    guidance: Guidance | None


class Pi0Policy(Policy):
    """A π0 checkpoint on one device.

    Attributes:
        model: the network with its weights.
        prompts: encodes instructions.
        draw_noise: seed → x at t = 1, float32 [chunk_size, max_action_dim] on the CPU.

    """

    def __init__(
        self,
        spec: PolicySpec,
        config: Pi0Config,
        model: Pi0Model,
        prompts: PromptTokenizer,
        feature_map: FeatureMap,
        legacy_padding: bool = False,
    ) -> None:
        self._spec = spec
        self._config = config
        self.model = model
        self.prompts = prompts
        self._map = feature_map
        self._reader = ObservationReader(feature_map)
        self._legacy_padding = legacy_padding
        self._time_tables: dict[int, Tensor] = {}
        self.draw_noise: Callable[[int | None], Tensor] = Noise(
            (config.chunk_size, config.max_action_dim)
        )

    @property
    def spec(self) -> PolicySpec:
        """Return the facts that hold for this policy's lifetime."""
        return self._spec

    def warm_up(self) -> None:
        """Run one inference with every camera and, on a GPU, with every smaller number of them.

        Raises:
            InvalidOutput: the chunk is not finite, so the weights are not.

        """
        cameras = [camera for camera in self._map.cameras if camera.wire_keys]
        required = sum(camera.required for camera in cameras)
        # Kernels are chosen and memory is reserved per shape on a GPU; on a CPU nothing is, and
        # one pass of the full model takes a minute there.
        fewest = max(required, 1) if self.model.device.type == 'cuda' else len(cameras)
        cameras.sort(key=lambda camera: not camera.required)
        for count in range(len(cameras), fewest - 1, -1):
            self._warm_up([camera.wire_keys[0] for camera in cameras[:count]])

    def _warm_up(self, camera_keys: Sequence[str]) -> None:
        rng = np.random.default_rng(0)
        pixels = rng.integers(0, 256, (480, 640, 3), dtype=np.uint8)
        image = pixels if self._map.layout == 'HWC' else pixels.transpose(2, 0, 1)
        observation: dict[str, Any] = dict.fromkeys(camera_keys, image)
        parts = self._map.state.wire_keys
        dims = self._map.state_dims or (None,) * len(parts)
        for key, count in zip(parts, dims, strict=True):
            observation[key] = np.zeros(count or 1, np.float32)
        observation[self._map.prompt_key] = self._map.default_prompt or 'warm up'
        result = self._answer(
            InferenceRequest(observation, SessionKey('warm-up', 'warm-up'), seed=0)
        )
        if isinstance(result, InvalidObservation):
            raise result
        if not np.isfinite(result.actions).all():
            raise InvalidOutput(
                f'{self._spec.model}: the first chunk holds NaN or infinity',
                expected='finite actions',
                remedy='the weights are damaged: copy or download the checkpoint again',
            )

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Answer each request in turn; see ``Policy.infer``.

        Timing of a chunk in ms: ``preprocess`` (observation to tensors), ``vision``, ``prefix``
        (with the state), ``denoise``, and ``model`` = the last three.
        """
        return [self._answer(request) for request in requests]

    def close(self) -> None:
        """Free the weights."""
        del self.model
        self._time_tables.clear()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    @torch.inference_mode()
    def _answer(self, request: InferenceRequest) -> InferenceResult:
        clock = _Clock(self.model.device)
        try:
            with clock.stage('preprocess'):
                inputs = self._prepare(request)
        except InvalidObservation as error:
            # The traceback would keep the whole observation alive as long as the error.
            return error.with_traceback(None)
        with clock.stage('vision'):
            image_tokens = self.model.embed_images(inputs.images)
        with clock.stage('prefix'):
            prefix = self.model.embed_prefix(image_tokens, inputs.tokens)
            position = self.model.append_state(inputs.state, self.model.prefill(prefix))
        with clock.stage('denoise'):
            table = self._time_table(inputs.steps)
            chunk = sampler.denoise(
                lambda x, step: self.model.velocity(x, table[step], position),
                inputs.noise,
                inputs.steps,
                inputs.guidance,
            )
            model_actions = chunk.cpu().numpy()
        timing = clock.milliseconds()
        timing['model'] = timing['vision'] + timing['prefix'] + timing['denoise']
        actions = model_actions[: self._spec.horizon, : self._spec.action_dim]
        return ActionChunk(
            outputs={ACTIONS: np.ascontiguousarray(actions)},
            model_actions=model_actions,
            timing_ms=timing,
        )

    def _prepare(self, request: InferenceRequest) -> _Inputs:
        """Return the network's inputs for a request.

        Raises:
            InvalidObservation: anything in the request that is wrong.

        """
        config, device = self._config, self.model.device
        steps = request.num_inference_steps
        steps = config.num_inference_steps if steps is None else _checked_steps(steps)
        guidance = self._guidance(request.rtc) if request.rtc is not None else None
        noise = self.draw_noise(_checked_seed(request.seed)).to(device)
        features = self._reader.read(request.observation)
        tokens = self.prompts.encode(features.prompt, self._map.prompt_key)
        images = [
            preprocess_image(
                feature,
                image,
                config.image_resolution,
                device,
                legacy_padding=self._legacy_padding,
            )
            for feature, image in features.images.items()
        ]
        state = torch.zeros(config.max_state_dim)
        state[: features.state.size] = torch.from_numpy(features.state)
        return _Inputs(
            images=torch.stack(images),
            tokens=torch.tensor(tokens, device=device),
            state=state.to(device),
            noise=noise,
            steps=steps,
            guidance=guidance,
        )

    def _guidance(self, rtc: RtcPrefix) -> Guidance | None:
        config = self._config
        leftover = np.asarray(rtc.leftover)
        widths = {config.max_action_dim, config.action_dim}
        if (
            leftover.ndim != 2
            or leftover.shape[1] not in widths
            or leftover.shape[0] > config.chunk_size
            or leftover.dtype.kind != 'f'
        ):
            raise InvalidObservation(
                'rtc.leftover',
                f'has shape {list(leftover.shape)} and dtype {leftover.dtype}',
                expected=f'float [T, {" or ".join(map(str, sorted(widths)))}] with T at most '
                f'{config.chunk_size}',
                remedy='pass the rows of the last chunk in model space that were not executed',
            )
        if not np.isfinite(leftover).all():
            raise InvalidObservation(
                'rtc.leftover',
                'holds NaN or infinity',
                expected='finite model-space actions',
                remedy='drop the previous chunk and call without real-time chunking',
            )
        horizon = rtc.execution_horizon
        if rtc.inference_delay < 0 or (horizon is not None and horizon < 1):
            raise InvalidObservation(
                'rtc',
                f'inference_delay is {rtc.inference_delay}, execution_horizon is {horizon}',
                expected='a delay of at least 0 and a horizon of at least 1 step',
                remedy='measure the delay in action steps',
            )
        return sampler.make_guidance(
            torch.from_numpy(leftover.astype(np.float32)).to(self.model.device),
            rtc.inference_delay,
            horizon,
            config.rtc,
            (config.chunk_size, config.max_action_dim),
        )

    def _time_table(self, steps: int) -> Tensor:
        if steps not in self._time_tables:
            if len(self._time_tables) >= _TIME_TABLES:
                self._time_tables.clear()
            self._time_tables[steps] = self.model.time_table(sampler.times(steps))
        return self._time_tables[steps]


class Noise:
    """Draws x at t = 1 on the CPU, so that a seed means the same chunk on every device.

    A seed restarts a generator of its own; without one, draws are independent of one another and
    of every other generator in the process.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self._shape = shape
        self._unseeded = torch.Generator()
        self._unseeded.seed()

    def __call__(self, seed: int | None) -> Tensor:
        """Return standard normal noise, float32 of the given shape."""
        generator = self._unseeded if seed is None else torch.Generator().manual_seed(seed)
        return torch.randn(self._shape, generator=generator)


class _Clock:
    """Measures stages; on a GPU without making the host wait between them."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == 'cuda'
        self._stages: list[tuple[str, Any, Any]] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = self._now()
        yield
        self._stages.append((name, start, self._now()))

    def milliseconds(self) -> dict[str, float]:
        """Return stage → ms. On a GPU, valid once the device has been waited for."""
        if self._cuda:
            if self._stages:
                self._stages[-1][2].synchronize()
            return {name: start.elapsed_time(end) for name, start, end in self._stages}
        return {name: (end - start) * 1e3 for name, start, end in self._stages}

    def _now(self) -> Any:
        if not self._cuda:
            return perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event


def _checked_steps(steps: int) -> int:
    if 1 <= steps <= MAX_STEPS:
        return steps
    raise InvalidObservation(
        'num_inference_steps',
        f'is {steps}',
        expected=f'1 to {MAX_STEPS}',
        remedy='leave it out to use the configured number',
    )


def _checked_seed(seed: int | None) -> int | None:
    if seed is None or -(2**63) <= seed < 2**64:
        return seed
    raise InvalidObservation(
        'seed',
        f'is {seed}',
        expected='a 64-bit number',
        remedy='choose a smaller one, or leave it out for independent noise',
    )
