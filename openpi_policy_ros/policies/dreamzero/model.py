# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""One call of DreamZero: images, state and an instruction to a video block and its actions.

What depends on less than a call is computed less often: the text once per instruction, what the
network makes of text and first image (keys and values of cross-attention) and the conditioning once
per window, schedules once per number of steps.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from openpi_policy_ros.policies.dreamzero.config import DreamZeroConfig
from openpi_policy_ros.policies.dreamzero.encoders import STRIDE, Encoders
from openpi_policy_ros.policies.dreamzero.guidance import Flow, Guidance
from openpi_policy_ros.policies.dreamzero.memory import bytes_per_session
from openpi_policy_ros.policies.dreamzero.sampler import Sampling, sample
from openpi_policy_ros.policies.dreamzero.session import Frame, Session
from openpi_policy_ros.policies.dreamzero.transform import to_model
from openpi_policy_ros.policies.dreamzero.window import Turn, condition_frames, plan_turn
from openpi_policy_ros.policies.stage_clock import StageClock

logger = logging.getLogger('openpi_policy_ros.policies.dreamzero')

TEXTS = 8
"""Instructions whose encoding is kept, those used last; 4 MB each in the published sizes."""

Prompt = tuple[Tensor, Tensor]
"""Token ids int64 [1, L] and mask [1, L]."""


@dataclass(frozen=True)
class Noise:
    """Where a call begins.

    Attributes:
        video: [1, 16, F, h, w], F latent frames of a block.
        action: [1, H, A].

    """

    video: Tensor
    action: Tensor


@dataclass(frozen=True)
class Call:
    """What one call is about.

    Attributes:
        frames: the images it brings, oldest first, at least one.
        state: normalised and padded, float32 [1, 1, S].
        prompt: the instruction.
        noise: where it begins.
        reset: the session starts afresh.
        sampling: how; None = as configured.
        imagined: whether the video is wanted.

    """

    frames: Sequence[Frame]
    state: Tensor
    prompt: Prompt
    noise: Noise
    reset: bool = False
    sampling: Sampling | None = None
    imagined: bool = False


@dataclass(frozen=True)
class Prediction:
    """What a call says.

    Attributes:
        actions: normalised, float32 [H, A].
        video: latents of the block [1, 16, F, h, w], behind that of the first image where a window
            starts.
        turn: what was done with the window.
        evaluations: sampler steps at which the network ran.
        imagined: the block as RGB uint8 [T, H, W, 3], None = not asked for.

    """

    actions: npt.NDArray[np.float32]
    video: Tensor
    turn: Turn
    evaluations: int
    imagined: npt.NDArray[np.uint8] | None = None


class DreamZeroModel:
    """The networks, and what is done with them in a call.

    Args:
        config: sizes.
        guidance: runs the diffusion transformer, and holds the sessions' keys and values.
        encoders: text, image and video.
        sampling: how calls go from noise to actions.
        negative: what the guidance leads away from.

    Attributes:
        keep_seen: whether sessions keep what they saw in their window, to decode what comes next.

    """

    def __init__(
        self,
        config: DreamZeroConfig,
        guidance: Guidance,
        encoders: Encoders,
        sampling: Sampling,
        negative: Prompt,
    ) -> None:
        self.config = config
        self.guidance = guidance
        self.encoders = encoders
        self.sampling = sampling
        self.keep_seen = False
        self._negative = negative
        self._texts: OrderedDict[tuple[int, ...], Tensor] = OrderedDict()
        self._negative_text: Tensor | None = None

    @property
    def device(self) -> torch.device:
        """Return where a call runs."""
        return self.encoders.device

    @property
    def dtype(self) -> torch.dtype:
        """Return the dtype of weights and samples."""
        return self.encoders.dtype

    @property
    def bytes_per_session(self) -> int:
        """Return what a session takes at most."""
        return bytes_per_session(
            self.config,
            self.guidance.bytes_per_session,
            self.dtype.itemsize,
            imagined=self.keep_seen,
        )

    def open(self, name: str = '') -> Session:
        """Return a new session, its window allocated; ``name`` is for log lines.

        Raises:
            torch.OutOfMemoryError: the device has no room for the window.

        """
        return Session(self.guidance.open(), name)

    def close(self, session: Session) -> None:
        """Free what a session holds; it is not used afterwards."""
        self.guidance.close(session.handle)
        session.conditioning, session.seen = None, ()
        session.frames.clear()

    def call(self, session: Session, call: Call, clock: StageClock) -> Prediction:
        """Answer one call; see ``Session`` for what is left if this fails.

        Args:
            session: of ``open``.
            call: what it is about.
            clock: gains the stages ``preprocess``, ``text`` and ``clip`` (where a window starts),
                ``vae``, ``prefill``, ``denoise``, ``imagined`` (where asked for).

        Raises:
            ValueError: noise, state or images of the wrong shape.

        """
        config = self.config
        block, most = config.dit.num_frame_per_block, config.dit.local_attn_size
        key = tuple(call.prompt[0].flatten().tolist())
        first = session.first or call.reset
        turn = plan_turn(
            session.start,
            first=first,
            prompt_changed=key != session.prompt,
            failed=session.failed,
            block=block,
            most=most,
        )
        with clock.stage('preprocess'):
            seen = session.look(call.frames, reset=call.reset)
            if turn.restart is not None:
                seen = seen[-1:]
            video = to_model(np.stack(seen), self.dtype, self.device)
            state = call.state.to(self.device, self.dtype)
            noise_video = call.noise.video.to(self.device, self.dtype)
            noise_action = call.noise.action.to(self.device, self.dtype)
        self._check_shapes(video, state, call.noise)
        # From here on the window changes.
        session.failed = True
        if turn.restart is not None:
            latents = self._start(session, turn, call.prompt, key, video[:, :, 0], clock)
        else:
            with clock.stage('vae'):
                latents = self.encoders.observe(video, block)
        conditioning = session.conditioning
        assert conditioning is not None
        written, denoised = condition_frames(turn, conditioning.shape[2], block)
        with clock.stage('prefill'):
            self.guidance.prefill(
                session.handle, latents, conditioning[:, :, written], turn.prefill_start
            )
            beside = conditioning[:, :, denoised]

        def denoise(x: Tensor, action: Tensor, video_time: int, action_time: int) -> Flow:
            return self.guidance.denoise(
                session.handle,
                x,
                beside,
                action,
                state,
                video_time,
                action_time,
                turn.denoise_start,
            )

        with clock.stage('denoise'):
            end = sample(denoise, noise_video, noise_action, call.sampling or self.sampling)
            actions = end.action[0].float().cpu().numpy()
        if self.keep_seen:
            past = () if turn.restart is not None else session.seen
            # A copy: what the encoder returned is a view of more.
            session.seen = (*past, latents.clone())
        pictures = None
        if call.imagined:
            with clock.stage('imagined'):
                pictures = self._decode((*session.seen, end.video))
        session.finish(call.frames, key, turn, reset=call.reset)
        block_video = end.video
        if turn.restart is not None:
            block_video = torch.cat([latents, block_video], dim=2)
        return Prediction(actions, block_video, turn, end.evaluations, pictures)

    def _start(
        self,
        session: Session,
        turn: Turn,
        prompt: Prompt,
        key: tuple[int, ...],
        frame: Tensor,
        clock: StageClock,
    ) -> Tensor:
        """Begin a window at ``frame`` [1, 3, H, W]; return its latent [1, 16, 1, h, w]."""
        assert turn.restart is not None
        with clock.stage('text'):
            text = self._text(prompt, key)
            if self._negative_text is None:
                self._negative_text = self.encoders.text(*self._negative)
        with clock.stage('clip'):
            clip = self.encoders.clip(frame)
        with clock.stage('vae'):
            session.conditioning, first = self.encoders.first_frame(frame, self.config.num_frames)
        with clock.stage('prefill'):
            self.guidance.begin(session.handle, text, self._negative_text, clip)
        session.window += 1
        # A full window is how it always goes on; the other reasons are somebody's doing.
        logger.log(
            logging.DEBUG if turn.restart.routine else logging.INFO,
            'session %s: window %d starts from the newest image: %s',
            session.name,
            session.window,
            turn.restart.value,
        )
        return first

    def _text(self, prompt: Prompt, key: tuple[int, ...]) -> Tensor:
        text = self._texts.pop(key, None)
        if text is None:
            text = self.encoders.text(*prompt)
            while len(self._texts) >= TEXTS:
                self._texts.popitem(last=False)
        self._texts[key] = text
        return text

    def _decode(self, latents: Sequence[Tensor]) -> npt.NDArray[np.uint8]:
        """Return the last block of ``latents`` as RGB uint8 [T, H, W, 3].

        The autoencoder is causal: a block decodes to motion only behind what came before it, and
        the very first latent is that of a single image.
        """
        video = self.encoders.decode(torch.cat(list(latents), dim=2))
        block = video[0, :, -STRIDE * self.config.dit.num_frame_per_block :]
        pixels = ((block.float() * 0.5 + 0.5) * 255.0).round().clamp(0.0, 255.0)
        array: npt.NDArray[np.uint8] = pixels.to(torch.uint8).permute(1, 2, 3, 0).cpu().numpy()
        return array

    def _check_shapes(self, video: Tensor, state: Tensor, noise: Noise) -> None:
        dit = self.config.dit
        height, width = video.shape[3] // 8, video.shape[4] // 8
        for name, found, expected in (
            ('state', state.shape, (1, dit.num_state_per_block, dit.max_state_dim)),
            (
                'noise of the video',
                noise.video.shape,
                (1, dit.out_dim, dit.num_frame_per_block, height, width),
            ),
            (
                'noise of the actions',
                noise.action.shape,
                (1, self.config.action_horizon, dit.action_dim),
            ),
        ):
            if tuple(found) != expected:
                raise ValueError(f'{name} is {list(found)}, expected {list(expected)}')
