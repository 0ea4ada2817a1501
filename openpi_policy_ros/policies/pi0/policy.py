# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""π0 and π0.5 as a policy: one observation in, one chunk of actions out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from openpi_policy_ros.errors import InvalidObservation, InvalidOutput
from openpi_policy_ros.policies.base import (
    ACTIONS,
    ActionChunk,
    FloatArray,
    InferenceRequest,
    InferenceResult,
    Policy,
    PolicySpec,
    SessionKey,
)
from openpi_policy_ros.policies.feature_map import FeatureMap
from openpi_policy_ros.policies.observation import ObservationReader
from openpi_policy_ros.policies.pi0 import sampler
from openpi_policy_ros.policies.pi0.config import MAX_STEPS, Pi0Config
from openpi_policy_ros.policies.pi0.model import PiModel
from openpi_policy_ros.policies.pi0.pipeline import Pipeline
from openpi_policy_ros.policies.pi0.preprocess import preprocess_image
from openpi_policy_ros.policies.pi0.prompt import make_prompt
from openpi_policy_ros.policies.pi0.rtc import make_guidance
from openpi_policy_ros.policies.pi0.sampler import Guidance
from openpi_policy_ros.policies.pi0.tokenizer import PromptTokenizer
from openpi_policy_ros.policies.stage_clock import StageClock

_TIME_TABLES, _LARGEST_TABLE = 8, 32 * 2**20
"""Tables kept, and bytes of the largest: a client may ask for any number of steps."""


@dataclass(frozen=True)
class Inputs:
    """One request, ready for the network.

    ``raw_state`` is what the observation held, ``state`` what the network sees of it: None where it
    is in the text.
    """

    images: Tensor
    tokens: Tensor
    raw_state: FloatArray
    state: Tensor | None
    noise: Tensor
    steps: int
    guidance: Guidance | None


class Pi0Policy(Policy):
    """A π0 or π0.5 checkpoint on one device.

    Args:
        spec: what it says of itself.
        config: the checkpoint's sizes and settings.
        model: the network with its weights.
        prompts: encodes instructions.
        feature_map: which observation key carries which input.
        pipeline: what happens around the network.

    Attributes:
        model: the network with its weights.
        prompts: encodes instructions.
        draw_noise: seed → x at t = 1, float32 [chunk_size, max_action_dim] on the CPU.

    """

    def __init__(
        self,
        spec: PolicySpec,
        config: Pi0Config,
        model: PiModel,
        prompts: PromptTokenizer,
        feature_map: FeatureMap,
        pipeline: Pipeline,
    ) -> None:
        width = pipeline.state_width
        if width is not None and (width, True) != (feature_map.state_dim, feature_map.state_exact):
            raise ValueError(f'a state of {width} numbers is normalised, other widths let through')
        self._spec = spec
        self._config = config
        self.model = model
        self.prompts = prompts
        self._map = feature_map
        self._reader = ObservationReader(feature_map)
        self._pipeline = pipeline
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
        observation |= self.example_state()
        # Short: what a model adds to the text, the state even, must fit beside it.
        observation[self._map.prompt_key] = self._map.default_prompt or 'go'
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

    def example_state(self) -> dict[str, FloatArray]:
        """Return a state of a width that is accepted, spread over the robot's keys.

        With statistics it is the middle of the training data: far from there, a network may answer
        anything.
        """
        keys = self._map.state.wire_keys
        dims = self._map.state_dims or (None,) * len(keys)
        counts = [1 if count is None else count for count in dims]
        least = self._map.state_dim if self._map.state_exact else self._map.least_state
        if None in dims:
            counts[dims.index(None)] += max(least - sum(counts), 0)
        state = self._pipeline.state.unnormalize(np.zeros(sum(counts), np.float32))
        ends = np.cumsum(counts)
        return {key: state[end - n : end] for key, n, end in zip(keys, counts, ends, strict=True)}

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
        clock = StageClock(self.model.device)
        try:
            with clock.stage('preprocess'):
                inputs = self.prepare(request)
        except InvalidObservation as error:
            # The traceback would keep the whole observation alive as long as the error.
            return error.with_traceback(None)
        with clock.stage('vision'):
            image_tokens = self.model.embed_images(inputs.images)
        with clock.stage('prefix'):
            prefix = self.model.embed_prefix(image_tokens, inputs.tokens)
            position = self.model.prefill(prefix)
            if inputs.state is not None:
                position = self.model.append_state(inputs.state, position)
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
        # What overflows is no number, which the engine refuses by name.
        with np.errstate(over='ignore', invalid='ignore'):
            actions = self._pipeline.robot_actions(model_actions, inputs.raw_state)
        actions = actions[: self._spec.horizon, : self._spec.action_dim]
        return ActionChunk(
            # Without statistics the rows are the model's own, which the caller may keep.
            outputs={ACTIONS: np.array(actions, order='C')},
            model_actions=model_actions,
            timing_ms=timing,
            state=inputs.raw_state,
        )

    def prepare(self, request: InferenceRequest) -> Inputs:
        """Return the network's inputs for a request.

        Raises:
            InvalidObservation: anything in the request that is wrong.

        """
        config, device = self._config, self.model.device
        steps = request.num_inference_steps
        steps = config.num_inference_steps if steps is None else _checked_steps(steps)
        noise = self.draw_noise(_checked_seed(request.seed)).to(device)
        features = self._reader.read(request.observation)
        raw_state = features.state
        guidance = None
        if request.rtc is not None:
            guidance = make_guidance(
                request.rtc, raw_state, self._pipeline, config, self._spec, device
            )
        state = self._normalized(raw_state)
        prompt = make_prompt(
            self._pipeline.prompt, features.prompt, self._pipeline.text_state(state)
        )
        tokens = self.prompts.encode(prompt, self._map.prompt_key)
        images = [
            preprocess_image(
                feature,
                image,
                config.image_resolution,
                device,
                legacy_padding=self._pipeline.legacy_padding,
                antialias=self._pipeline.antialias,
            )
            for feature, image in features.images.items()
        ]
        token = None
        if self._pipeline.state_token:
            padded = np.zeros(config.max_state_dim, np.float32)
            padded[: state.size] = state
            token = torch.from_numpy(padded).to(device)
        return Inputs(
            images=torch.stack(images),
            tokens=torch.tensor(tokens, device=device),
            raw_state=raw_state,
            state=token,
            noise=noise,
            steps=steps,
            guidance=guidance,
        )

    def _normalized(self, state: FloatArray) -> npt.NDArray[Any]:
        """Return a raw state in the model's units, [S], in the precision of the statistics."""
        with np.errstate(over='ignore'):
            normalized = self._pipeline.state.normalize(state)
            bad = np.flatnonzero(~np.isfinite(normalized.astype(np.float32)))
        if bad.size:
            index = int(bad[0])
            raise InvalidObservation(
                self._map.state_parts[0][0],
                f'number {index} of the state is {state[index]:g}, which is no float32 any more '
                'once it is normalised',
                expected='a state like those of the training data',
                remedy='check its unit, and the statistics of the checkpoint for a spread near 0',
            )
        return normalized

    def _time_table(self, steps: int) -> Tensor:
        if steps in self._time_tables:
            return self._time_tables[steps]
        table = self.model.time_table(sampler.times(steps))
        if table.nbytes <= _LARGEST_TABLE:
            if len(self._time_tables) >= _TIME_TABLES:
                self._time_tables.clear()
            self._time_tables[steps] = table
        return table


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
