# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Names that do not meet refuse the start, every one of them."""

from __future__ import annotations

from typing import Any

import pytest
from policy_readers import BASE, LEFT, RIGHT, STATE, reader

from openpi_policy_ros.configuration.robot import Profile
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.feature_map import build_feature_map


def starting(**options: Any) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        reader(**options)
    return list(caught.value.problems)


def test_a_key_map_that_leads_to_an_unknown_feature_refuses_the_start() -> None:
    (problem,) = starting(
        profile={
            'key_map': [f'cam -> {BASE[:-1]}', f'cam2 -> {BASE}', f's -> {STATE}'],
            'optional_cameras': [LEFT, RIGHT],
        }
    )
    assert repr(BASE[:-1]) in problem
    assert f'did you mean {BASE!r}' in problem


def test_a_key_map_that_forgets_a_required_camera_or_the_state_refuses_the_start() -> None:
    problems = starting(profile={'key_map': [f'cam -> {BASE}'], 'optional_cameras': [RIGHT]})
    assert any(STATE in problem for problem in problems)
    assert any(LEFT in problem and 'optional_cameras' in problem for problem in problems)
    assert len(problems) == 2


def test_a_rename_to_an_unknown_feature_refuses_the_start() -> None:
    (problem,) = starting(renames={'front': 'observation.images.base_1_rgb'})
    assert "'front'" in problem
    assert f'did you mean {BASE!r}' in problem


def test_an_optional_camera_the_checkpoint_lacks_is_warned_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reader(optional_cameras=['observation.images.top'])
    assert "'observation.images.top'" in caplog.text


def test_the_profiles_list_of_optional_cameras_replaces_the_policy_files() -> None:
    profile = Profile(optional_cameras=[RIGHT])
    cameras = build_feature_map(
        image_features=(BASE, LEFT, RIGHT),
        state_dim=8,
        profile=profile,
        optional_cameras=[BASE, LEFT],
    ).cameras
    assert [camera.required for camera in cameras] == [True, True, False]


def test_a_robot_with_more_state_than_the_checkpoint_refuses_with_both_numbers() -> None:
    profile = Profile(key_map=[f'c -> {BASE}', f'a -> {STATE}', f'b -> {STATE}'], state_dims=[7, 2])
    build_feature_map(image_features=(BASE,), state_dim=9, profile=profile)
    with pytest.raises(ConfigurationError, match=r'makes 9 numbers of state.*takes at most 8'):
        build_feature_map(image_features=(BASE,), state_dim=8, profile=profile)


def test_a_robot_must_announce_as_much_state_as_the_statistics_have() -> None:
    keys = [f'c -> {BASE}', f'a -> {STATE}', f'b -> {STATE}']

    def build(*dims: int, **options: Any) -> None:
        build_feature_map(
            image_features=(BASE,),
            profile=Profile(key_map=keys, state_dims=list(dims)),
            **{'state_dim': 8, 'state_exact': True, **options},
        )

    build(7, 1)
    with pytest.raises(ConfigurationError, match=r'makes 9 .*takes 8: .* wider than the checkp'):
        build(7, 2)
    with pytest.raises(ConfigurationError, match=r'makes 7 .*normalises 8: .* narrower than its'):
        build(6, 1)
    build(6, 1, state_exact=False)


def test_a_robot_must_announce_the_state_that_actions_are_differences_from() -> None:
    keys = [f'c -> {BASE}', f'a -> {STATE}']

    def build(dim: int, least_state: int) -> None:
        build_feature_map(
            image_features=(BASE,),
            state_dim=8,
            least_state=least_state,
            profile=Profile(key_map=keys, state_dims=[dim]),
        )

    build(6, 6)
    with pytest.raises(ConfigurationError, match=r'makes 5 .* differences from 6: send'):
        build(5, 6)
    with pytest.raises(ConfigurationError, match=r'from 9 numbers of state, but takes at most 8'):
        build(8, 9)
