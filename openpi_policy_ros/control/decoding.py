# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Decode the cameras' messages into the frames of an observation, each message once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.buffers import Sample
from openpi_policy_ros.control.encodings import UInt8Array
from openpi_policy_ros.control.framing import check_crop, frame
from openpi_policy_ros.control.images import (
    check_compressed_image,
    check_image,
    decode_compressed_image,
    decode_image,
)
from openpi_policy_ros.errors import InvalidObservation

_log = logging.getLogger('openpi_policy_ros.control')


class Decoder:
    """Decodes as the robot file says. ``check`` from any thread, all else from one."""

    def __init__(self, robot: RobotConfig) -> None:
        self._robot = robot
        # By the identity of the message, which the entry keeps from being given to another.
        self._known: dict[str, dict[int, tuple[Sample[Any], UInt8Array]]] = {
            name: {} for name in robot.camera_names
        }

    def check(self, camera: str, message: Any) -> None:
        """Refuse what can be told at arrival; the size of a compressed image cannot.

        Raises:
            InvalidObservation: what is wrong with it.

        """
        settings, name = self._robot.cameras[camera], f'camera {camera!r}'
        if settings.transport == 'compressed':
            check_compressed_image(message, name=name)
        else:
            check_image(message, name=name)
            check_crop(settings.crop, message.height, message.width, name=name)

    def decode(
        self, camera: str, image: Sample[Any], kept: Sequence[Sample[Any]] = ()
    ) -> UInt8Array:
        """Return the frame of the newest message; one that is known is not decoded again.

        Args:
            camera: whose.
            image: its newest message.
            kept: messages of it whose frames may be wanted again; all others are forgotten.

        Returns:
            Read-only uint8 [H, W, 3], or [3, H, W] as the profile says.

        Raises:
            InvalidObservation: it cannot be decoded.

        """
        wanted = {id(one) for one in (image, *kept)}
        known = self._known[camera]
        self._known[camera] = {one: known[one] for one in known if one in wanted}
        return self._frame(camera, image)

    def stack(
        self,
        camera: str,
        kept: Sequence[Sample[Any]],
        choose: Callable[[Sequence[Sample[Any]]], Sequence[Sample[Any]]],
    ) -> tuple[UInt8Array, tuple[Sample[Any], ...]]:
        """Return the frames of the messages chosen of those kept.

        One that cannot be decoded, or is of another size than the newest, is left out as if it had
        been lost on its way, and the choice is made again.

        Args:
            camera: whose.
            kept: oldest first; the last one has just been decoded.
            choose: returns those wanted, of any that hold the last one.

        Returns:
            Read-only uint8 [T, H, W, 3], or [T, 3, H, W] as the profile says; what was left out.

        """
        shape = self._frame(camera, kept[-1]).shape
        unusable: list[Sample[Any]] = []
        while True:
            chosen = choose([one for one in kept if not any(one is bad for bad in unusable)])
            bad = next((one for one in chosen if not self._is_usable(camera, one, shape)), None)
            if bad is None:
                break
            unusable.append(bad)
        frames = np.stack([self._frame(camera, one) for one in chosen])
        frames.flags.writeable = False
        return frames, tuple(unusable)

    def _is_usable(self, camera: str, image: Sample[Any], shape: tuple[int, ...]) -> bool:
        try:
            found = self._frame(camera, image).shape
        except InvalidObservation as error:
            _log.warning('an earlier image is left out of the history: %s', error)
            return False
        if found != shape:
            _log.warning(
                'an earlier image of camera %r is left out of the history: its shape is %s, that '
                'of the newest %s',
                camera,
                list(found),
                list(shape),
            )
        return found == shape

    def _frame(self, camera: str, image: Sample[Any]) -> UInt8Array:
        known = self._known[camera].get(id(image))
        if known is not None:
            return known[1]
        profile, settings = self._robot.profile, self._robot.cameras[camera]
        name = f'camera {camera!r}'
        decode: Callable[..., UInt8Array] = (
            decode_compressed_image if settings.transport == 'compressed' else decode_image
        )
        pixels = decode(image.value, profile.colour_order, name=name)
        pixels = frame(pixels, settings.crop, settings.rotate, name=name)
        if profile.layout == 'CHW':
            pixels = pixels.transpose(2, 0, 1)
        self._known[camera][id(image)] = (image, pixels)
        return pixels
