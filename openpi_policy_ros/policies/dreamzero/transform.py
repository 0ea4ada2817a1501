# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""From a robot's observation to the canvas the model sees, and from its actions back.

The canvas has the wrist's view on top, stretched to twice its width, and the two exterior views
side by side below (DreamZero reference, transform of DROID data).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from openpi_policy_ros.errors import ConfigurationError, InvalidObservation
from openpi_policy_ros.policies.base import FloatArray, Observation
from openpi_policy_ros.policies.dreamzero.config import DreamZeroConfig
from openpi_policy_ros.policies.dreamzero.metadata import JOINTS, PARTS, VIEWS
from openpi_policy_ros.policies.dreamzero.state import Units
from openpi_policy_ros.policies.feature_map import FeatureMap
from openpi_policy_ros.policies.letterbox import resize_with_pad
from openpi_policy_ros.policies.observation import Image, ObservationReader

logger = logging.getLogger('openpi_policy_ros.policies.dreamzero')

FEATURES = tuple(f'observation.images.{view}' for view in VIEWS)
"""The model's cameras in the order of its views: first and second exterior one, wrist."""

CROP = 0.95
"""Part of each side that is left of an image before it is scaled."""
PATCH_PIXELS = 16
"""Pixels along a side of what becomes one token: 8 in the encoder times 2 in the network."""

_REMEMBERED_SIZES = 64

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Inputs:
    """What the model takes from one observation.

    Attributes:
        views: uint8 RGB [T, 3, H, W, 3], oldest frame first; first and second exterior camera,
            wrist; a missing one is black. H and W as in training.
        joint: measured joints, float32 [7].
        gripper: its position, float32 [1].
        prompt: the instruction, not empty.

    """

    views: Pixels
    joint: FloatArray
    gripper: FloatArray
    prompt: str


class DreamZeroTransform:
    """Converts between one robot and one checkpoint.

    Args:
        features: which observation key carries which input.
        units: normalisation of state and actions.
        resolution: (height, width) of the images in training.
        view_size: (height, width) of one view as the model sees it.

    Attributes:
        view_size: as given.

    """

    def __init__(
        self,
        features: FeatureMap,
        units: Units,
        resolution: tuple[int, int],
        view_size: tuple[int, int],
    ) -> None:
        self.view_size = view_size
        self._features = features
        self._reader = ObservationReader(features)
        self._units = units
        self._resolution = resolution
        self._told: set[tuple[str, int, int]] = set()

    @property
    def relative(self) -> bool:
        """Return whether the joints of a chunk are differences that are added to the measured ones.

        A chunk as ``robot_actions`` returns it is absolute either way.
        """
        return self._units.relative

    def read(self, observation: Observation) -> Inputs:
        """Return what the model takes from ``observation``.

        Images of another size are scaled into that of the training data, with black bars where
        their shape is another, and told once for each size.

        Raises:
            InvalidObservation: the first thing that is wrong with it.

        """
        found = self._reader.read(observation)
        frames = {
            feature: image if image.ndim == 4 else image[None]
            for feature, image in found.images.items()
        }
        keys = {camera.feature: camera.wire_keys for camera in self._features.cameras}
        counts = {keys[feature][0]: len(images) for feature, images in frames.items()}
        if len(set(counts.values())) > 1:
            listed = ', '.join(f'{key} {count}' for key, count in counts.items())
            raise InvalidObservation(
                next(iter(counts)),
                f'the cameras have different numbers of frames ({listed})',
                expected='the same number for each, taken at the same times',
                remedy='send one frame per camera at first, then four',
            )
        views = np.zeros((next(iter(counts.values())), len(FEATURES), *self._resolution, 3), 'u1')
        for index, feature in enumerate(FEATURES):
            if feature in frames:
                for time, image in enumerate(frames[feature]):
                    views[time, index] = self._fitted(keys[feature][0], image)
        count = PARTS[JOINTS]
        return Inputs(views, found.state[:count], found.state[count:], found.prompt)

    def _fitted(self, key: str, image: Image) -> Pixels:
        height, width = image.shape[:2]
        size = key, height, width
        other = (height, width) != self._resolution
        # A client that sends a new size with every call must fill neither the memory nor the log.
        if other and size not in self._told and len(self._told) < _REMEMBERED_SIZES:
            self._told.add(size)
            logger.warning(
                '%s sends images of %dx%d (height x width); they are scaled into the %dx%d of the '
                'training data, with black bars where the shape is another',
                key,
                height,
                width,
                *self._resolution,
            )
        pixels = image if image.dtype == np.uint8 else np.rint(image * np.float32(255.0))
        return resize_with_pad(key, pixels.astype(np.uint8, copy=False), self._resolution)

    def tile(self, views: Pixels) -> Pixels:
        """Return the canvas, uint8 [T, 2h, 2w, 3], of ``views`` uint8 [T, 3, H, W, 3].

        Each view is cropped to its middle, scaled with antialiasing, and cut to whole numbers.
        """
        times, cameras, height, width, _ = views.shape
        h, w = self.view_size
        crop_h, crop_w = int(CROP * height), int(CROP * width)
        top, left = round((height - crop_h) / 2), round((width - crop_w) / 2)
        part = views[:, :, top : top + crop_h, left : left + crop_w]
        planes = torch.from_numpy(np.ascontiguousarray(part)).flatten(0, 1).permute(0, 3, 1, 2)
        scaled = F.interpolate(
            planes.to(torch.float32) / 255.0,
            (h, w),
            mode='bilinear',
            align_corners=False,
            antialias=True,
        )
        pixels = (scaled * 255.0).clamp(0.0, 255.0).to(torch.uint8)
        small = pixels.permute(0, 2, 3, 1).reshape(times, cameras, h, w, 3).numpy()
        canvas = np.empty((times, 2 * h, 2 * w, 3), np.uint8)
        canvas[:, :h] = small[:, 2].repeat(2, axis=2)
        canvas[:, h:, :w] = small[:, 0]
        canvas[:, h:, w:] = small[:, 1]
        return canvas

    def normalise_state(self, joint: npt.NDArray[Any], gripper: npt.NDArray[Any]) -> FloatArray:
        """Return the model's state, float32 [1, 1, max_state_dim]; see ``Units``."""
        return self._units.normalise_state(joint, gripper)

    def robot_actions(self, prediction: FloatArray, joint: npt.NDArray[Any]) -> FloatArray:
        """Return a chunk [H, 8] in the robot's units of ``prediction`` [H, A]; see ``Units``."""
        return self._units.robot_actions(prediction, joint)

    def example(self, frames: int) -> dict[str, Any]:
        """Return an observation that is accepted, with ``frames`` >= 1 images of each camera.

        Its images are noise of the training data's size, its state is in the middle of the
        statistics.
        """
        rng = np.random.default_rng(0)
        shape = (frames, *self._resolution, 3)
        observation: dict[str, Any] = {}
        for camera in self._features.cameras:
            if camera.wire_keys:
                pixels = rng.integers(0, 256, shape, np.uint8)
                if self._features.layout == 'CHW':
                    pixels = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
                observation[camera.wire_keys[0]] = pixels
        state = self._units.middle()
        dims = [dim or 0 for dim in self._features.state_dims]
        if not all(dims):
            # Whoever does not say how many numbers a key holds takes any split.
            dims = [0] * len(self._features.state_parts)
            dims[: len(PARTS)] = list(PARTS.values())[: len(dims)]
            dims[-1] += state.size - sum(dims)
        ends = np.cumsum(dims)
        for keys, end, dim in zip(self._features.state_parts, ends, dims, strict=True):
            observation[keys[0]] = state[end - dim : end]
        observation[self._features.prompt_key] = self._features.default_prompt or 'go'
        return observation


def to_model(tiled: Pixels, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return canvases as the encoders take them, [1, 3, T, 2h, 2w] in −1..1.

    Rounded to ``dtype`` before it is shifted, as the reference does.

    Args:
        tiled: uint8 [T, 2h, 2w, 3].
        dtype: of the encoders.
        device: where they are.

    """
    pixels = torch.from_numpy(np.ascontiguousarray(tiled)).to(device)
    values = (pixels.to(torch.float32) / 255.0).to(dtype)
    return ((values - 0.5) / 0.5).permute(3, 0, 1, 2)[None].contiguous()


def settle_view_size(
    config: DreamZeroConfig,
    resolution: tuple[int, int],
    chosen: list[int] | None,
    source: str,
) -> tuple[int, int]:
    """Return (height, width) of one view as the model sees it.

    Args:
        config: the checkpoint's.
        resolution: (height, width) of the images in training.
        chosen: the policy file's ``view_size``.
        source: for messages.

    Raises:
        ConfigurationError: a frame of that size makes another number of tokens than the network
            was trained with.

    """
    if chosen is not None:
        height, width = chosen
    else:
        height, width = (side // PATCH_PIXELS * PATCH_PIXELS for side in resolution)
    # The canvas is twice as high and twice as wide.
    tokens = (2 * height // PATCH_PIXELS) * (2 * width // PATCH_PIXELS)
    if tokens != config.dit.frame_seqlen:
        made = 'view_size' if chosen is not None else 'the resolution in metadata.json'
        raise ConfigurationError(
            source,
            [
                f'views of {height}x{width} (height x width, from {made}) make {tokens} tokens a '
                f'frame, but the network was trained with {config.dit.frame_seqlen}; set '
                'view_size: [height, width] to what the checkpoint was trained with'
            ],
        )
    return height, width
