# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The reference checkpoint of DreamZero and the trace of its session of four calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from openpi_policy_ros.policies.dreamzero.checkpoint import load_weights
from openpi_policy_ros.policies.dreamzero.config import DreamZeroConfig, parse_config
from openpi_policy_ros.policies.dreamzero.dit import CausalWan
from openpi_policy_ros.policies.dreamzero.encoders import Encoders
from openpi_policy_ros.policies.dreamzero.guidance import Flow, Guidance, OneBatch
from openpi_policy_ros.policies.dreamzero.model import Call, DreamZeroModel, Noise
from openpi_policy_ros.policies.dreamzero.sampler import Sampling

DREAMZERO_TINY = Path(__file__).resolve().parents[1] / 'data' / 'dreamzero_tiny'
CPU = torch.device('cpu')


@dataclass
class Reference:
    """The reference's networks, what it was asked and what it computed.

    Attributes:
        inputs: see the folder's README in the golden data: images, tokens, noise, states.
        trace: every stage of the four calls.

    """

    config: DreamZeroConfig
    dit: CausalWan
    encoders: Encoders
    inputs: dict[str, Tensor]
    trace: dict[str, Tensor]

    def model(
        self,
        sampling: Sampling | None = None,
        guide: Callable[[CausalWan, float], Guidance] = OneBatch,
    ) -> DreamZeroModel:
        """Return a model of its own on the shared weights."""
        negative = self.inputs['text_neg'], self.inputs['text_neg_mask']
        guidance = guide(self.dit, 5.0)
        return DreamZeroModel(
            self.config, guidance, self.encoders, sampling or Sampling(), negative
        )

    def call(self, number: int, **changes: object) -> Call:
        """Return the reference's call 1 to 4."""
        inputs = self.inputs
        given = {
            'frames': list(inputs[f'call{number}.tiled_u8'].numpy()),
            'state': inputs['state'][number - 1],
            'prompt': (inputs['text'], inputs['text_mask']),
            'noise': Noise(inputs['noise_video_bcthw'], inputs['noise_action']),
        }
        return Call(**{**given, **changes})  # type: ignore[arg-type]


def read_reference() -> Reference:
    """Return the reference with its weights loaded."""
    source = DREAMZERO_TINY / 'config.json'
    config = parse_config(json.loads(source.read_text(encoding='utf-8')), str(source))
    dit, encoders, _ = load_weights(DREAMZERO_TINY, config, CPU, torch.float32)
    return Reference(
        config,
        dit,
        encoders,
        load_file(DREAMZERO_TINY / 'inputs.safetensors'),
        load_file(DREAMZERO_TINY / 'e2e_steps8_static.safetensors'),
    )


@dataclass
class Listening(Guidance):
    """Runs the network as another guidance does, and notes every forward.

    Attributes:
        inner: who runs it.
        forwards: inputs and results by name, in order; a result is after guidance.
        begun: what each window began with.

    """

    inner: Guidance
    forwards: list[dict[str, Tensor | int]] = field(default_factory=list)
    begun: list[dict[str, Tensor]] = field(default_factory=list)

    @property
    def bytes_per_session(self) -> int:
        return self.inner.bytes_per_session

    def open(self) -> int:
        return self.inner.open()

    def begin(self, handle: int, text: Tensor, text_neg: Tensor, clip: Tensor) -> None:
        self.begun.append({'text': text, 'text_neg': text_neg, 'clip': clip})
        self.inner.begin(handle, text, text_neg, clip)

    def prefill(self, handle: int, x: Tensor, y: Tensor, start_frame: int) -> None:
        self.forwards.append({'x': x, 'y': y, 'start': start_frame})
        self.inner.prefill(handle, x, y, start_frame)

    def denoise(
        self,
        handle: int,
        x: Tensor,
        y: Tensor,
        action: Tensor,
        state: Tensor,
        t_video: int,
        t_action: int,
        start_frame: int,
    ) -> Flow:
        flow = self.inner.denoise(handle, x, y, action, state, t_video, t_action, start_frame)
        self.forwards.append(
            {
                'x': x,
                'y': y,
                'action': action,
                'state': state,
                't_video': t_video,
                't_action': t_action,
                'start': start_frame,
                'flow_video': flow.video,
                'flow_action': flow.action,
            }
        )
        return flow

    def close(self, handle: int) -> None:
        self.inner.close(handle)

    def shutdown(self) -> None:
        self.inner.shutdown()
