# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Parameters and robot file become one set of settings, or one message with every problem."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.ros.settings import (
    changed_settings,
    effective_parameters,
    validate_parameters,
)

MODEL = {'model': '/models/pi0'}


def robot_file(directory: Path, values: dict[str, Any]) -> str:
    path = directory / 'robot.yaml'
    path.write_text(yaml.safe_dump({'/**': {'ros__parameters': values}}))
    return str(path)


def problems(parameters: dict[str, Any]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        validate_parameters(parameters)
    return str(caught.value)


def test_a_model_alone_is_enough_and_serves_remote_clients_only() -> None:
    config = validate_parameters(MODEL)
    assert (config.device, config.host, config.port, config.seed) == ('cpu', '127.0.0.1', 8000, -1)
    assert config.autostart
    assert not config.has_robot_door
    assert config.server().port == 8000


def test_without_a_model_the_message_says_what_to_give() -> None:
    assert 'model: required: a checkpoint directory or a hub id' in problems({})


def test_only_the_rehearsal_goes_without_a_model() -> None:
    assert validate_parameters({'policy': 'rehearsal', 'robot': 'so101'}).model == ''
    assert 'model: required: a checkpoint' in problems({'policy': 'pi0'})
    # Which policy is meant is not known then.
    said = problems({'policy': 'rehersal'})
    assert "did you mean 'rehearsal'" in said
    assert 'model' not in said


def test_a_missing_model_names_the_policy_that_needs_none() -> None:
    assert 'policy:=rehearsal needs none' in problems({})


def test_the_robot_files_values_are_defaults_and_parameters_win() -> None:
    config = validate_parameters(
        {**MODEL, 'robot': 'droid', 'timing.action_rate': 20.0, 'cameras.wrist.topic': '/w'}
    )
    assert config.has_robot_door
    assert config.timing.action_rate == 20.0
    assert config.cameras['wrist'].topic == '/w'
    assert config.cameras['wrist'].key == 'observation/wrist_image_left'
    assert config.profile.policy_server_config['action_horizon'] == 10


def test_a_robot_whose_policy_thinks_long_raises_the_timeout_unless_it_is_set() -> None:
    robot = {**MODEL, 'robot': 'droid_dreamzero'}
    assert validate_parameters({**MODEL, 'robot': 'droid'}).inference_timeout == 5.0
    assert validate_parameters(robot).inference_timeout == 15.0
    assert validate_parameters({**robot, 'inference_timeout': 5.0}).inference_timeout == 5.0
    slower = {**robot, 'timing.inference_timeout': 40.0}
    assert validate_parameters(slower).inference_timeout == 40.0


def test_naming_fewer_cameras_switches_the_files_others_off() -> None:
    config = validate_parameters({**MODEL, 'robot': 'droid', 'camera_names': ['wrist']})
    assert list(config.cameras) == ['wrist']
    # ROS has None for an empty list.
    config = validate_parameters({**MODEL, 'robot': 'droid', 'camera_names': None})
    assert not config.cameras


def test_naming_fewer_outputs_switches_the_files_others_off(tmp_path: Path) -> None:
    path = tmp_path / 'robot.yaml'
    path.write_text(
        """/**:
  ros__parameters:
    joints: {names: [a, b], keys: [state]}
    timing: {action_rate: 10.0}
    output_names: [left, right]
    outputs:
      left: {type: array, topic: left, joints: [a], action_indices: [0]}
      right: {type: array, topic: right, joints: [b], action_indices: [1]}
""",
        encoding='utf-8',
    )
    told = {**MODEL, 'robot': str(path)}
    assert list(validate_parameters(told).outputs) == ['left', 'right']
    assert list(validate_parameters({**told, 'output_names': ['right']}).outputs) == ['right']
    assert not validate_parameters({**told, 'output_names': None}).outputs


def test_a_robot_may_come_as_parameters_alone() -> None:
    parameters = effective_parameters({'robot': 'droid'})
    del parameters['robot']
    config = validate_parameters({**MODEL, **parameters})
    assert config.joints.names[-1] == 'finger_joint'


def test_an_empty_value_means_none_whatever_the_file_says() -> None:
    config = validate_parameters({**MODEL, 'robot': 'droid', 'profile.crop_rows': None})
    assert config.profile.crop_rows is None
    assert config.profile.crop_columns == 8
    assert 'model: required' in problems({'model': None})


def test_whole_numbers_do_for_decimal_ones() -> None:
    config = validate_parameters({**MODEL, 'timing.action_rate': 12, 'timing.max_skew': 1})
    assert (config.timing.action_rate, config.timing.max_skew) == (12.0, 1.0)


@pytest.mark.parametrize(
    ('name', 'value', 'said'),
    [
        ('modle', 'x', "modle: unknown key; did you mean 'model'?"),
        ('timing.camera_maxage', 1.0, "timing.camera_maxage: unknown key; did you mean 'camera_m"),
        ('cameras.wrist.topik', 'x', "cameras.wrist.topik: unknown key; did you mean 'topic'?"),
        ('port', 70000, 'port: Input should be less than or equal to 65535 (found 70000)'),
        ('port', 'http', 'port: Input should be a valid integer'),
        ('seed', -2, 'seed: Input should be greater than or equal to -1'),
        ('dry_run', 'yes', 'dry_run: Input should be a valid boolean'),
        ('device', '', 'device: '),
        ('default_prompt', 5, 'default_prompt: expected text, found 5; quote it twice'),
        ('revision', 1e10, 'revision: expected text, found 10000000000.0'),
        ('timing.action_rate', 0.0, 'timing.action_rate: Input should be greater than 0'),
        ('timing.action_rate', 'fast', 'timing.action_rate: Input should be a valid number'),
        ('robot', 'droit', "robot: robot file: 'droit' is not shipped, did you mean 'droid'?"),
        ('policy', 'pi00', "policy: policy file: 'pi00' is not shipped, did you mean 'pi0'?"),
        ('joints.names', ['a', 'a'], "joints: names are not unique: ['a']"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_value_and_what_was_expected(
    name: str, value: Any, said: str
) -> None:
    assert said in problems({**MODEL, 'robot': 'droid', name: value})


def test_every_problem_is_in_one_message() -> None:
    text = problems(
        {'robot': 'droit', 'policy': 'pi00', 'port': -1, 'seeed': 3, 'timing.max_skew': 'x'}
    )
    for said in ("'droit'", "'pi00'", 'port:', 'seeed:', 'timing.max_skew:'):
        assert said in text
    assert '5 problems' in text


def test_a_value_that_ros_cannot_hold_hides_no_other_problem_of_the_robot_file(
    tmp_path: Path,
) -> None:
    file = robot_file(
        tmp_path,
        {'model': '/m', 'limits': {'velocity': [2, 2.0]}, 'timing': {'max_skew': -1.0, 't': None}},
    )
    text = problems({**MODEL, 'robot': file})
    for said in ('model: is a parameter of', 'limits.velocity: ROS', 'timing.max_skew: Input'):
        assert said in text
    assert text.count('timing.t:') == 1
    assert '4 problems' in text


def test_a_parameter_of_the_node_has_no_place_in_a_robot_file(tmp_path: Path) -> None:
    file = robot_file(tmp_path, {'model': '/m', 'joints': {'names': ['a'], 'keys': ['s']}})
    assert 'model: is a parameter of the node, not of a robot' in problems({**MODEL, 'robot': file})


def test_problems_of_the_robot_file_are_told_with_the_parameters(tmp_path: Path) -> None:
    file = robot_file(tmp_path, {'joints': {'nmes': ['a']}, 'timing': {'max_skew': -1.0}})
    text = problems({'robot': file, 'port': -1})
    for said in ("joints.nmes: unknown key; did you mean 'names'", 'timing.max_skew', 'port'):
        assert said in text


def test_a_value_and_a_group_of_one_name_are_told_apart() -> None:
    assert 'a value and a group at once' in problems({**MODEL, 'timing': 1, 'timing.max_skew': 1.0})


def test_settings_of_a_running_node_change_without_reading_a_file_again(tmp_path: Path) -> None:
    file = tmp_path / 'robot.yaml'
    file.write_text('/**:\n  ros__parameters:\n    safety: {velocity_scale: 0.3}\n')
    effective = effective_parameters({'model': 'm', 'robot': str(file)})
    file.unlink()
    changed = changed_settings(effective, {'seed': 4, 'safety.velocity_scale': 0.1})
    assert (changed.seed, changed.safety.velocity_scale, changed.model) == (4, 0.1, 'm')
    again = changed_settings(effective, {'safety.velocity_scale': None})
    assert again.safety.velocity_scale == 0.5, 'none is the default'
    with pytest.raises(ConfigurationError) as refused:
        changed_settings(effective, {'seed': -2, 'safety.velocity_scale': 2.0})
    assert len(refused.value.problems) == 2
