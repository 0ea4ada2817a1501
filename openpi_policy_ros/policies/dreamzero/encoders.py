# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What turns a prompt, a picture and a video into what the diffusion transformer reads.

Source of every formula: the DreamZero reference and Wan 2.1, whose image-to-video model it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from openpi_policy_ros.policies.dreamzero.config import DreamZeroConfig

STRIDE = 4
"""Frames of a video to a latent, behind the first, which has a latent of its own."""

_CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
_MASK_CHANNELS = 4


@dataclass(frozen=True)
class Conditioning:
    """What a window keeps of the frame that it starts at.

    Attributes:
        clip: features of the picture, [B, 257, C].
        y: 4 channels of mask (1 at the first latent), then 16 of the latents of a clip that
            shows the frame and then grey, [B, 20, t, h, w].
        first: latent of the frame, [B, 16, 1, h, w].

    """

    clip: Tensor
    y: Tensor
    first: Tensor


class Encoders:
    """The frozen networks around the diffusion transformer.

    Args:
        text: UMT5's encoder.
        clip: CLIP's vision tower up to the last block but one.
        vae: Wan 2.1's video autoencoder, of diffusers.
        config: sizes.
        offload_text: the text encoder lies on the CPU (``text`` is there), and on the device only
            while it encodes.

    """

    def __init__(
        self,
        text: nn.Module,
        clip: nn.Module,
        vae: nn.Module,
        config: DreamZeroConfig,
        *,
        offload_text: bool = False,
    ) -> None:
        self.config = config
        self.offload_text = offload_text
        self._text, self._clip = text, clip
        self._vae = cast(Any, vae)
        like = next(vae.parameters())
        self.device, self.dtype = like.device, like.dtype

        def channels(values: Any, shape: tuple[int, ...]) -> Tensor:
            return torch.tensor(values, dtype=self.dtype, device=self.device).view(shape)

        latent = (1, config.vae.z_dim, 1, 1, 1)
        self._mean = channels(self._vae.config.latents_mean, latent)
        self._std = channels(self._vae.config.latents_std, latent)
        self._clip_mean = channels(_CLIP_MEAN, (1, 3, 1, 1))
        self._clip_std = channels(_CLIP_STD, (1, 3, 1, 1))

    @torch.no_grad()
    def text(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the features of a prompt.

        Args:
            ids: tokens, int64 [B, L].
            mask: 1 at real tokens, which come first, [B, L].

        Returns:
            [B, L, D]; rows behind the real tokens are 0, and still count as keys.

        Raises:
            ValueError: a token that the table does not have.

        """
        size = self.config.text.vocab
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < size:
            raise ValueError(
                f'tokens run from {int(ids.min())} to {int(ids.max())}; the text encoder knows '
                f'0 to {size - 1}: the tokenizer is of another model'
            )
        ids, mask = ids.to(self.device), mask.to(self.device)
        arguments = {'input_ids': ids, 'attention_mask': mask}
        if self.offload_text:
            # The moved copy lives as long as this call; the one on the CPU stays where it is.
            moved = {
                name: parameter.to(self.device) for name, parameter in self._text.named_parameters()
            }
            output = torch.func.functional_call(self._text, moved, (), arguments)
        else:
            output = self._text(**arguments)
        features: Tensor = output.last_hidden_state
        rows = torch.arange(ids.shape[1], device=self.device)
        real = rows[None, :] < mask.sum(dim=1, keepdim=True)
        return features * real[..., None]

    @torch.no_grad()
    def clip(self, frame: Tensor) -> Tensor:
        """Return the features of a picture.

        Args:
            frame: [B, 3, H, W] in [−1, 1]; it is squashed to CLIP's square.

        Returns:
            [B, 257, C], of the last block but one.

        """
        side = self.config.clip.image_size
        frame = frame.to(self.device, self.dtype)
        frame = interpolate(frame, size=(side, side), mode='bicubic', align_corners=False)
        pixels = (frame * 0.5 + 0.5 - self._clip_mean) / self._clip_std
        features: Tensor = self._clip(pixel_values=pixels).last_hidden_state
        return features

    @torch.no_grad()
    def encode(self, video: Tensor) -> Tensor:
        """Return the normalised latents of a video: the most likely ones, none are drawn.

        Args:
            video: [B, 3, 1 + 4k, H, W] in [−1, 1]; H and W are multiples of 8.

        Returns:
            [B, 16, 1 + k, H/8, W/8].

        Raises:
            ValueError: another number of frames.

        """
        if video.shape[2] % STRIDE != 1:
            raise ValueError(f'{video.shape[2]} frames; expected 1, and then groups of {STRIDE}')
        video = video.to(self.device, self.dtype)
        latents: Tensor = self._vae.encode(video).latent_dist.mode()
        return (latents - self._mean) / self._std

    @torch.no_grad()
    def decode(self, latents: Tensor) -> Tensor:
        """Return the video of normalised latents.

        Args:
            latents: [B, 16, t, h, w].

        Returns:
            [B, 3, 1 + 4(t − 1), 8h, 8w] in [−1, 1].

        """
        latents = latents.to(self.device, self.dtype)
        video: Tensor = self._vae.decode(latents * self._std + self._mean).sample
        return video.clamp(-1.0, 1.0)

    @torch.no_grad()
    def first_frame(self, frame: Tensor, num_frames: int) -> tuple[Tensor, Tensor]:
        """Return what the autoencoder says of the frame that a window starts at.

        Args:
            frame: [B, 3, H, W] in [−1, 1].
            num_frames: of the clip that begins with it and goes on in grey.

        Returns:
            ``Conditioning.y`` and ``Conditioning.first``.

        """
        batch, channels, height, width = frame.shape
        frame = frame.to(self.device, self.dtype)
        video = frame.new_zeros(batch, channels, num_frames, height, width)
        video[:, :, 0] = frame
        latents = self.encode(video)
        mask = latents.new_zeros(batch, _MASK_CHANNELS, *latents.shape[2:])
        mask[:, :, 0] = 1.0
        return torch.cat([mask, latents], dim=1), latents[:, :, :1]

    def condition(self, frame: Tensor, num_frames: int) -> Conditioning:
        """Return all that a window keeps of the frame that it starts at.

        Args:
            frame: [B, 3, H, W] in [−1, 1].
            num_frames: of the conditioning clip, 1 + 4k.

        """
        y, first = self.first_frame(frame, num_frames)
        return Conditioning(self.clip(frame), y, first)

    @torch.no_grad()
    def observe(self, video: Tensor, frames_per_block: int) -> Tensor:
        """Return the latents of one block of observed frames.

        The autoencoder wants 1 + 4n frames for a block of n latents. From 4n, the first frame is
        doubled; from fewer, every frame is repeated and then the first once more.

        Args:
            video: [B, 3, T, H, W] in [−1, 1].
            frames_per_block: latents of a block, n.

        Returns:
            [B, 16, n, H/8, W/8].

        Raises:
            ValueError: a number of frames that makes no block.

        """
        count = video.shape[2]
        groups = count // STRIDE
        if count == STRIDE * frames_per_block + 1:
            return self.encode(video)[:, :, -frames_per_block:]
        if count % STRIDE or not groups or frames_per_block % groups:
            raise ValueError(
                f'{count} frames make no block of {frames_per_block} latents; expected '
                f'{STRIDE * frames_per_block + 1}, {STRIDE * frames_per_block} or a whole part '
                f'of that in groups of {STRIDE}'
            )
        video = video.repeat_interleave(frames_per_block // groups, dim=2)
        video = torch.cat([video[:, :, :1], video], dim=2)
        return self.encode(video)[:, :, -frames_per_block:]
