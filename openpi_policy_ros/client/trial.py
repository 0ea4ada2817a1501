# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""An observation to try a server with: what its handshake and the robot file ask for.

Nothing is guessed: a key or a size that neither they nor the user name is asked for. What was not
given (images, state) is made up, and each part says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.configuration.robot import Profile, RobotConfig
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.feature_map import STATE, STATE_ALIAS

EXTERNAL = 'observation.images.base_0_rgb'
WRIST = 'observation.images.left_wrist_0_rgb'
"""The base model's own names, used where no robot file is given."""

DEFAULT_SIZE = (224, 224)
MAX_EXTENT = 8192
NAME_THEM = (
    'name them: --robot FILE, or --images KEY=FILE for each, or --observation FILE with a whole one'
)


@dataclass(frozen=True)
class Part:
    """One key of the observation, and where its value comes from."""

    key: str
    value: Any
    origin: str


def build_observation(
    handshake: Mapping[str, Any],
    robot: RobotConfig | None,
    *,
    prompt: str,
    images: Sequence[str] = (),
    state: Sequence[str] = (),
) -> list[Part]:
    """Return an observation, part by part.

    Args:
        handshake: the server's.
        robot: names of keys, layout and colour order, sizes of the state; None = the base model's
            own names.
        prompt: the instruction.
        images: ``FILE`` or ``KEY=FILE``; files without a key go to the cameras in order.
        state: ``1,2,3`` or ``KEY=1,2,3``; numbers without a key go to all state keys in order.

    Raises:
        ConfigurationError: what is missing or cannot be used.

    """
    return [
        *_images(handshake, robot, images),
        *state_and_prompt(handshake, robot, prompt=prompt, state=state),
    ]


def state_and_prompt(
    handshake: Mapping[str, Any],
    robot: RobotConfig | None,
    *,
    prompt: str,
    state: Sequence[str] = (),
) -> list[Part]:
    """Return an observation without images; arguments and errors as of ``build_observation``."""
    profile = robot.profile if robot is not None else Profile()
    return [*_states(handshake, robot, state), Part(profile.prompt_key, prompt, '--prompt')]


def check_pattern(height: int, width: int) -> npt.NDArray[np.uint8]:
    """Return a test image, RGB [height, width, 3]: eight colour bars, darker towards the bottom."""
    bars = np.arange(width) * 8 // width
    colours = np.stack([bars & 1, bars >> 1 & 1, bars >> 2 & 1], axis=-1)
    shade = np.linspace(255, 64, height)[:, None, None]
    return (colours[None] * shade).astype(np.uint8)


def _images(
    handshake: Mapping[str, Any], robot: RobotConfig | None, given: Sequence[str]
) -> list[Part]:
    profile = robot.profile if robot is not None else Profile()
    named, unnamed = _split(given, '--images')
    if robot is not None:
        keys = camera_keys(profile)
        strangers = [key for key in named if key not in keys]
        if strangers:
            raise ConfigurationError(
                '--images',
                [
                    f'{key!r} is no camera of the robot file ({", ".join(keys)})'
                    for key in strangers
                ],
            )
    else:
        keys = list(named) or _base_keys(handshake)
    free = [key for key in keys if key not in named]
    if len(unnamed) > len(free):
        raise ConfigurationError(
            '--images', [f'{len(unnamed)} files for {len(free)} cameras ({", ".join(free)})']
        )
    files = {**named, **dict(zip(free, unnamed, strict=False))}
    height, width = _resolution(handshake)
    parts = []
    for key in keys:
        if key in files:
            image, origin = read_image(files[key]), files[key]
        else:
            image, origin = check_pattern(height, width), 'test pattern'
        if profile.colour_order == 'BGR':
            image = image[..., ::-1]
        if profile.layout == 'CHW':
            image = image.transpose(2, 0, 1)
        parts.append(Part(key, np.ascontiguousarray(image), origin))
    return parts


def read_image(file: str) -> npt.NDArray[np.uint8]:
    """Return an image file as RGB [height, width, 3].

    Raises:
        ConfigurationError: no such file, or no image that OpenCV reads.

    """
    import cv2

    path = Path(file).expanduser()
    try:
        data = np.frombuffer(path.read_bytes(), np.uint8)
    except OSError as error:
        raise ConfigurationError('--images', [f'{path}: {error.strerror or error}']) from None
    try:
        pixels = cv2.imdecode(data, cv2.IMREAD_COLOR) if data.size else None
    except cv2.error:
        pixels = None
    if pixels is None:
        raise ConfigurationError('--images', [f'{path} is no image (png, jpeg, …)'])
    image: npt.NDArray[np.uint8] = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)
    return image


def camera_keys(profile: Profile) -> list[str]:
    """Return the observation key of each camera, in the order of the key map."""
    keys: dict[str, str] = {}
    for wire, feature in profile.pairs():
        if feature not in (STATE, STATE_ALIAS):
            keys.setdefault(feature, wire)
    return list(keys.values())


def _base_keys(handshake: Mapping[str, Any]) -> list[str]:
    external, wrist = handshake.get('n_external_cameras'), handshake.get('needs_wrist_camera')
    if external not in (0, 1) or not isinstance(wrist, bool):
        asks = (
            'does not say which cameras' if external is None else f'asks for {external!r} cameras'
        )
        raise ConfigurationError('--images', [f"the server's handshake {asks}; {NAME_THEM}"])
    return [EXTERNAL] * int(external) + [WRIST] * int(wrist)


def _resolution(handshake: Mapping[str, Any]) -> tuple[int, int]:
    size = handshake.get('image_resolution')
    if (
        isinstance(size, list)
        and len(size) == 2
        and all(type(side) is int and 0 < side <= MAX_EXTENT for side in size)
    ):
        return size[0], size[1]
    return DEFAULT_SIZE


def _states(
    handshake: Mapping[str, Any], robot: RobotConfig | None, given: Sequence[str]
) -> list[Part]:
    sizes = _state_sizes(handshake, robot)
    named_text, unnamed = _split(given, '--state')
    named = {key: _numbers(text) for key, text in named_text.items()}
    problems = [
        f'{key!r} is no state key of the robot file ({", ".join(sizes)})'
        for key in named
        if robot is not None and key not in sizes
    ]
    if len(unnamed) > 1:
        problems.append('more than one list of numbers without KEY=')
    if problems:
        raise ConfigurationError('--state', problems)
    if robot is None and named:
        sizes = {key: len(values) for key, values in named.items()}
    values = {**named, **_dealt(unnamed, {k: n for k, n in sizes.items() if k not in named})}
    parts = []
    for key, size in sizes.items():
        if key in values:
            parts.append(Part(key, np.array(values[key], np.float32), '--state'))
        elif size is not None:
            parts.append(Part(key, np.zeros(size, np.float32), 'zeros'))
        else:
            raise ConfigurationError(
                '--state',
                [
                    f'nothing says how many numbers {key!r} has; give --state='
                    + (f'{key}=0,0,…' if len(sizes) > 1 else '0,0,…')
                ],
            )
    return parts


def _state_sizes(handshake: Mapping[str, Any], robot: RobotConfig | None) -> dict[str, int | None]:
    """Return state key → how many numbers it has, None = nobody says."""
    if robot is None:
        size = handshake.get('action_dim')
        return {STATE_ALIAS: size if type(size) is int and size > 0 else None}
    wires = robot.profile.state_keys()
    said = dict(zip(wires, robot.profile.state_dims, strict=False))
    return {
        wire: said.get(wire) or robot.joints.count(wire) or None for wire in wires or [STATE_ALIAS]
    }


def _dealt(unnamed: Sequence[str], sizes: Mapping[str, int | None]) -> dict[str, list[float]]:
    """Deal numbers without a key out to the keys in order."""
    if not unnamed:
        return {}
    numbers = _numbers(unnamed[0])
    if len(sizes) == 1:
        # How many the server takes it says itself.
        return dict.fromkeys(sizes, numbers)
    known = [size for size in sizes.values() if size is not None]
    if len(known) != len(sizes) or sum(known) != len(numbers):
        wanted = ', '.join(f'{key}: {size or "?"}' for key, size in sizes.items())
        raise ConfigurationError(
            '--state', [f'{len(numbers)} numbers for {wanted}; or give KEY=… for each']
        )
    dealt = {}
    for key, size in zip(sizes, known, strict=True):
        dealt[key], numbers = numbers[:size], numbers[size:]
    return dealt


def _numbers(text: str) -> list[float]:
    try:
        numbers = [float(number) for number in text.split(',')]
    except ValueError:
        numbers = []
    if not numbers or not np.isfinite(numbers).all():
        raise ConfigurationError('--state', [f'{text!r}: expected numbers like 0.1,-0.2,0'])
    return numbers


def _split(given: Sequence[str], option: str) -> tuple[dict[str, str], list[str]]:
    named: dict[str, str] = {}
    unnamed = []
    for text in given:
        key, equals, value = text.partition('=')
        if not equals:
            unnamed.append(text)
        elif key in named or not key or not value:
            raise ConfigurationError(option, [f'{text!r}: expected KEY=VALUE, each key once'])
        else:
            named[key] = value
    return named, unnamed
