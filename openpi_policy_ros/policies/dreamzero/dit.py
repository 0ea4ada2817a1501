# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""DreamZero's diffusion transformer: video, actions and state of one block, over a window.

No attention has a mask. What is clean was written to the window frame by frame (``prefill``), and
each token of the block under denoising sees it and its whole block (``denoise``). What the
training had beside that, masks and a choice of weights by the kind of robot, no inference uses.
Source: the DreamZero reference, on Wan 2.1's image-to-video transformer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from openpi_policy_ros.policies.dreamzero.config import CLIP_TOKENS, PATCH, DitConfig
from openpi_policy_ros.policies.dreamzero.kv import CrossKV, KVWindow, Workspace
from openpi_policy_ros.policies.dreamzero.layers import (
    MODULATIONS,
    ActionEncoder,
    Block,
    CategoryMlp,
    Head,
    ImageEmbedding,
    Time,
    action_sinusoid,
    time_sinusoid,
)
from openpi_policy_ros.policies.dreamzero.rope import RopeTables

MAX_TIME = 1000
"""Of a sampler; times are whole numbers from 0 (clean) to it."""


class _TimeRows(NamedTuple):
    """Of one time: for the head [1, dim], for the blocks [1, 6, dim], for the actions [1, dim]."""

    head: Tensor
    blocks: Tensor
    actions: Tensor


class CausalWan(nn.Module):
    """The transformer.

    It can be built on the meta device: nothing but its parameters needs a value. What depends on
    times and positions alone is computed once and kept; moving the network or loading a state
    dict forgets it.

    Args:
        config: sizes.

    """

    def __init__(self, config: DitConfig) -> None:
        super().__init__()
        dim = config.dim
        self.config = config
        self.patch_embedding = nn.Conv3d(
            config.in_dim, dim, kernel_size=(1, PATCH, PATCH), stride=(1, PATCH, PATCH)
        )
        self.text_embedding = nn.Sequential(
            nn.Linear(config.text_dim, dim), nn.GELU(approximate='tanh'), nn.Linear(dim, dim)
        )
        self.time_embedding = nn.Sequential(
            nn.Linear(config.freq_dim, dim), nn.SiLU(), nn.Linear(dim, dim)
        )
        self.time_projection = nn.Sequential(nn.SiLU(), nn.Linear(dim, MODULATIONS * dim))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.head = Head(config)
        self.img_emb = ImageEmbedding(config)
        self.state_encoder = CategoryMlp(config.max_state_dim, config.hidden_size, dim)
        self.action_encoder = ActionEncoder(config)
        self.action_decoder = CategoryMlp(dim, config.hidden_size, config.action_dim)
        self._rope = RopeTables(config)
        self._times: dict[int, _TimeRows] = {}
        self._workspace: Workspace | None = None
        self.register_load_state_dict_post_hook(lambda module, _: module._forget())

    @property
    def device(self) -> torch.device:
        """Return where the network is."""
        return self.head.head.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """Return the dtype of the network."""
        return self.head.head.weight.dtype

    @torch.no_grad()
    def cross(self, text: Tensor, clip: Tensor, into: CrossKV | None = None) -> CrossKV:
        """Return keys and values of a window's text and picture, for every layer.

        Args:
            text: features of the branches' texts, [B, text_len, text_dim].
            clip: features of the picture, the same for all branches, [1, 257, clip_dim].
            into: where to put them; None = new memory.

        Raises:
            ValueError: a shape is wrong.

        """
        config = self.config
        self._check('text', text, (text.shape[0], config.text_len, config.text_dim))
        self._check('clip', clip, (1, CLIP_TOKENS, config.clip_dim))
        if into is None:
            into = CrossKV(config, text.shape[0], self.device, self.dtype)
        self._check('into', into.text[0, 0], (text.shape[0], *into.text.shape[3:]))
        text = self.text_embedding(self._cast(text))
        image = self.img_emb(self._cast(clip))
        for number, block in enumerate(self._blocks):
            into.text[number, 0], into.text[number, 1] = block.cross_attn.text_keys(text)
            into.image[number, 0], into.image[number, 1] = block.cross_attn.image_keys(image)
        return into

    @torch.no_grad()
    def prefill(
        self,
        x: Tensor,
        y: Tensor,
        start_frame: int,
        cross: CrossKV,
        window: KVWindow,
        want_video: bool = False,
    ) -> Tensor | None:
        """Write the keys and values of clean frames to the window.

        The frames see what is cached and one another.

        Args:
            x: latents, [B or 1, out_dim, F, h, w]; one for all branches is enough.
            y: their conditioning, [B or 1, in_dim − out_dim, F, h, w].
            start_frame: of the window; its number of cached frames.
            cross: of the window.
            window: which has room for them.
            want_video: compute the flow too, which no inference reads.

        Returns:
            the flow [B, out_dim, F, h, w], or None.

        Raises:
            ValueError: a shape is wrong, or the frames do not go there.

        """
        frames, height, width = x.shape[2:]
        if start_frame + frames > window.max_frames:
            raise ValueError(
                f'frames {start_frame} to {start_frame + frames - 1} do not fit the window, which '
                f'keeps {window.max_frames}'
            )
        tokens = self._embed(x, y, start_frame, window)
        rope = self._rope.get(
            start_frame, frames, height, width, registers=False, device=tokens.device
        )
        rows = self._time(0)
        time = Time(rows.blocks)

        def place(layer: int) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
            return partial(window.write, layer)

        last = None if want_video else len(self.blocks) - 1
        tokens = self._run(tokens, time, rope, place, cross, last)
        window.advance(frames)
        if want_video:
            return self._unpatchify(self.head(tokens, rows.head), frames, height, width)
        return None

    @torch.no_grad()
    def denoise(
        self,
        x: Tensor,
        y: Tensor,
        action: Tensor,
        state: Tensor,
        t_video: int,
        t_action: int,
        start_frame: int,
        cross: CrossKV,
        window: KVWindow,
    ) -> tuple[Tensor, Tensor]:
        """Return the flow of a block's video and actions; the window stays as it is.

        Args:
            x: noisy latents, [B or 1, out_dim, F, h, w].
            y: their conditioning, [B or 1, in_dim − out_dim, F, h, w].
            action: noisy actions, [B or 1, A, action_dim].
            state: normalised, [B or 1, 1, max_state_dim].
            t_video, t_action: times of both, 0..1000; the state has that of the actions.
            start_frame: of the window; its number of cached frames, at least 1.
            cross: of the window.
            window: the frames before.

        Returns:
            video [B, out_dim, F, h, w] and action [B, A, action_dim].

        Raises:
            ValueError: a shape or a time is wrong, or the block does not go there.

        """
        config = self.config
        frames, height, width = x.shape[2:]
        if frames != config.num_frame_per_block or start_frame < 1:
            raise ValueError(
                f'{frames} frames at {start_frame}; a block has {config.num_frame_per_block} and '
                'comes after the first frame'
            )
        actions, batch = config.num_action_per_block, window.batch
        self._check('action', action, (action.shape[0], actions, config.action_dim))
        self._check(
            'state', state, (state.shape[0], config.num_state_per_block, config.max_state_dim)
        )
        video = self._embed(x, y, start_frame, window)
        video_rows, action_rows = self._time(t_video), self._time(t_action)
        registers = [
            self.action_encoder(self._cast(action), action_rows.actions),
            self.state_encoder(self._cast(state)),
        ]
        tokens = torch.cat([video, *(part.expand(batch, -1, -1) for part in registers)], dim=1)
        time = Time(video_rows.blocks)
        if t_video != t_action:
            count = video.shape[1]
            both = torch.cat([video_rows.blocks, action_rows.blocks])
            time = Time(both, (count, tokens.shape[1] - count))
        rope = self._rope.get(
            start_frame, frames, height, width, registers=True, device=tokens.device
        )
        workspace = self._get_workspace(batch, window)

        def place(layer: int) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
            return partial(workspace.join, window.read(layer))

        tokens = self._run(tokens, time, rope, place, cross, None)
        video, rest = tokens.split([video.shape[1], tokens.shape[1] - video.shape[1]], dim=1)
        flow = self._unpatchify(self.head(video, video_rows.head), frames, height, width)
        return flow, self.action_decoder(rest[:, :actions])

    def _run(
        self,
        tokens: Tensor,
        time: Time,
        rope: Tensor,
        place: Callable[[int], Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]],
        cross: CrossKV,
        keys_only: int | None,
    ) -> Tensor:
        """Send tokens through the blocks; of block ``keys_only`` nothing but keys is computed."""
        for number, block in enumerate(self._blocks):
            if number == keys_only:
                place(number)(*block.keys(tokens, time, rope))
                return tokens
            text, image = cross.text[number], cross.image[number]
            tokens = block(
                tokens, time, rope, place(number), (text[0], text[1]), (image[0], image[1])
            )
        return tokens

    @property
    def _blocks(self) -> list[Block]:
        return [block for block in self.blocks if isinstance(block, Block)]

    def _embed(self, x: Tensor, y: Tensor, start_frame: int, window: KVWindow) -> Tensor:
        """Return the tokens of a video, [B, F · h/2 · w/2, dim], in the order of f, h, w."""
        config = self.config
        frames, height, width = x.shape[2:]
        if height % PATCH or width % PATCH or height * width != PATCH**2 * config.frame_seqlen:
            raise ValueError(
                f'latents of {height} x {width} are not the {config.frame_seqlen} tokens of '
                f'{PATCH} x {PATCH} that frame_seqlen says'
            )
        self._check('x', x, (x.shape[0], config.out_dim, frames, height, width))
        self._check('y', y, (x.shape[0], config.in_dim - config.out_dim, frames, height, width))
        if start_frame != window.frames:
            raise ValueError(f'start_frame is {start_frame}, the window holds {window.frames}')
        pixels = torch.cat([self._cast(x), self._cast(y)], dim=1)
        # A convolution whose stride is its kernel is a matrix product over flattened patches.
        patches = pixels.unflatten(4, (-1, PATCH)).unflatten(3, (-1, PATCH))
        patches = patches.permute(0, 2, 3, 5, 1, 4, 6).flatten(4).flatten(1, 3)
        weight = self.patch_embedding.weight.flatten(1)
        tokens = F.linear(patches, weight, self.patch_embedding.bias)
        return tokens.expand(window.batch, -1, -1)

    def _unpatchify(self, patches: Tensor, frames: int, height: int, width: int) -> Tensor:
        """Return [B, channels, F, h, w] of [B, S, 2 · 2 · channels]."""
        shape = (frames, height // PATCH, width // PATCH, PATCH, PATCH, -1)
        x = patches.unflatten(1, shape[:3]).unflatten(-1, shape[3:])
        return x.permute(0, 6, 1, 2, 4, 3, 5).flatten(5).flatten(3, 4)

    def _time(self, t: int) -> _TimeRows:
        if t not in self._times:
            if not 0 <= t <= MAX_TIME:
                raise ValueError(f'time {t}, expected 0..{MAX_TIME}')
            head = self.time_embedding(self._cast(time_sinusoid(t, self.config.freq_dim)))
            self._times[t] = _TimeRows(
                head,
                self.time_projection(head).unflatten(-1, (MODULATIONS, -1)),
                self._cast(action_sinusoid(t, self.config.dim)),
            )
        return self._times[t]

    def _get_workspace(self, batch: int, window: KVWindow) -> Workspace:
        device, dtype = window.kv.device, window.kv.dtype
        if self._workspace is None or not self._workspace.fits(batch, device, dtype):
            self._workspace = Workspace(self.config, batch, device, dtype)
        return self._workspace

    def _cast(self, x: Tensor) -> Tensor:
        return x.to(self.device, self.dtype)

    def _forget(self) -> None:
        self._times.clear()
        self._workspace = None

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> CausalWan:
        self._forget()
        super()._apply(fn, recurse)
        return self

    @staticmethod
    def _check(name: str, x: Tensor, shape: tuple[int, ...]) -> None:
        if tuple(x.shape) != shape:
            raise ValueError(f'{name} is {list(x.shape)}, expected {list(shape)}')
