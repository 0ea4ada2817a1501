# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a server declares, against the robot file: agreed with, or refused with both values."""

from __future__ import annotations

from typing import Any

import pytest

from openpi_policy_ros.client.agreement import Agreement, agree
from openpi_policy_ros.configuration.robot import Profile, load_robot
from openpi_policy_ros.errors import ConfigurationError

URL = 'ws://box:8000/'
PI0 = {
    'image_resolution': [224, 224],
    'n_external_cameras': 1,
    'needs_wrist_camera': True,
    'needs_stereo_camera': False,
    'needs_session_id': False,
    'action_space': 'joint_velocity',
    'action_horizon': 10,
    'action_dim': 8,
    'max_cameras': 3,
}
DROID = load_robot('droid').profile


def meet(
    handshake: dict[str, Any], profile: Profile | None = DROID, **supplement: Any
) -> Agreement:
    return agree(handshake, supplement=supplement, profile=profile, url=URL, source='mine.yaml')


def without(*keys: str, **changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**PI0, **changes}.items() if key not in keys}


def test_a_server_made_for_the_robot_is_agreed_with() -> None:
    agreed = meet(PI0)
    assert (agreed.rows, agreed.columns) == (10, 8)
    assert (agreed.horizon, agreed.action_dim) == (10, 8)
    assert agreed.action_space == 'joint_velocity'
    assert agreed.action_names == tuple(DROID.action_names)
    assert agreed.handshake == PI0
    assert agreed.state_keys == ('observation/joint_position', 'observation/gripper_position')
    assert [camera.wire_keys for camera in agreed.cameras] == [
        ('observation/exterior_image_1_left',),
        ('observation/wrist_image_left',),
    ]
    assert all(camera.required for camera in agreed.cameras)


def test_a_larger_chunk_is_cropped_and_declared_so() -> None:
    agreed = meet(without(action_horizon=50, action_dim=32))
    assert (agreed.rows, agreed.columns) == (50, 32)
    assert (agreed.horizon, agreed.action_dim) == (10, 8)
    assert agreed.handshake is not None
    assert (agreed.handshake['action_horizon'], agreed.handshake['action_dim']) == (10, 8)


def test_what_is_not_passed_on_is_not_announced() -> None:
    agreed = meet(without(rtc=True))
    assert agreed.declared['rtc'] is True
    assert agreed.handshake == PI0


def test_without_a_robot_everything_is_as_the_server_says() -> None:
    agreed = meet(PI0, None)
    assert (agreed.horizon, agreed.action_dim) == (10, 8)
    assert agreed.cameras == ()
    assert agreed.handshake == PI0
    assert agreed.action_names[-1] == 'action_7'


@pytest.mark.parametrize(
    ('handshake', 'says'),
    [
        (without(action_horizon=8), r'action_horizon is 8 at the server, .* wants 10 rows'),
        (without(action_dim=7), r'action_dim is 7 at the server, .* wants 8 columns'),
        (
            without(action_space='joint_position'),
            r"'joint_position' at the server, but 'joint_velocity'",
        ),
        (without(n_external_cameras=2), r'n_external_cameras is 2 .* maps 1'),
        (without(max_cameras=1, n_external_cameras=0), r'max_cameras is 1 .* maps 2'),
        (without(action_horizon='ten'), r"action_horizon is 'ten'"),
        (without(action_horizon=0), r'action_horizon is 0'),
        (without(action_dim=True), r'action_dim is True'),
    ],
)
def test_a_contradiction_is_refused_with_both_values(handshake: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as caught:
        meet(handshake)
    assert URL in caught.value.source


def test_a_wrist_camera_that_the_robot_lacks_is_refused() -> None:
    profile = Profile(
        key_map=['image -> observation.images.base_0_rgb', 'state -> observation.state']
    )
    with pytest.raises(ConfigurationError, match=r'needs_wrist_camera is true .* maps 0'):
        meet(PI0, profile)


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        meet(without(action_horizon=8, action_dim=7, n_external_cameras=2, action_space='x'))
    assert len(caught.value.problems) == 4


def test_what_nobody_declares_is_asked_for() -> None:
    with pytest.raises(ConfigurationError) as caught:
        meet({}, None)
    assert len(caught.value.problems) == 2
    assert 'policy_server_config: {action_horizon: N}' in caught.value.problems[0]
    assert 'profile.crop_columns' in caught.value.problems[1]
    agreed = meet({}, None, action_horizon=15, action_dim=8)
    assert (agreed.rows, agreed.horizon, agreed.columns) == (15, 15, 8)
    assert agreed.handshake == {'action_horizon': 15, 'action_dim': 8}


def test_the_robots_crop_says_enough_where_the_server_says_nothing() -> None:
    agreed = meet({'reset_pose': [0.0]})
    assert (agreed.rows, agreed.columns) == (None, None)
    assert (agreed.horizon, agreed.action_dim) == (10, 8)


def test_names_count_columns_but_do_not_crop_them() -> None:
    profile = Profile(action_names=['x', 'y', 'z'])
    agreed = meet({'action_horizon': 4}, profile)
    assert (agreed.columns, agreed.action_dim) == (3, 3)
    with pytest.raises(ConfigurationError, match=r'3 entries, but a reply has 8 columns'):
        meet(PI0, profile)


def test_a_policy_file_that_differs_from_the_server_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match=r'mine\.yaml: .*action_horizon is 15, but ws://box:8000/ .* 10'
    ):
        meet(PI0, action_horizon=15)
    assert meet(PI0, action_horizon=10).horizon == 10


def test_robot_files_handshake_that_cannot_hold_is_refused() -> None:
    profile = Profile(policy_server_config={'action_horizon': 16})
    with pytest.raises(ConfigurationError, match=r'16.*10 rows'):
        meet(PI0, profile)
