# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What may leave the engine: the guard alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openpi_policy_ros.engine.guard import check_result, check_results
from openpi_policy_ros.errors import InvalidObservation, InvalidOutput
from openpi_policy_ros.policies.base import ActionChunk

SHAPES = {'actions': (3, 2)}


def chunk(array: object = None, **fields: object) -> ActionChunk:
    actions = np.zeros((3, 2), np.float32) if array is None else array
    return ActionChunk(outputs={'actions': actions}, **fields)


def test_a_sound_chunk_passes_unchanged():
    good = chunk(
        model_actions=np.ones((5, 4), np.float32), timing_ms={'model': 1.5, 'n': np.float32(2)}
    )
    assert check_result(good, SHAPES) is good


def test_a_refused_observation_passes_as_it_is():
    refused = InvalidObservation('state', 'holds NaN')
    assert check_result(refused, SHAPES) is refused


def test_a_policy_with_several_outputs_must_return_exactly_those():
    shapes = {'actions': (3, 2), 'terminate': (3,)}
    terminate = np.zeros(3, np.float32)
    outputs = {'actions': np.zeros((3, 2), np.float32), 'terminate': terminate}
    assert check_result(ActionChunk(outputs), shapes).outputs['terminate'] is terminate
    with pytest.raises(InvalidOutput, match=r"\['actions'\].*exactly \['actions', 'terminate'\]"):
        check_result(chunk(), shapes)
    with pytest.raises(InvalidOutput, match='exactly'):
        check_result(ActionChunk({**outputs, 'surprise': terminate}), shapes)


@pytest.mark.parametrize(
    ('result', 'message'),
    [
        (None, 'returned a NoneType'),
        (np.zeros((3, 2), np.float32), 'returned a ndarray'),
        (ActionChunk(outputs=None), 'outputs are'),
        (ActionChunk(outputs={}), r'outputs are \[\]'),
        (chunk([[0.0, 0.0]] * 3), 'actions is a list'),
        (chunk(np.zeros((3, 2), np.float64)), 'dtype float64'),
        (chunk(np.zeros((3, 2), '>f4')), 'dtype >f4'),
        (chunk(np.zeros((3, 2), np.int32)), 'dtype int32'),
        (chunk(np.zeros((3, 2), object)), 'dtype object'),
        (chunk(np.zeros((2, 3), np.float32)), r'shape \[2, 3\].*shape \[3, 2\]'),
        (chunk(np.zeros((1, 3, 2), np.float32)), r'shape \[1, 3, 2\]'),
        (chunk(np.zeros((0, 2), np.float32)), r'shape \[0, 2\]'),
        (chunk(np.float32(1.0)), 'actions is a float32'),
        (chunk(model_actions=np.full((2, 2), np.nan, np.float32)), 'model_actions holds 4'),
        (chunk(model_actions=np.zeros(4, np.float32)), r'shape \[rows, columns\]'),
        (chunk(state=np.array([0.0, np.inf], np.float32)), r'state holds 1 .* at \[1\]'),
        (chunk(state=np.zeros((1, 2), np.float32)), r'state has .* shape \[1, 2\]'),
        (chunk(state=np.zeros(2)), 'state has dtype float64'),
        (chunk(timing_ms={'model': 'fast'}), 'timing_ms'),
        (chunk(timing_ms={'model': float('nan')}), 'timing_ms'),
        (chunk(timing_ms={1: 1.0}), 'timing_ms'),
        (chunk(timing_ms=None), 'timing_ms'),
    ],
)
def test_anything_else_is_refused_and_named(result, message):
    with pytest.raises(InvalidOutput, match=message):
        check_result(result, SHAPES)


def test_an_empty_array_is_refused_even_if_declared():
    with pytest.raises(InvalidOutput, match='actions is empty'):
        check_result(chunk(np.zeros((0, 2), np.float32)), {'actions': (0, 2)})


@given(
    rows=st.integers(1, 5),
    columns=st.integers(1, 5),
    bad=st.sampled_from([np.nan, np.inf, -np.inf]),
    data=st.data(),
)
@settings(max_examples=50, deadline=None)
def test_one_bad_number_anywhere_is_found_and_its_place_told(rows, columns, bad, data):
    array = np.zeros((rows, columns), np.float32)
    row = data.draw(st.integers(0, rows - 1))
    column = data.draw(st.integers(0, columns - 1))
    array[row, column] = bad
    with pytest.raises(InvalidOutput) as caught:
        check_result(chunk(array), {'actions': (rows, columns)})
    assert f'first at [{row}, {column}]' in str(caught.value)


@given(
    shape=st.lists(st.integers(0, 4), min_size=0, max_size=3).map(tuple),
    declared=st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple),
    dtype=st.sampled_from(['<f4', '>f4', '<f8', '<f2', '<i4', '|u1', '|b1', '<c8']),
)
@settings(max_examples=100, deadline=None)
def test_exactly_float32_of_the_declared_shape_passes(shape, declared, dtype):
    result = chunk(np.zeros(shape, dtype))
    sound = shape == declared and dtype == '<f4' and 0 not in shape
    if sound:
        assert check_result(result, {'actions': declared}) is result
    else:
        with pytest.raises(InvalidOutput):
            check_result(result, {'actions': declared})


@pytest.mark.parametrize('results', [None, {}, iter([1, 2]), [], [1], [1, 2, 3]])
def test_the_wrong_number_of_results_is_refused(results):
    with pytest.raises(InvalidOutput):
        check_results(results, 2)


def test_one_result_per_request_is_accepted():
    assert check_results([1, 2], 2) == [1, 2]
    assert check_results((1, 2), 2) == (1, 2)
