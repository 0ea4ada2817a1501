# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Launch arguments become parameters and environment; runs where launch itself cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.ros.declarations import declarations
from openpi_policy_ros.ros.launch_arguments import (
    ARGUMENTS,
    dds_environment,
    node_parameters,
    ros_arguments,
)


def test_the_arguments_are_those_of_the_interface_each_described() -> None:
    names = ' '.join(one.name for one in ARGUMENTS)
    assert names == (
        'policy model robot device host port prompt dry_run record params_file namespace '
        'use_sim_time autostart log_level'
    )
    assert all(one.description.endswith('.') for one in ARGUMENTS)


def test_every_argument_sets_a_parameter_that_exists() -> None:
    known = {*declarations([]), 'use_sim_time', ''}
    assert {one.parameter for one in ARGUMENTS} <= known


def test_only_what_was_given_is_set_so_that_a_parameter_file_keeps_its_say() -> None:
    assert node_parameters({'model': 'm', 'port': '', 'host': ''}) == {'model': 'm'}
    assert node_parameters({'params_file': 'p.yaml'}) == {}


def test_values_get_their_types() -> None:
    values = {
        'model': '123',
        'policy': 'pi0',
        'robot': 'droid',
        'device': 'cuda:0',
        'host': '0.0.0.0',
        'port': '0',
        'prompt': '42',
        'dry_run': 'True',
        'use_sim_time': 'false',
        'autostart': '0',
        'namespace': 'left',
        'log_level': 'debug',
    }
    assert node_parameters(values) == {
        'model': '123',
        'policy': 'pi0',
        'robot': 'droid',
        'device': 'cuda:0',
        'host': '0.0.0.0',
        'port': 0,
        'default_prompt': '42',
        'dry_run': True,
        'use_sim_time': False,
        'autostart': False,
    }


def test_without_a_model_there_is_a_hint() -> None:
    with pytest.raises(ConfigurationError) as caught:
        node_parameters({'robot': 'droid'})
    assert 'serve.launch.py model:=/path/to/checkpoint' in str(caught.value)
    assert 'openpi-policy make-checkpoint' in str(caught.value)


def test_a_policy_without_a_model_is_launched_without_one() -> None:
    assert node_parameters({'policy': 'rehearsal'}) == {'policy': 'rehearsal'}
    # The node says what is wrong with its name.
    with pytest.raises(ConfigurationError, match='no model'):
        node_parameters({'policy': 'rehersal'})


@pytest.mark.parametrize('robot', [{}, {'robot': 'sim_droid'}], ids=['no_robot', 'simulated'])
def test_the_demo_is_served_unasked_where_no_real_robot_would_move_by_it(robot, monkeypatch):
    assert node_parameters(robot) == {'model': 'demo', **robot}
    for more in ({'params_file': 'own.yaml'}, {'model': 'mine'}):
        assert node_parameters({**robot, **more}).get('model') == more.get('model')
    with pytest.raises(ConfigurationError, match='no model'):
        node_parameters({**robot, 'policy': 'pi0'})
    monkeypatch.setattr('openpi_policy_ros.policies.named_models.has', lambda name: False)
    with pytest.raises(ConfigurationError, match='no model'):
        node_parameters(robot)


def test_every_unreadable_value_is_told_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        node_parameters({'robot': 'droid', 'port': 'http', 'dry_run': 'maybe', 'log_level': 'loud'})
    text = str(caught.value)
    for said in ('no model', 'port:=http', 'dry_run:=maybe: expected true or false', ':=loud'):
        assert said in text


@pytest.mark.parametrize(
    ('namespace', 'logger'),
    [('', 'openpi_policy'), ('left', 'left.openpi_policy'), ('/a/b', 'a.b.openpi_policy')],
)
def test_the_log_level_is_this_nodes_alone(namespace: str, logger: str) -> None:
    assert ros_arguments({'namespace': namespace}) == []
    assert ros_arguments({'namespace': namespace, 'log_level': 'debug'}) == [
        '--log-level',
        f'{logger}:=debug',
    ]


@pytest.mark.parametrize(
    ('distro', 'names'),
    [
        ('humble', ['FASTDDS_DEFAULT_PROFILES_FILE', 'FASTRTPS_DEFAULT_PROFILES_FILE']),
        ('jazzy', ['FASTDDS_DEFAULT_PROFILES_FILE', 'FASTRTPS_DEFAULT_PROFILES_FILE']),
        ('kilted', ['FASTDDS_DEFAULT_PROFILES_FILE']),
        ('', ['FASTDDS_DEFAULT_PROFILES_FILE']),
    ],
)
def test_the_shipped_dds_profile_is_set_under_the_name_its_fast_dds_reads(
    distro: str, names: list[str]
) -> None:
    set_ = dds_environment({'ROS_DISTRO': distro})
    assert sorted(set_) == names
    for path in set_.values():
        assert 'segment_size>33554432<' in Path(path).read_text(encoding='utf-8')


@pytest.mark.parametrize(
    'name', ['FASTDDS_DEFAULT_PROFILES_FILE', 'FASTRTPS_DEFAULT_PROFILES_FILE']
)
def test_a_profile_of_the_users_own_stays(name: str) -> None:
    assert dds_environment({name: '/etc/dds.xml'}) == {}
