# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every size of one DreamZero checkpoint, in one frozen object, read from its ``config.json``.

A published file leaves out what its training code had as a default (the sizes of the frozen
encoders, those of the text input); the same numbers are the defaults here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from openpi_policy_ros.configuration.schema import Section, validate
from openpi_policy_ros.errors import CheckpointError, ConfigurationError

CLIP_TOKENS = 257
"""Of one picture: 16 x 16 patches of 14 pixels, and one for the whole."""
MASK_CHANNELS = 4
"""Of the conditioning, before its latents."""
PATCH = 2
"""Height and width, in latents, of what becomes one token."""
TEMPORAL_STRIDE = 4
"""Video frames to a latent frame, behind the first."""

MOST = 2**20
"""Largest size that is read; a larger one is a damaged file, and nothing to compute with."""
MOST_LAYERS = 1000


@dataclass(frozen=True)
class DitConfig:
    """Sizes of the diffusion transformer.

    Attributes:
        dim: width of a token.
        ffn_dim: inner width of a block's MLP.
        freq_dim: width of the sinusoid of a time.
        in_dim, out_dim: channels of noisy latent plus conditioning, and of the flow.
        num_heads, num_layers: of the transformer.
        text_dim, text_len: width and number of the text features.
        frame_seqlen: tokens of one latent frame.
        max_chunk_size: blocks of a window.
        num_frame_per_block: latent frames denoised together.
        num_action_per_block, num_state_per_block: tokens of actions and state beside them.
        action_dim, max_state_dim: numbers in one of each.
        hidden_size: inner width of the state encoder and the action decoder.
        eps: of every norm.
        clip_dim: width of the picture features.

    """

    dim: int
    ffn_dim: int
    freq_dim: int
    in_dim: int
    out_dim: int
    num_heads: int
    num_layers: int
    text_dim: int
    text_len: int
    frame_seqlen: int
    max_chunk_size: int
    num_frame_per_block: int
    num_action_per_block: int
    num_state_per_block: int
    action_dim: int
    max_state_dim: int
    hidden_size: int = 1024
    eps: float = 1e-6
    clip_dim: int = 1280

    @property
    def head_dim(self) -> int:
        """Return the width of a head."""
        return self.dim // self.num_heads

    @property
    def local_attn_size(self) -> int:
        """Return the latent frames of a full window, the block under denoising counted."""
        return self.max_chunk_size * self.num_frame_per_block + 1

    @property
    def cached_frames(self) -> int:
        """Return the most latent frames that are ever cached: a full window less one block."""
        return self.local_attn_size - self.num_frame_per_block


@dataclass(frozen=True)
class TextConfig:
    """Sizes of the text encoder. The defaults are UMT5-XXL."""

    vocab: int = 256384
    dim: int = 4096
    dim_attn: int = 4096
    dim_ffn: int = 10240
    num_heads: int = 64
    num_layers: int = 24
    num_buckets: int = 32


@dataclass(frozen=True)
class ClipConfig:
    """Sizes of the image encoder. The defaults are open-CLIP's XLM-R ViT-H/14, visual half."""

    dim: int = 1280
    heads: int = 16
    layers: int = 32
    embed_dim: int = 1024
    image_size: int = 224
    patch: int = 14


@dataclass(frozen=True)
class VaeConfig:
    """Sizes of the video autoencoder. The defaults are Wan 2.1's."""

    dim: int = 96
    z_dim: int = 16
    num_res_blocks: int = 2
    dim_mult: tuple[int, ...] = (1, 2, 4, 4)


@dataclass(frozen=True)
class DreamZeroConfig:
    """Sizes and settings of a checkpoint.

    Attributes:
        dit, text, clip, vae: sizes of the four networks.
        num_frames: of the conditioning clip, in pixels' frames: 1 + 4k.
        action_horizon: rows of a chunk.
        decouple_inference_noise: whether the video ends at a noise level of its own.
        video_inference_final_noise: that level.
        tiled: whether the autoencoder was to work in tiles (False in what is published).
        dtype: of weights and computation, ``float32`` or ``bfloat16``.

    """

    dit: DitConfig
    text: TextConfig
    clip: ClipConfig
    vae: VaeConfig
    num_frames: int
    action_horizon: int
    decouple_inference_noise: bool = False
    video_inference_final_noise: float = 0.8
    tiled: bool = False
    dtype: str = 'float32'


class _Lenient(Section):
    """A part of config.json: what we read is typed strictly, what concerns training goes by."""

    model_config = ConfigDict(extra='ignore')


class _Dit(_Lenient):
    target: str = Field(default='CausalWanModel', alias='_target_')
    model_type: str
    dim: int = Field(ge=1, le=MOST)
    ffn_dim: int = Field(ge=1, le=MOST)
    freq_dim: int = Field(default=256, ge=2, le=MOST)
    in_dim: int = Field(ge=1, le=MOST)
    out_dim: int = Field(ge=1, le=MOST)
    num_heads: int = Field(ge=1, le=MOST)
    num_layers: int = Field(ge=1, le=MOST_LAYERS)
    text_dim: int = Field(default=4096, ge=1, le=MOST)
    text_len: int = Field(default=512, ge=1, le=MOST)
    frame_seqlen: int = Field(ge=1, le=MOST)
    max_chunk_size: int = Field(le=MOST)
    num_frame_per_block: int = Field(ge=1, le=MOST)
    num_action_per_block: int = Field(ge=1, le=MOST)
    num_state_per_block: int = Field(ge=1, le=MOST)
    action_dim: int = Field(default=32, ge=1, le=MOST)
    max_state_dim: int = Field(default=64, ge=1, le=MOST)
    hidden_size: int = Field(default=1024, ge=1, le=MOST)
    eps: float = Field(default=1e-6, gt=0.0, lt=1.0)
    patch_size: list[int] = Field(default=[1, PATCH, PATCH])
    qk_norm: bool = True
    cross_attn_norm: bool = True


class _Text(_Lenient):
    target: str = Field(default='WanTextEncoder', alias='_target_')
    vocab: int = Field(default=TextConfig.vocab, ge=1, le=MOST)
    dim: int = Field(default=TextConfig.dim, ge=1, le=MOST)
    dim_attn: int = Field(default=TextConfig.dim_attn, ge=1, le=MOST)
    dim_ffn: int = Field(default=TextConfig.dim_ffn, ge=1, le=MOST)
    num_heads: int = Field(default=TextConfig.num_heads, ge=1, le=MOST)
    num_layers: int = Field(default=TextConfig.num_layers, ge=1, le=MOST_LAYERS)
    num_buckets: int = Field(default=TextConfig.num_buckets, ge=4, le=MOST)
    shared_pos: bool = False


class _Clip(_Lenient):
    target: str = Field(default='WanImageEncoder', alias='_target_')
    dim: int = Field(default=ClipConfig.dim, ge=1, le=MOST)
    heads: int = Field(default=ClipConfig.heads, ge=1, le=MOST)
    layers: int = Field(default=ClipConfig.layers, ge=2, le=MOST_LAYERS)
    embed_dim: int = Field(default=ClipConfig.embed_dim, ge=1, le=MOST)
    image_size: int = Field(default=ClipConfig.image_size, ge=1, le=MOST)
    patch: int = Field(default=ClipConfig.patch, ge=1, le=MOST)


class _Vae(_Lenient):
    target: str = Field(default='WanVideoVAE', alias='_target_')
    dim: int = Field(default=VaeConfig.dim, ge=1, le=MOST)
    z_dim: int = Field(default=VaeConfig.z_dim, ge=1, le=MOST)
    num_res_blocks: int = Field(default=VaeConfig.num_res_blocks, ge=1, le=MOST_LAYERS)
    dim_mult: list[Annotated[int, Field(ge=1, le=64)]] = Field(
        default=list(VaeConfig.dim_mult), min_length=1, max_length=8
    )


class _Head(_Lenient):
    """The action head. Its ``hidden_size`` and ``num_inference_timesteps`` are read by nobody."""

    diffusion_model_cfg: _Dit
    text_encoder_cfg: _Text
    image_encoder_cfg: _Clip
    vae_cfg: _Vae
    num_frames: int = Field(ge=1, le=MOST)
    num_frame_per_block: int | None = None
    action_horizon: int | None = None
    action_dim: int | None = None
    max_action_dim: int | None = None
    max_state_dim: int | None = None
    decouple_inference_noise: bool = False
    video_inference_final_noise: float = Field(default=0.8, ge=0.0, lt=1.0)
    tiled: bool = False


class _HeadBox(_Lenient):
    target: str = Field(default='WANPolicyHead', alias='_target_')
    config: _Head


class _File(_Lenient):
    model_type: str
    action_horizon: int = Field(ge=1, le=MOST)
    action_dim: int | None = None
    action_head_cfg: _HeadBox


def parse_config(data: Mapping[str, Any], source: str) -> DreamZeroConfig:
    """Return the configuration that a checkpoint's ``config.json`` describes.

    Args:
        data: the file's content.
        source: its path, for messages.

    Raises:
        CheckpointError: fields are missing, of a wrong type or contradict one another, or ask for
            a network that is not served; every problem in one message.

    """
    try:
        read = validate(_File, data, source)
    except ConfigurationError as error:
        raise CheckpointError(
            str(error), remedy='pass a DreamZero checkpoint (model_type vla), or mend config.json'
        ) from None
    problems = [*_unsupported(read), *_contradictions(read)]
    if problems:
        raise CheckpointError(
            '\n  - '.join([f'{source}: {len(problems)} problem(s)', *problems]),
            remedy='mend config.json, or serve a checkpoint of the published architecture',
        )
    return _assemble(read)


def _assemble(read: _File) -> DreamZeroConfig:
    head = read.action_head_cfg.config
    left_out = {'target', 'model_type', 'patch_size', 'qk_norm', 'cross_attn_norm', 'shared_pos'}
    vae = head.vae_cfg
    return DreamZeroConfig(
        dit=DitConfig(
            **head.diffusion_model_cfg.model_dump(exclude=left_out),
            clip_dim=head.image_encoder_cfg.dim,
        ),
        text=TextConfig(**head.text_encoder_cfg.model_dump(exclude=left_out)),
        clip=ClipConfig(**head.image_encoder_cfg.model_dump(exclude=left_out)),
        vae=VaeConfig(vae.dim, vae.z_dim, vae.num_res_blocks, tuple(vae.dim_mult)),
        num_frames=head.num_frames,
        action_horizon=read.action_horizon,
        decouple_inference_noise=head.decouple_inference_noise,
        video_inference_final_noise=head.video_inference_final_noise,
        tiled=head.tiled,
    )


def _unsupported(read: _File) -> Iterator[str]:
    """Yield what asks for another network than the one served here."""
    box = read.action_head_cfg
    head = box.config
    dit = head.diffusion_model_cfg
    if read.model_type != 'vla':
        yield f"model_type is {read.model_type!r}, expected 'vla'"
    where = 'action_head_cfg'
    for name, part in (
        (where, box),
        (f'{where}.config.diffusion_model_cfg', dit),
        (f'{where}.config.text_encoder_cfg', head.text_encoder_cfg),
        (f'{where}.config.image_encoder_cfg', head.image_encoder_cfg),
        (f'{where}.config.vae_cfg', head.vae_cfg),
    ):
        expected = type(part).model_fields['target'].default
        if part.target.rpartition('.')[2] != expected:
            yield f'{name}._target_ is {part.target!r}; only {expected} is served'
    for field, value, only in (
        ('model_type', dit.model_type, 'i2v'),
        ('patch_size', dit.patch_size, [1, PATCH, PATCH]),
        ('qk_norm', dit.qk_norm, True),
        ('cross_attn_norm', dit.cross_attn_norm, True),
        ('num_state_per_block', dit.num_state_per_block, 1),
    ):
        if value != only:
            yield f'diffusion_model_cfg.{field} is {value!r}; only {only!r} is served'
    if dit.max_chunk_size < 1:
        yield (
            f'diffusion_model_cfg.max_chunk_size is {dit.max_chunk_size}: a window without an end '
            'is not served; expected the number of blocks after which it starts anew, >= 1'
        )
    if head.tiled:
        yield 'tiled is True, but the autoencoder works on whole images here; only False is served'
    if head.text_encoder_cfg.shared_pos:
        yield 'text_encoder_cfg.shared_pos is True; only False is served'


def _contradictions(read: _File) -> Iterator[str]:
    """Yield sizes that cannot belong to one model."""
    head = read.action_head_cfg.config
    dit, text, clip, vae = (
        head.diffusion_model_cfg,
        head.text_encoder_cfg,
        head.image_encoder_cfg,
        head.vae_cfg,
    )
    for name, width, heads in (
        ('diffusion_model_cfg', dit.dim, dit.num_heads),
        ('text_encoder_cfg', text.dim_attn, text.num_heads),
        ('image_encoder_cfg', clip.dim, clip.heads),
    ):
        if width % heads:
            yield f'{name}: a width of {width} cannot be split in {heads} heads'
    head_dim = dit.dim // dit.num_heads
    if head_dim % 2 or head_dim < 6:
        yield (
            f'diffusion_model_cfg: heads of {head_dim} numbers cannot be rotated along time, '
            'height and width; expected an even number >= 6'
        )
    if dit.freq_dim % 2 or dit.dim % 2:
        yield f'diffusion_model_cfg: freq_dim {dit.freq_dim} or dim {dit.dim} is odd'
    if clip.image_size // clip.patch != 16 or clip.image_size % clip.patch:
        yield (
            f'image_encoder_cfg: {clip.image_size} pixels in patches of {clip.patch} are not the '
            f'{CLIP_TOKENS} tokens the network reads'
        )
    if head.num_frames % TEMPORAL_STRIDE != 1:
        yield f'num_frames is {head.num_frames}, expected 1 + {TEMPORAL_STRIDE}k'
    clip_frames = (head.num_frames - 1) // TEMPORAL_STRIDE + 1
    if clip_frames < dit.num_frame_per_block:
        yield (
            f'num_frames is {head.num_frames}, {clip_frames} latent frames; a block has '
            f'{dit.num_frame_per_block} (diffusion_model_cfg.num_frame_per_block)'
        )
    rows = 'diffusion_model_cfg.num_action_per_block'
    same: list[tuple[str, int, str, int | None]] = [
        ('diffusion_model_cfg.text_dim', dit.text_dim, 'text_encoder_cfg.dim', text.dim),
        ('diffusion_model_cfg.out_dim', dit.out_dim, 'vae_cfg.z_dim', vae.z_dim),
        (
            'diffusion_model_cfg.in_dim',
            dit.in_dim,
            f'latent, mask ({MASK_CHANNELS}) and conditioning latent',
            2 * vae.z_dim + MASK_CHANNELS,
        ),
        ('action_horizon', read.action_horizon, rows, dit.num_action_per_block),
    ]
    # What the action head says again, where it does.
    for name, value, field, again in (
        ('diffusion_model_cfg', dit.num_frame_per_block, 'num_frame_per_block', None),
        ('', read.action_horizon, 'action_horizon', None),
        ('diffusion_model_cfg', dit.action_dim, 'action_dim', None),
        ('diffusion_model_cfg', dit.action_dim, 'action_dim', 'max_action_dim'),
        ('diffusion_model_cfg', dit.max_state_dim, 'max_state_dim', None),
    ):
        mine = f'{name}.{field}' if name else field
        other = again or field
        same.append((mine, value, f"the action head's {other}", getattr(head, other)))
    for mine, value, other, against in same:
        if against is not None and value != against:
            yield f'{mine} is {value}, {other} is {against}; they must agree'
