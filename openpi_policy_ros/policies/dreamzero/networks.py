# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Build the four networks of a DreamZero checkpoint: shapes alone, no memory and no values.

Text encoder (UMT5), image encoder (the visual half of CLIP) and video autoencoder (Wan 2.1) are
those of the libraries transformers and diffusers, imported here alone, and only when one is built.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from openpi_policy_ros.errors import CheckpointError, ConfigurationError
from openpi_policy_ros.policies.dreamzero.config import (
    ClipConfig,
    DreamZeroConfig,
    TextConfig,
    VaeConfig,
)
from openpi_policy_ros.policies.dreamzero.dit import CausalWan

_MLP_RATIO = 4
_MAX_DISTANCE = 128
"""Beyond it UMT5's relative positions share a bucket."""


@dataclass(frozen=True)
class Networks:
    """The four networks.

    Attributes:
        dit: the diffusion transformer over video and actions.
        text: UMT5's encoder.
        clip: CLIP's vision tower without its last block and its last norm, which nobody reads.
        vae: autoencoder of videos.

    """

    dit: CausalWan
    text: nn.Module
    clip: nn.Module
    vae: nn.Module

    def __getitem__(self, name: str) -> nn.Module:
        """Return the network called ``name``: dit, text, clip or vae."""
        network = {'dit': self.dit, 'text': self.text, 'clip': self.clip, 'vae': self.vae}[name]
        assert isinstance(network, nn.Module)
        return network


def build(config: DreamZeroConfig) -> Networks:
    """Return the networks on the meta device: they have shapes, and nothing else.

    Raises:
        CheckpointError: an autoencoder whose latents have no known scale.
        ConfigurationError: transformers or diffusers are not installed.

    """
    with torch.device('meta'):
        return Networks(
            dit=CausalWan(config.dit),
            text=_text(config.text),
            clip=_clip(config.clip),
            vae=_vae(config.vae),
        )


def allocate(network: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
    """Give every parameter memory on ``device``, its values undefined; for inference alone.

    Parameters that are one and the same (UMT5's table of tokens has two names) stay so.
    """
    made: dict[int, nn.Parameter] = {}
    for module in network.modules():
        for name, old in module.named_parameters(recurse=False, remove_duplicate=False):
            if id(old) not in made:
                values = torch.empty(old.shape, dtype=dtype, device=device)
                made[id(old)] = nn.Parameter(values, requires_grad=False)
            setattr(module, name, made[id(old)])
        for name, buffer in module.named_buffers(recurse=False):
            if name != 'position_ids':
                raise AssertionError(f'{type(module).__name__}.{name}: a buffer without a value')
            setattr(module, name, torch.arange(buffer.shape[-1], device=device).view(buffer.shape))
    network.eval()


def _text(config: TextConfig) -> nn.Module:
    transformers = _library('transformers')
    sizes = transformers.UMT5Config(
        vocab_size=config.vocab,
        d_model=config.dim,
        d_kv=config.dim_attn // config.num_heads,
        d_ff=config.dim_ffn,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        relative_attention_num_buckets=config.num_buckets,
        relative_attention_max_distance=_MAX_DISTANCE,
        feed_forward_proj='gated-gelu',
        dense_act_fn='gelu_new',
        layer_norm_epsilon=1e-6,
        dropout_rate=0.0,
    )
    return _module(transformers.UMT5EncoderModel(sizes))


def _clip(config: ClipConfig) -> nn.Module:
    transformers = _library('transformers')
    sizes = transformers.CLIPVisionConfig(
        hidden_size=config.dim,
        intermediate_size=_MLP_RATIO * config.dim,
        num_hidden_layers=config.layers - 1,
        num_attention_heads=config.heads,
        image_size=config.image_size,
        patch_size=config.patch,
        hidden_act='gelu',
        layer_norm_eps=1e-5,
    )
    tower = transformers.CLIPVisionModel(sizes)
    # In some versions the tower lies one level down.
    getattr(tower, 'vision_model', tower).post_layernorm = nn.Identity()
    return _module(tower)


def _vae(config: VaeConfig) -> nn.Module:
    diffusers = _library('diffusers')
    vae = diffusers.AutoencoderKLWan(
        base_dim=config.dim,
        z_dim=config.z_dim,
        dim_mult=list(config.dim_mult),
        num_res_blocks=config.num_res_blocks,
    )
    channels = len(vae.config.latents_mean)
    if config.z_dim != channels:
        raise CheckpointError(
            f'vae_cfg.z_dim is {config.z_dim}',
            expected=f'{channels}, the channels whose means and deviations Wan 2.1 published',
            remedy='serve a checkpoint of that autoencoder',
        )
    return _module(vae)


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigurationError(
            'policy dreamzero',
            [
                f'it needs the library {name}, which cannot be imported: {error}; '
                "pip install 'openpi_policy_ros[dreamzero]'"
            ],
        ) from None


def _module(network: Any) -> nn.Module:
    assert isinstance(network, nn.Module)
    return network
