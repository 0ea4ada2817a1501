# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Write an observation as JSON and images, and read the very same back.

Every value keeps its type, dtype, shape and bits. Images are not in the JSON: it says on which
topic they are.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.recording.messages import ENCODINGS

INLINE = 64
"""Most numbers of an array that are written so that a human can read them."""

FOLDER = 'observation'

Pixels = npt.NDArray[Any]


@dataclass
class Written:
    """One observation, taken apart.

    Attributes:
        tree: for ``json.dumps``.
        images: name below ``~/`` → the frames of one image, each [height, width, channels].
        vectors: name below ``~/`` → the numbers of a value without or with one axis.

    """

    tree: Any = None
    images: dict[str, list[Pixels]] = field(default_factory=dict)
    vectors: dict[str, npt.NDArray[Any]] = field(default_factory=dict)


def topic_name(*parts: str) -> str:
    """Return a name that ROS accepts, as near to ``parts`` as it may be."""
    tokens = []
    for part in re.split('[./]', '/'.join(parts)):
        token = re.sub('_+', '_', re.sub('[^A-Za-z0-9_]', '_', part)).strip('_')
        if token:
            tokens.append(f'n{token}' if token[0].isdigit() else token)
    return '/'.join(tokens) or 'unnamed'


def write(observation: Any, *, chw: bool = False) -> Written:
    """Take an observation apart.

    Args:
        observation: as a policy gets it.
        chw: which axes an image has that could be read both ways.

    """
    written = Written()
    written.tree = _write(observation, (), written, chw)
    return written


def write_array(array: npt.NDArray[Any]) -> dict[str, Any]:
    """Return an array of numbers, truth values or text as JSON."""
    node: dict[str, Any] = {'array': array.dtype.str, 'shape': list(array.shape)}
    if array.dtype.kind == 'U':
        return {**node, 'items': array.reshape(-1).tolist()}
    finite = array.dtype.kind in 'fiub' and bool(np.isfinite(array).all())
    if finite and array.size <= INLINE and array.dtype.itemsize <= 8:
        # A double holds every value of these types, and its shortest text comes back the same.
        return {**node, 'items': array.reshape(-1).tolist()}
    return {**node, 'base64': base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()}


def read_array(node: Mapping[str, Any]) -> npt.NDArray[Any]:
    """Return what ``write_array`` wrote."""
    dtype, shape = np.dtype(node['array']), tuple(node['shape'])
    if 'items' in node:
        return np.array(node['items'], dtype).reshape(shape)
    return np.frombuffer(base64.b64decode(node['base64']), dtype).reshape(shape).copy()


def read(tree: Any, frames: Callable[[str], list[Pixels]]) -> Any:
    """Return the value that ``write`` took apart.

    Args:
        tree: as written.
        frames: returns the frames of an image by its name below ``~/``.

    Raises:
        KeyError: the tree was written by a later version.

    """
    if 'map' in tree:
        return {key: read(value, frames) for key, value in tree['map'].items()}
    if 'list' in tree:
        return [read(value, frames) for value in tree['list']]
    if 'image' in tree:
        return _join(tree, frames(tree['image']))
    if 'array' in tree:
        return read_array(tree)
    if 'bytes' in tree:
        return base64.b64decode(tree['bytes'])
    if 'unreadable' in tree:
        raise ValueError(f'a {tree["unreadable"]} was not recorded')
    return tree['value']


def _write(value: Any, path: tuple[str, ...], written: Written, chw: bool) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {'map': {str(k): _write(v, (*path, str(k)), written, chw) for k, v in value.items()}}
    if isinstance(value, (list, tuple)):
        return {'list': [_write(v, (*path, str(i)), written, chw) for i, v in enumerate(value)]}
    if isinstance(value, (np.ndarray, np.generic)):
        return _write_array(np.asarray(value), path, written, chw)
    if isinstance(value, bytes):
        return {'bytes': base64.b64encode(value).decode()}
    if value is None or isinstance(value, (str, bool, int, float)):
        if isinstance(value, float):
            written.vectors[_free(path, written)] = np.array([value])
        return {'value': value}
    return {'unreadable': type(value).__name__}


def _write_array(
    array: npt.NDArray[Any], path: tuple[str, ...], written: Written, chw: bool
) -> dict[str, Any]:
    frames, channels = _split(array, chw)
    if frames is not None:
        name = _free(path, written)
        written.images[name] = frames
        node = {'image': name, 'array': array.dtype.str, 'shape': list(array.shape)}
        return {**node, 'channels': channels}
    if array.dtype.kind not in 'fiubU':
        return {'unreadable': f'array of {array.dtype}'}
    if array.ndim <= 1 and array.dtype.kind in 'fiub' and array.size:
        written.vectors[_free(path, written)] = array.reshape(-1)
    return write_array(array)


def _free(path: tuple[str, ...], written: Written) -> str:
    own = topic_name(*path)
    wanted = name = own if own.startswith(f'{FOLDER}/') else f'{FOLDER}/{own}'
    number = 2
    while name in written.images or name in written.vectors:
        name, number = f'{wanted}_{number}', number + 1
    return name


def _split(array: npt.NDArray[Any], chw: bool) -> tuple[list[Pixels] | None, str]:
    """Return the frames of what is an image, [height, width, channels] each; else None."""
    if not array.size or array.dtype.newbyteorder('=') not in (np.uint8, np.float32):
        return None, ''
    if array.dtype.byteorder == '>':
        return None, ''
    if array.ndim == 2:
        if array.dtype != np.uint8:
            return None, ''
        return [array[:, :, None]], 'none'
    if array.ndim not in (3, 4):
        return None, ''
    stack = array if array.ndim == 4 else array[None]
    kind = array.dtype.name
    last, first = ((kind, stack.shape[axis]) in ENCODINGS for axis in (3, 1))
    if first and (chw or not last):
        return list(stack.transpose(0, 2, 3, 1)), 'first'
    return (list(stack), 'last') if last else (None, '')


def _join(node: Mapping[str, Any], frames: list[Pixels]) -> npt.NDArray[Any]:
    shape, channels = tuple(node['shape']), node['channels']
    expected = shape[0] if len(shape) == 4 else 1
    if len(frames) != expected:
        raise ValueError(f'{node["image"]} has {len(frames)} frames, expected {expected}')
    stack = np.stack(frames)
    if channels == 'first':
        stack = stack.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(stack).reshape(shape).astype(node['array'], copy=False)
