# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The codec against the real packages that clients pack and unpack with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openpi_client import msgpack_numpy as openpi_msgpack
from packers import pack_legacy, pack_with_msgpack_numpy

from openpi_policy_ros.wire import InvalidPayload, packb, unpackb

OBSERVATION: dict[str, Any] = {
    'observation/exterior_image_1_left': np.arange(24, dtype=np.uint8).reshape(2, 4, 3),
    'observation/joint_position': np.linspace(-1, 1, 7),
    'observation/gripper_position': np.array([0.5], dtype=np.float32),
    'images': {'cam_high': np.ones((3, 2, 4), np.uint8)},
    'prompt': 'pick up the fork',
    'flag': np.bool_(True),
    'step': np.int32(7),
    'ratio': np.float32(0.1),
    'double': np.float64(0.1),
    'session_id': np.array('episode 1'),
}


PACKERS = pytest.mark.parametrize(
    'pack', [openpi_msgpack.packb, pack_with_msgpack_numpy, pack_legacy, packb]
)


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_same(found[key], expected[key])
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    elif isinstance(expected, np.float64):
        # A subclass of float: every packer sends it as a plain number.
        assert found == expected
    else:
        assert type(found) is type(expected)
        assert found == expected


@PACKERS
def test_an_observation_reads_the_same_from_every_packer(pack: Any) -> None:
    assert_same(unpackb(pack(OBSERVATION)), OBSERVATION)


@pytest.mark.parametrize('pack', [pack_with_msgpack_numpy, pack_legacy, packb])
@pytest.mark.parametrize('dtype', ['>f4', '>i8', '<f2', '|b1', '<U5', '|S3'])
def test_every_dtype_reads_the_same_from_every_packer(pack: Any, dtype: str) -> None:
    array = np.array([[1, 0], [1, 1]]).astype(dtype)
    assert_same(unpackb(pack({'a': array}))['a'], array.astype(array.dtype.newbyteorder('=')))


@pytest.mark.parametrize(
    'value',
    [
        np.array([{}, 'x'], dtype=object),
        np.zeros(2, dtype=[('x', '<f4'), ('y', 'O')]),
        np.zeros(2, dtype=[('x', '<f4')]),
        np.zeros(2, np.complex128),
        np.complex64(1j),
        1j,
    ],
    ids=['object', 'record of objects', 'record', 'complex', 'complex scalar', 'python complex'],
)
def test_what_msgpack_numpy_would_pickle_or_guess_is_refused(value: object) -> None:
    with pytest.raises(InvalidPayload, match=r'refused dtype|complex'):
        unpackb(pack_with_msgpack_numpy({'observation': value}))


def test_a_pickle_is_never_loaded(tmp_path: Any) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return (tmp_path.joinpath('exploded').touch, ())

    frame = pack_with_msgpack_numpy({'image': np.array([Bomb()], dtype=object)})
    assert b'exploded' in frame
    with pytest.raises(InvalidPayload):
        unpackb(frame)
    assert not tmp_path.joinpath('exploded').exists()


def test_openpi_client_reads_a_reply() -> None:
    chunk = np.random.default_rng(0).normal(size=(50, 32)).astype(np.float32)
    bare = openpi_msgpack.unpackb(packb(chunk))
    assert bare.dtype == np.float32
    np.testing.assert_array_equal(bare, chunk)
    reply = openpi_msgpack.unpackb(packb({'actions': chunk, 'server_timing': {'infer_ms': 1.5}}))
    np.testing.assert_array_equal(reply['actions'], chunk)
    assert reply['server_timing'] == {'infer_ms': 1.5}


def test_frames_are_byte_for_byte_those_of_openpi_client() -> None:
    value = {
        'actions': np.zeros((2, 3), np.float32),
        'nested': {'scalar': np.float32(2), 'list': [1, 2.5, None, 'text', b'bin']},
    }
    assert packb(value) == openpi_msgpack.packb(value)
