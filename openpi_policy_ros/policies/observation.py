# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Turn a robot's observation into model features, or say exactly what is wrong with it.

Nothing is guessed: not the axis order of an image, not its value range, not the meaning of a key
nobody reads. A typo in a camera's name must not blind the robot in silence.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.errors import InvalidObservation
from openpi_policy_ros.policies.base import CameraSpec, FloatArray, Observation
from openpi_policy_ros.policies.feature_map import FeatureMap

logger = logging.getLogger('openpi_policy_ros.policies')

Image: TypeAlias = 'npt.NDArray[np.uint8] | npt.NDArray[np.float32]'
Path: TypeAlias = tuple[str, ...]

MAX_EXTENT = 8192
"""Most pixels along one side of an image; more is a mistake, not a camera."""

MAX_FRAMES = 64
"""Most frames along a time axis; models with one look at a few."""

_REMEMBERED_KEYS = 256
_SHOWN = 80


@dataclass(frozen=True)
class Features:
    """What a model sees of one observation.

    Attributes:
        images: camera feature → RGB [height, width, 3], uint8 0..255 or float32 0..1, in model
            order; missing optional cameras are absent. May be read-only views of the observation.
            Where ``FeatureMap.time_axis`` allows it, [T, height, width, 3], T >= 1, where one came.
        state: float32 [D], D as ``FeatureMap.state_dim``, ``state_exact``, ``least_state`` allow; a
            copy.
        prompt: the instruction, not empty.

    """

    images: Mapping[str, Image]
    state: FloatArray
    prompt: str


class ObservationReader:
    """Reads observations of one robot for one model."""

    def __init__(self, feature_map: FeatureMap) -> None:
        self._map = feature_map
        self._logged: set[str] = set()

    def read(self, observation: Observation) -> Features:
        """Return the features in ``observation``.

        Raises:
            InvalidObservation: the first thing that is wrong; a misspelt camera key before the
                missing camera it causes.

        """
        if not isinstance(observation, Mapping):
            raise InvalidObservation(
                'observation',
                f'is a {type(observation).__name__}',
                expected='a mapping from keys to arrays and text',
                remedy='send one map per request',
            )
        found: dict[str, tuple[str, Any]] = {}
        used: set[Path] = set()
        for camera in self._map.cameras:
            hit = self._find_one(observation, camera.wire_keys, used)
            if hit is not None:
                found[camera.feature] = hit
        state = self._read_state(observation, used)
        prompt = self._read_prompt(observation, used)
        self._refuse_unread_images(observation, used)
        for camera in self._map.cameras:
            if camera.required and camera.feature not in found:
                raise _missing_camera(camera)
        if not found:
            raise InvalidObservation(
                'observation',
                'holds no camera image at all',
                expected=f'at least one of {", ".join(self._camera_keys())}',
                remedy='send an image: each camera of this policy is optional, all at once are not',
            )
        images = {feature: self._read_image(key, value) for feature, (key, value) in found.items()}
        return Features(images, state, prompt)

    def _find_one(
        self, observation: Observation, keys: tuple[str, ...], used: set[Path]
    ) -> tuple[str, Any] | None:
        """Return (key, value) of the one key present; several are an error."""
        hits = []
        for key in keys:
            path = _find(observation, key)
            if path is not None:
                used.add(path)
                hits.append((key, _value(observation, path)))
        if len(hits) > 1:
            names = ' and '.join(repr(key) for key, _ in hits)
            raise InvalidObservation(
                hits[0][0],
                f'{names} are both present and mean the same input',
                expected='one of them',
                remedy='send only one, so that nobody has to guess which counts',
            )
        return hits[0] if hits else None

    def _read_state(self, observation: Observation, used: set[Path]) -> FloatArray:
        parts, lengths = [], []
        dims = self._map.state_dims or (None,) * len(self._map.state_parts)
        for keys, wanted in zip(self._map.state_parts, dims, strict=True):
            hit = self._find_one(observation, keys, used)
            if hit is None:
                names = ' or '.join(repr(key) for key in keys)
                raise InvalidObservation(
                    keys[0],
                    'the proprioceptive state is missing',
                    expected=f'a vector of numbers under {names}',
                    remedy='send it, or correct profile.key_map in the robot file',
                )
            part = _vector(*hit)
            if wanted is not None and part.size != wanted:
                # One number less would slide the next key's numbers into its place.
                raise InvalidObservation(
                    hit[0],
                    f'holds {part.size} numbers',
                    expected=f'{wanted} (profile.state_dims)',
                    remedy='send all of them in their order, or correct profile.state_dims in '
                    'the robot file',
                )
            parts.append(part)
            lengths.append(f'{hit[0]} {part.size}')
        state = np.concatenate(parts)
        most, least = self._map.state_dim, self._map.least_state
        if self._map.state_exact:
            least, expected = most, f'{most}, as many as the statistics of the checkpoint have'
        elif least > 1:
            expected = f'{least} to {most}; the actions are differences from the first {least}'
        else:
            expected = f'1 to {most}, the width of the checkpoint'
        if not least <= state.size <= most:
            raise InvalidObservation(
                self._map.state_parts[0][0],
                f'the state has {state.size} dimensions ({", ".join(lengths)})',
                expected=expected,
                remedy='send the dimensions this checkpoint was trained on, in their order',
            )
        return state

    def _read_prompt(self, observation: Observation, used: set[Path]) -> str:
        key = self._map.prompt_key
        hit = self._find_one(observation, (key,), used)
        text = '' if hit is None else _text(key, hit[1])
        if text.strip():
            return text
        if self._map.default_prompt is not None:
            return self._map.default_prompt
        raise InvalidObservation(
            key,
            'the instruction is missing' if hit is None else 'the instruction is empty',
            expected='text that says what to do',
            remedy='send it, or set default_prompt',
        )

    def _refuse_unread_images(self, observation: Observation, used: set[Path]) -> None:
        for path, value in _leaves(observation, ()):
            key = '/'.join(path)
            if path in used or key in self._map.ignore_keys:
                continue
            if _looks_like_image(value):
                known = self._camera_keys()
                close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
                hint = f'did you mean {close[0]!r}? ' if close else ''
                raise InvalidObservation(
                    _short(key),
                    f'is an array {list(value.shape)} of {value.dtype} that nobody reads',
                    expected=f'images under {", ".join(known)}',
                    remedy=f'{hint}Correct the key, or list it in profile.ignore_keys',
                )
            if key not in self._logged and len(self._logged) < _REMEMBERED_KEYS:
                self._logged.add(key)
                logger.warning('observation key %r is not read by this policy', _short(key))

    def _camera_keys(self) -> list[str]:
        return [key for camera in self._map.cameras for key in camera.wire_keys]

    def _read_image(self, key: str, value: Any) -> Image:
        layout = self._map.layout
        shape = '[height, width, 3]' if layout == 'HWC' else '[3, height, width]'
        timed = self._map.time_axis
        if timed:
            shape += f', also with a time axis in front of 1 to {MAX_FRAMES} frames'
        expected = f'an image {shape}, uint8 0..255 or float 0..1'
        if not isinstance(value, np.ndarray):
            raise InvalidObservation(
                key,
                f'is a {type(value).__name__}, not an array',
                expected=expected,
                remedy='decode the image and send its pixels',
            )
        if value.dtype != np.uint8 and value.dtype.kind != 'f':
            raise InvalidObservation(
                key,
                f'has dtype {value.dtype}',
                expected=expected,
                remedy='convert it: a depth or 16-bit image is no colour image',
            )
        if value.ndim != 3 and not (timed and value.ndim == 4):
            raise InvalidObservation(
                key,
                f'has {value.ndim} axes, shape {list(value.shape)}',
                expected=expected,
                remedy='send one colour frame, or several of one time axis: no batch axis, grey '
                'expanded to 3 channels'
                if timed
                else 'send one colour frame: no batch or time axis, grey expanded to 3 channels',
            )
        if value.ndim == 4 and not 1 <= value.shape[0] <= MAX_FRAMES:
            raise InvalidObservation(
                key,
                f'has {value.shape[0]} frames, shape {list(value.shape)}',
                expected=expected,
                remedy='send the newest frame, or those the model looks at',
            )
        channel_axis = -1 if layout == 'HWC' else -3
        channels = value.shape[channel_axis]
        if channels != 3:
            other = 'CHW' if layout == 'HWC' else 'HWC'
            swapped = value.shape[-4 - channel_axis] == 3
            raise InvalidObservation(
                key,
                f'has {channels} channels in layout {layout}, shape {list(value.shape)}',
                expected=expected,
                remedy=f'if the robot sends {other}, set profile.layout: {other}'
                if swapped
                else 'send RGB: drop an alpha channel, expand grey to 3 channels',
            )
        image = value if layout == 'HWC' else np.moveaxis(value, -3, -1)
        height, width = image.shape[-3:-1]
        if not (1 <= height <= MAX_EXTENT and 1 <= width <= MAX_EXTENT):
            raise InvalidObservation(
                key,
                f'is {height}x{width} (height x width)',
                expected=f'1 to {MAX_EXTENT} pixels along each side',
                remedy='check shape and layout of what the camera driver delivers',
            )
        if image.dtype != np.uint8:
            image = _checked_float(key, image)
        return image if self._map.colour_order == 'RGB' else image[..., ::-1]


def _checked_float(key: str, image: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    low, high = float(image.min()), float(image.max())
    # NaN makes the comparison false.
    if not (low >= 0.0 and high <= 1.0):
        finite = np.isfinite(low) and np.isfinite(high)
        raise InvalidObservation(
            key,
            f'is a float image with values from {low:g} to {high:g}'
            if finite
            else 'is a float image that holds NaN or infinity',
            expected='finite values in 0..1',
            remedy='send uint8 for 0..255, or divide by 255; -1..1 is refused, not guessed'
            if finite
            else 'check what computed it',
        )
    return image.astype(np.float32, copy=False)


def _vector(key: str, value: Any) -> FloatArray:
    expected = 'a vector of finite numbers'
    remedy = 'send float32 [D]; one number may also come without an axis'
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in 'fiu' or array.ndim > 1:
        raise InvalidObservation(
            key,
            f'is a {type(value).__name__} of shape {list(array.shape)} and dtype {array.dtype}',
            expected=expected,
            remedy=remedy,
        )
    # A float64 beyond float32 becomes infinite here and is caught below.
    with np.errstate(over='ignore'):
        vector = np.atleast_1d(array).astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(vector))
    if bad.size:
        index = int(bad[0])
        raise InvalidObservation(
            key,
            f'value {index} is {np.atleast_1d(array)[index]} ({bad.size} of {vector.size} are not '
            'finite in float32)',
            expected=expected,
            remedy='check the sensor or the joint map: a state that is not known must not be sent',
        )
    return vector


def _text(key: str, value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in 'US':
        value = value.reshape(-1)[0]
    if isinstance(value, bytes):
        try:
            return value.decode('utf-8')
        except UnicodeDecodeError as error:
            raise InvalidObservation(
                key,
                f'is bytes that are not UTF-8: {error.reason} at byte {error.start}',
                expected='text',
                remedy='send the instruction as text, or encode it as UTF-8',
            ) from None
    if isinstance(value, str):
        return str(value)
    shape = f' {list(value.shape)} of {value.dtype}' if isinstance(value, np.ndarray) else ''
    raise InvalidObservation(
        key,
        f'is a {type(value).__name__}{shape}',
        expected='one text',
        remedy='send the instruction as a string',
    )


def _missing_camera(camera: CameraSpec) -> InvalidObservation:
    return InvalidObservation(
        camera.wire_keys[0],
        f'the image of the required camera {camera.feature} is missing',
        expected=f'an image under {" or ".join(map(repr, camera.wire_keys))}',
        remedy='send it, or list the camera in optional_cameras if the robot may do without it',
    )


def _find(observation: Observation, key: str) -> Path | None:
    """Return where ``key`` lies: the flat key if present, else ``a/b`` as nested maps, or None."""
    if key in observation:
        return (key,)
    path = tuple(key.split('/'))
    level: Any = observation
    for part in path:
        if not isinstance(level, Mapping) or part not in level:
            return None
        level = level[part]
    return path


def _value(observation: Observation, path: Path) -> Any:
    value: Any = observation
    for part in path:
        value = value[part]
    return value


def _leaves(level: Mapping[Any, Any], prefix: Path) -> Iterator[tuple[Path, Any]]:
    for key, value in level.items():
        path = (*prefix, str(key))
        if isinstance(value, Mapping):
            yield from _leaves(value, path)
        else:
            yield path, value


def _looks_like_image(value: Any) -> bool:
    return isinstance(value, np.ndarray) and (
        value.ndim >= 3 or (value.ndim == 2 and value.dtype == np.uint8)
    )


def _short(key: str) -> str:
    return key if len(key) <= _SHOWN else f'{key[:_SHOWN]}…'
