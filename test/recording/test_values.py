# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Whatever a policy may be given comes back from JSON and images bit by bit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

pytest.importorskip('rosbags')

from openpi_policy_ros.recording import messages, values

PIXELS = hnp.arrays(
    st.sampled_from([np.uint8, np.float32]),
    st.one_of(
        st.tuples(st.integers(1, 6), st.integers(1, 6), st.sampled_from([1, 3, 4])),
        st.tuples(st.just(3), st.integers(5, 7), st.integers(5, 7)),
        st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 5), st.just(3)),
        st.tuples(st.integers(5, 7), st.integers(5, 7)),
    ),
)
NUMBERS = hnp.arrays(
    hnp.scalar_dtypes().filter(lambda dtype: dtype.kind in 'fiub'),
    hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=9),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64), st.floats(), st.text(), st.binary()
)
KEYS = st.one_of(
    st.sampled_from(['observation/image', 'observation.image', 'a', 'a/b', 'prompt', '0', 'é']),
    st.text(max_size=8),
)
OBSERVATIONS = st.recursive(
    st.one_of(PIXELS, NUMBERS, SCALARS),
    lambda inner: st.one_of(st.dictionaries(KEYS, inner, max_size=4), st.lists(inner, max_size=3)),
    max_leaves=6,
)


def through(observation: Any, *, chw: bool, bgr: bool) -> Any:
    """Return what is read after everything went through JSON text and CDR bytes."""
    written = values.write(observation, chw=chw)
    tree = json.loads(json.dumps(written.tree))
    kind = 'sensor_msgs/msg/Image'
    frames = {
        name: [
            messages.STORE.deserialize_cdr(
                messages.STORE.serialize_cdr(messages.image(one, 5, name, bgr=bgr), kind), kind
            )
            for one in all_
        ]
        for name, all_ in written.images.items()
    }
    return values.read(tree, lambda name: [messages.pixels_of(one) for one in frames[name]])


def same(one: Any, other: Any) -> bool:
    """Return whether two values agree in type and in every bit."""
    if isinstance(one, (np.ndarray, np.generic)):
        one = np.asarray(one)
        return (
            isinstance(other, np.ndarray)
            and (one.dtype, one.shape) == (other.dtype, other.shape)
            and one.tobytes() == other.tobytes()
        )
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other or (one != one and other != other)


@given(OBSERVATIONS, st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_every_value_comes_back_bit_by_bit(observation: Any, chw: bool, bgr: bool) -> None:
    assert same(observation, through(observation, chw=chw, bgr=bgr))


def test_big_endian_text_and_odd_views_come_back() -> None:
    wide = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    observation = {
        'flipped': wide[::-1, :, ::-1],
        'big': np.arange(6, dtype='>f4').reshape(1, 2, 3),
        'text': np.array(['pick', 'the cup']),
        'one text': np.array('pick'),
        'nan': np.array([np.nan, np.inf], np.float32),
        'long': np.linspace(0.0, 1.0, 1000, dtype=np.float32),
    }
    assert same(observation, through(observation, chw=False, bgr=False))


@pytest.mark.parametrize(
    ('shape', 'chw', 'frames', 'height', 'width'),
    [
        ((48, 64, 3), False, 1, 48, 64),
        ((3, 48, 64), False, 1, 48, 64),
        ((3, 48, 64), True, 1, 48, 64),
        ((3, 64, 3), True, 1, 64, 3),
        ((3, 64, 3), False, 1, 3, 64),
        ((4, 48, 64, 3), False, 4, 48, 64),
        ((48, 64), False, 1, 48, 64),
    ],
)
def test_images_are_written_so_that_a_viewer_shows_them(
    shape: tuple[int, ...], chw: bool, frames: int, height: int, width: int
) -> None:
    rng = np.random.default_rng(0)
    written = values.write({'camera': rng.integers(0, 255, shape, np.uint8)}, chw=chw)
    all_ = written.images['observation/camera']
    assert [one.shape[:2] for one in all_] == [(height, width)] * frames


def test_names_are_those_that_ros_accepts_and_never_meet() -> None:
    image = np.zeros((4, 4, 3), np.uint8)
    keys = ['observation/wrist image', 'observation.wrist_image', 'observation/wrist/image']
    written = values.write(dict.fromkeys(keys, image))
    assert list(written.images) == [
        'observation/wrist_image',
        'observation/wrist_image_2',
        'observation/wrist/image',
    ]
    assert values.topic_name('0.left__arm/') == 'n0/left_arm'
    assert values.topic_name('ß') == 'unnamed'


def test_what_cannot_be_recorded_is_told_when_it_is_read() -> None:
    written = values.write({'odd': object()})
    with pytest.raises(ValueError, match='a object was not recorded'):
        values.read(written.tree, lambda _: [])


def test_missing_frames_are_not_made_up() -> None:
    written = values.write({'camera': np.zeros((2, 4, 4, 3), np.uint8)})
    with pytest.raises(ValueError, match='has 1 frames, expected 2'):
        values.read(written.tree, lambda _: [np.zeros((4, 4, 3), np.uint8)])
