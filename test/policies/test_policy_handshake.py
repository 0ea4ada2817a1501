# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What clients are told agrees with what the policy does, or the start is refused."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import pytest

from openpi_policy_ros.configuration.policy_file import load_policy_file
from openpi_policy_ros.configuration.robot import Profile, load_robot
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.handshake import HandshakeFacts, build_handshake, derive

PI0 = HandshakeFacts(
    image_resolution=(224, 224),
    cameras=(
        'observation.images.base_0_rgb',
        'observation.images.left_wrist_0_rgb',
        'observation.images.right_wrist_0_rgb',
    ),
    camera_slots=3,
    horizon=50,
    action_dim=32,
)
PUBLISHED = {
    'image_resolution': [224, 224],
    'n_external_cameras': 1,
    'needs_wrist_camera': True,
    'needs_stereo_camera': False,
    'needs_session_id': False,
    'action_space': 'joint_position',
    'action_horizon': 50,
    'action_dim': 32,
    'max_cameras': 3,
}


def refused(declared: dict[str, Any], facts: HandshakeFacts = PI0, **profile: Any) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        build_handshake(declared, facts, Profile(**profile), source='my_policy.yaml')
    assert 'my_policy.yaml' in str(caught.value)
    return list(caught.value.problems)


def test_the_checkpoint_alone_gives_the_published_handshake() -> None:
    assert build_handshake(derive(PI0), PI0) == PUBLISHED


def test_the_shipped_policy_file_declares_the_published_handshake() -> None:
    declared = load_policy_file('pi0').options['policy_server_config']
    assert build_handshake(declared, PI0) == PUBLISHED


def test_a_derived_handshake_takes_the_robots_action_space() -> None:
    assert derive(PI0, 'joint_velocity')['action_space'] == 'joint_velocity'


def test_a_declared_mapping_is_sent_verbatim_and_nothing_is_invented() -> None:
    declared = {'needs_session_id': True, 'reset_pose': (0.0, 1.0), 'nested': {'a': (1, (2,))}}
    assert build_handshake(declared, PI0) == {
        'needs_session_id': True,
        'reset_pose': [0.0, 1.0],
        'nested': {'a': [1, [2]]},
    }


def test_an_empty_mapping_is_a_handshake_and_no_mapping_is_none() -> None:
    assert build_handshake({}, PI0) == {}
    assert build_handshake(None, PI0) is None


def test_a_robot_file_cannot_declare_what_the_policy_file_did_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    profile = Profile(policy_server_config={'action_dim': 32})
    assert build_handshake(None, PI0, profile) is None
    assert 'action_dim' in caplog.text


def test_the_robot_overrides_key_by_key() -> None:
    profile = load_robot('droid').profile
    facts = HandshakeFacts((224, 224), PI0.cameras, 3, horizon=10, action_dim=8)
    assert build_handshake(PUBLISHED, facts, profile) == {
        **PUBLISHED,
        'action_horizon': 10,
        'action_dim': 8,
        'action_space': 'joint_velocity',
    }


def test_horizon_and_width_must_be_those_of_a_reply_with_both_numbers_named() -> None:
    facts = HandshakeFacts((224, 224), PI0.cameras, 3, horizon=10, action_dim=8)
    horizon, width = refused(PUBLISHED, facts)
    assert 'action_horizon is 50' in horizon
    assert '10 rows' in horizon
    assert 'action_dim is 32' in width
    assert '8 columns' in width


@pytest.mark.parametrize('value', [50.0, True, '50', None])
def test_a_horizon_that_is_no_whole_number_is_refused(value: Any) -> None:
    (problem,) = refused({'action_horizon': value})
    assert repr(value) in problem


def test_action_space_must_be_the_profiles_with_both_named() -> None:
    (problem,) = refused(PUBLISHED, action_space='joint_velocity')
    assert "'joint_position'" in problem
    assert "'joint_velocity'" in problem


def test_more_cameras_than_slots_are_refused_with_both_numbers() -> None:
    (problem,) = refused({'n_external_cameras': 3, 'needs_wrist_camera': True})
    assert '4 cameras' in problem
    assert '3 slots' in problem
    build_handshake({'n_external_cameras': 2, 'needs_wrist_camera': True}, PI0)
    build_handshake({'n_external_cameras': 3}, PI0)


@pytest.mark.parametrize(
    ('declared', 'says'),
    [
        ({'n_external_cameras': 'two'}, "'two'"),
        ({'n_external_cameras': -1}, '-1'),
        ({'needs_wrist_camera': 'yes'}, "'yes'"),
        ({'date': object()}, 'policy_server_config.date is a object'),
        ({'serial': [2**64]}, 'policy_server_config.serial[0] is 18446744073709551616'),
        ({'serial': -(2**63) - 1}, 'at most 64 bits'),
        ({'name': {'a': 'x\ud800'}}, "policy_server_config.name.a is 'x\\ud800'"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(declared: dict[str, Any], says: str) -> None:
    (problem,) = refused(declared)
    assert says in problem


def test_another_image_size_is_only_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    declared = {'image_resolution': (180, 320)}
    assert build_handshake(declared, PI0) == {'image_resolution': [180, 320]}
    assert '[180, 320]' in caplog.text
    assert '[224, 224]' in caplog.text
    caplog.clear()
    build_handshake({'image_resolution': [224, 224]}, PI0)
    assert not caplog.records


def test_real_time_chunking_is_announced_only_by_a_policy_that_does_it() -> None:
    able = dataclasses.replace(PI0, supports_rtc=True)
    assert build_handshake({**PUBLISHED, 'rtc': True}, able) == {**PUBLISHED, 'rtc': True}
    assert build_handshake({}, able, Profile(policy_server_config={'rtc': True})) == {'rtc': True}
    (problem,) = refused({'rtc': True})
    assert 'rtc is true, but this policy cannot' in problem
    assert build_handshake({'rtc': False}, PI0) == {'rtc': False}


def test_a_derived_handshake_announces_no_real_time_chunking() -> None:
    assert 'rtc' not in derive(dataclasses.replace(PI0, supports_rtc=True))


@pytest.mark.parametrize('value', [1, 'yes', None, [True]])
def test_real_time_chunking_is_true_or_false(value: Any) -> None:
    (problem,) = refused({'rtc': value}, dataclasses.replace(PI0, supports_rtc=True))
    assert f'rtc is {value!r}, expected true or false' in problem
