# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every problem of a file in one message, with the path of the key, and a hint for a typo."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.configuration.schema import flatten, unflatten, validate
from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.errors import ConfigurationError

GOOD_CAMERA = {'topic': 'wrist/image_raw', 'key': 'observation/wrist_image_left'}


def problems(section, values):
    with pytest.raises(ConfigurationError) as caught:
        validate(section, values, 'robot.yaml')
    assert str(caught.value).startswith('robot.yaml: ')
    return caught.value.problems


def test_a_misspelt_key_is_named_with_the_nearest_known_one():
    (problem,) = problems(RobotConfig, {'timing': {'camera_max_agee': 0.2}})
    assert problem == "timing.camera_max_agee: unknown key; did you mean 'camera_max_age'?"


def test_a_misspelt_key_inside_a_named_camera_is_found_too():
    (problem,) = problems(
        RobotConfig,
        {'camera_names': ['wrist'], 'cameras': {'wrist': {**GOOD_CAMERA, 'transprot': 'raw'}}},
    )
    assert problem == "cameras.wrist.transprot: unknown key; did you mean 'transport'?"


def test_a_key_without_a_near_one_lists_what_is_known():
    (problem,) = problems(RobotConfig, {'zzz': 1})
    known = ', '.join(sorted(RobotConfig.model_fields))
    assert problem == f'zzz: unknown key; known here: {known}'


def test_all_problems_of_a_file_come_in_one_message():
    found = problems(
        RobotConfig,
        {
            'profile': {'layout': 'HCW'},
            'camera_names': ['wrist'],
            'cameras': {'wrist': {'topic': 'wrist/image_raw'}},
            'timing': {'max_skew': -1.0, 'action_rate': '15'},
        },
    )
    assert {problem.split(':')[0] for problem in found} == {
        'profile.layout',
        'cameras.wrist.key',
        'timing.max_skew',
        'timing.action_rate',
    }
    assert "found '15'" in next(p for p in found if p.startswith('timing.action_rate'))


def test_the_number_of_problems_and_each_of_them_are_in_the_text():
    with pytest.raises(ConfigurationError) as caught:
        validate(ServerConfig, {'port': 70000, 'hots': 'x'}, 'server')
    text = str(caught.value)
    assert text.startswith('server: 2 problems')
    assert 'port: ' in text
    assert "hots: unknown key; did you mean 'host'?" in text


def test_a_required_key_that_is_missing_is_named():
    found = problems(RobotConfig, {'camera_names': ['wrist'], 'cameras': {'wrist': {'key': 'k'}}})
    assert found == ('cameras.wrist.topic: required, but not set',)


@pytest.mark.parametrize('value', [float('nan'), float('inf'), True, '0.1'])
def test_a_number_must_be_a_finite_number(value):
    (problem,) = problems(RobotConfig, {'timing': {'max_skew': value}})
    assert problem.startswith('timing.max_skew: ')


def test_a_validated_section_cannot_be_changed():
    config = validate(ServerConfig, {}, 'server')
    with pytest.raises(ValueError, match='frozen'):
        config.port = 1


KEYS = st.text(st.characters(codec='utf-8', exclude_characters='.'), min_size=1, max_size=8)
LEAVES = st.one_of(st.booleans(), st.integers(), st.text(max_size=5), st.lists(st.integers()))
NESTED = st.recursive(
    st.dictionaries(KEYS, LEAVES, min_size=1, max_size=4),
    lambda inner: st.dictionaries(KEYS, st.one_of(LEAVES, inner), min_size=1, max_size=4),
    max_leaves=20,
)


@given(NESTED)
def test_unflatten_is_the_inverse_of_flatten(values):
    assert unflatten(dict(flatten(values))) == values


def test_flatten_names_leaves_as_ros_names_parameters():
    assert dict(flatten({'a': {'b': {'c': 1}}, 'd': [2]})) == {'a.b.c': 1, 'd': [2]}


@pytest.mark.parametrize(
    'dotted', [{'timing': 1.0, 'timing.max_skew': 0.1}, {'timing.max_skew': 0.1, 'timing': 1.0}]
)
def test_a_parameter_that_is_a_value_and_a_group_at_once_is_refused(dotted):
    with pytest.raises(ConfigurationError, match='timing'):
        unflatten(dotted)
