# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The reference checkpoint of π0.5 and its case, as the network sees them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from openpi_policy_ros.policies.pi0 import sampler
from openpi_policy_ros.policies.pi0.config import Pi0Config
from openpi_policy_ros.policies.pi0.model import PiModel
from openpi_policy_ros.policies.pi0.preprocess import preprocess_image

PI05_TINY = Path(__file__).resolve().parents[1] / 'data' / 'pi05_tiny'
CPU = torch.device('cpu')


def read_case() -> dict[str, np.ndarray]:
    """Return the arrays of the reference case."""
    with np.load(PI05_TINY / 'cases' / 'end_to_end.npz') as arrays:
        return {name: arrays[name] for name in arrays.files}


def images_of(case: dict[str, np.ndarray], config: Pi0Config) -> dict[str, Tensor]:
    """Return feature → float32 [3, 224, 224], in model order."""
    return {
        feature: preprocess_image(feature, case[f'image/{feature}'], config.image_resolution, CPU)
        for feature in config.image_features
    }


def tokens_of(case: dict[str, np.ndarray]) -> list[int]:
    """Return the tokens of the text, without its padding."""
    return case['tokens'][case['token_mask']].tolist()


@torch.inference_mode()
def chunk(
    model: PiModel, images: Sequence[Tensor], tokens: Sequence[int], noise: Tensor, steps: int
) -> np.ndarray:
    """Return model-space actions [chunk_size, max_action_dim], in the stages a policy uses."""
    device = model.device
    image_tokens = model.embed_images(torch.stack(list(images)).to(device))
    prefix = model.embed_prefix(image_tokens, torch.tensor(tokens, device=device))
    state = torch.zeros(model.config.max_state_dim, device=device)
    position = model.append_state(state, model.prefill(prefix))
    table = model.time_table(sampler.times(steps))
    actions = sampler.denoise(
        lambda x, step: model.velocity(x, table[step], position), noise.to(device), steps
    )
    return actions.cpu().numpy()
