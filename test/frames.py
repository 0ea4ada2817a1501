# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies for values and frames, valid, nearly valid and arbitrary."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from openpi_policy_ros.wire import packb

DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness='?'),
    hnp.floating_dtypes(endianness='?', sizes=(16, 32, 64)),
    hnp.datetime64_dtypes(endianness='?'),
    hnp.timedelta64_dtypes(endianness='?'),
    hnp.byte_string_dtypes(endianness='?', min_len=1, max_len=4),
    hnp.unicode_string_dtypes(endianness='?', min_len=1, max_len=4),
)
ARRAYS = DTYPES.flatmap(
    lambda dtype: hnp.arrays(
        dtype,
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
        # Lone surrogates are no characters: the codec refuses them.
        elements={'alphabet': st.characters(codec='utf-8')},
    )
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(max_size=40),
    st.binary(max_size=40),
    ARRAYS,
)
KEYS = st.text(max_size=8)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=6), st.dictionaries(KEYS, inner, max_size=6)),
    max_leaves=20,
)
NAMES = st.sampled_from(
    ['__ndarray__', '__npgeneric__', 'nd', 'type', 'kind', 'data', 'dtype', 'shape', 'complex']
)
NEAR_MARKERS = st.dictionaries(
    NAMES | st.sampled_from([b'__ndarray__', b'nd', b'data', b'shape', b'dtype', b'type']),
    st.one_of(
        st.booleans(),
        st.integers(-2, 8),
        st.binary(max_size=16),
        st.sampled_from(['<f4', '|u1', '>i2', '<U1', '|b1', 'O', 'V', 'c', 'f', 'u', '']),
        st.lists(st.integers(-1, 4), max_size=3),
        st.floats(),
        st.none(),
    ),
    max_size=6,
)


@st.composite
def mutated_frames(draw: st.DrawFn) -> bytes:
    """Return a valid frame with bytes changed, cut out, doubled or put in."""
    frame = bytearray(packb(draw(VALUES | NEAR_MARKERS)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(frame)))
        edit = draw(st.sampled_from(['change', 'cut', 'insert', 'double']))
        if edit == 'change' and at < len(frame):
            frame[at] = draw(st.integers(0, 255))
        elif edit == 'cut':
            del frame[at : at + draw(st.integers(1, 8))]
        elif edit == 'insert':
            frame[at:at] = draw(st.binary(min_size=1, max_size=6))
        else:
            frame[at:at] = frame[at : at + draw(st.integers(1, 16))]
    return bytes(frame)


FRAMES = st.one_of(
    st.binary(max_size=200),
    mutated_frames(),
    NEAR_MARKERS.map(packb),
    st.binary(max_size=40).map(lambda tail: packb({'nd': True})[:1] + tail),
)
