# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot file holds only what ROS parameters can, and says what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpi_policy_ros.configuration import files
from openpi_policy_ros.configuration.robot import (
    Camera,
    Joints,
    Profile,
    RobotConfig,
    load_robot,
    split_arrow,
)
from openpi_policy_ros.configuration.robot_file import read_robot_parameters
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.errors import ConfigurationError


@pytest.fixture
def robot_file(tmp_path: Path):
    def write(body: str) -> Path:
        path = tmp_path / 'robot.yaml'
        path.write_text(body, encoding='utf-8')
        return path

    return write


def refusal(section, values):
    with pytest.raises(ConfigurationError) as caught:
        validate(section, values, 'robot.yaml')
    return '\n'.join(caught.value.problems)


def test_the_shipped_droid_file_describes_the_stock_droid_client():
    robot = load_robot('droid')
    assert robot.profile.pairs()[0] == (
        'observation/exterior_image_1_left',
        'observation.images.base_0_rgb',
    )
    assert (robot.profile.crop_rows, robot.profile.crop_columns) == (10, 8)
    assert robot.camera_names == ['exterior_1', 'wrist']
    assert robot.timing.action_rate == 15.0


@pytest.mark.parametrize(
    ('body', 'named'),
    [
        ('timing: {max_skew: 0.1}', "starts with '/\\*\\*:' and 'ros__parameters:'"),
        ('/**: {ros__parameters: {}, extra: 1}', 'holds nothing else'),
        ('/**: {ros__parameters: [1]}', r'ros__parameters holds \[1\], expected a mapping'),
        ('/**: {ros__parameters: hello}', "ros__parameters holds 'hello'"),
        ('/**: {ros__parameters: 0}', 'ros__parameters holds 0'),
        ('/**: {ros__parameters: {joints: {names: []}}}', 'joints.names: .*leave the key out'),
        ('/**: {ros__parameters: {joints: {scale: [1, 2.5]}}}', 'joints.scale: .*write 1.0'),
        ('/**: {ros__parameters: {joints: {scale: [[1.0]]}}}', 'joints.scale: .*flat lists'),
        ('/**: {ros__parameters: {timing: {max_skew: null}}}', 'timing.max_skew: .*scalars'),
        ('/**: {ros__parameters: {timing: {t: 2026-01-01}}}', 'timing.t: .*scalars'),
    ],
)
def test_what_ros_parameters_cannot_hold_is_refused_by_name(robot_file, body, named):
    with pytest.raises(ConfigurationError, match=named):
        read_robot_parameters(robot_file(body))


def test_every_value_that_ros_cannot_hold_is_named_at_once(robot_file):
    path = robot_file('/**: {ros__parameters: {a: {b: []}, c: null, d: [1, x]}}')
    with pytest.raises(ConfigurationError) as caught:
        read_robot_parameters(path)
    assert [problem.split(':')[0] for problem in caught.value.problems] == ['a.b', 'c', 'd']


def test_a_value_that_ros_cannot_hold_hides_no_other_mistake(robot_file):
    path = robot_file(
        '/**: {ros__parameters: {limits: {velocity: [2, 2.0]}, timing: {max_skew: null, t: 1}}}'
    )
    with pytest.raises(ConfigurationError) as caught:
        load_robot(str(path))
    told = [problem.split(': ')[:2] for problem in caught.value.problems]
    assert [key for key, _ in told] == ['limits.velocity', 'timing.max_skew', 'timing.t']
    assert 'unknown key' in told[2][1]


def test_an_empty_robot_file_is_a_robot_without_sensors(robot_file):
    path = robot_file('/**:\n  ros__parameters:\n')
    assert load_robot(str(path)) == RobotConfig()


@pytest.mark.parametrize(
    'entry', ['observation/image', '-> feature', 'key ->', 'a -> b -> c', '->', '']
)
def test_a_key_map_entry_without_one_arrow_between_two_names_is_quoted(entry):
    assert repr(entry) in refusal(Profile, {'key_map': ['good -> feature', entry]})


def test_blanks_around_an_arrow_do_not_matter():
    assert split_arrow('  a/b->c.d ') == ['a/b', 'c.d']


def test_one_wire_key_cannot_feed_two_features():
    text = refusal(Profile, {'key_map': ['image -> left', 'image -> right']})
    assert "mapped twice: ['image']" in text


def test_two_wire_keys_may_feed_one_state_in_order():
    profile = validate(Profile, {'key_map': ['joints -> state', 'gripper -> state']}, 'robot.yaml')
    assert profile.pairs() == [('joints', 'state'), ('gripper', 'state')]


@pytest.mark.parametrize(
    'profile', [{'prompt_key': 'seed'}, {'key_map': ['session_id -> observation.state']}]
)
def test_keys_that_the_server_consumes_cannot_carry_inputs(profile):
    with pytest.raises(ConfigurationError, match=r'never reach the policy'):
        validate(RobotConfig, {'profile': profile}, 'robot.yaml')


def test_action_names_must_fit_the_crop_with_both_numbers_named():
    text = refusal(Profile, {'action_names': ['a', 'b'], 'crop_columns': 3})
    assert '2 entries' in text
    assert '3' in text


@pytest.mark.parametrize(
    ('values', 'named'),
    [
        ({'delta_mask': [True] * 9, 'crop_columns': 8}, '9 entries, but a reply has 8 columns'),
        (
            {'delta_mask': [False] * 3, 'action_names': ['a', 'b']},
            '3 entries, but a reply has 2 columns',
        ),
        ({'delta_mask': [1, 0]}, r'delta_mask.0: .*found 1'),
        (
            {'delta_mask': [False, True], 'action_space': 'joint_velocity'},
            "action_space is 'joint_velocity': velocities are no differences",
        ),
    ],
)
def test_a_delta_mask_that_cannot_be_meant_is_refused(values, named):
    with pytest.raises(ConfigurationError, match=named):
        validate(Profile, values, 'robot.yaml')


def test_a_delta_mask_may_be_shorter_and_all_false():
    assert validate(Profile, {'delta_mask': [True], 'crop_columns': 8}, 'x').delta_mask == [True]
    velocities = {'delta_mask': [False, False], 'action_space': 'cartesian_velocity'}
    assert validate(Profile, velocities, 'x').delta_mask == [False, False]
    assert Profile().delta_mask == []


def test_the_two_files_of_droid_positions_differ_in_their_mask_alone():
    plain, delta = load_robot('droid_jointpos'), load_robot('droid_jointpos_delta')
    # Seven angles, and the gripper, which openpi never makes a difference of.
    assert delta.profile.delta_mask == [True] * 7 + [False]
    assert plain.profile.delta_mask == []
    assert delta.model_dump(exclude={'profile': {'delta_mask'}}) == plain.model_dump(
        exclude={'profile': {'delta_mask'}}
    )


@pytest.mark.parametrize(
    ('change', 'named'),
    [
        ({'names': ['j1', 'j1']}, r"not unique: \['j1'\]"),
        ({'keys': []}, 'keys: required'),
        ({'keys': ['state', 'state', 'state']}, 'keys has 3 entries for 2'),
        ({'scale': [1.0]}, 'scale has 1 entries for 2'),
        ({'scale': [1.0, 0.0]}, 'scale: 0 would lose'),
        ({'offset': [0.0, 0.0, 0.0]}, 'offset has 3 entries for 2'),
        ({'action_indices': [0, 0]}, 'distinct columns'),
        ({'action_indices': [0, -2]}, 'distinct columns'),
    ],
)
def test_joint_lists_that_do_not_fit_are_refused(change, named):
    good = {'names': ['j1', 'j2'], 'keys': ['state']}
    validate(Joints, good, 'robot.yaml')
    with pytest.raises(ConfigurationError, match=named):
        validate(Joints, {**good, **change}, 'robot.yaml')


TWO_ARMS = {'names': ['left/waist', 'right/waist'], 'keys': ['state']}


def test_joint_states_come_from_topics_with_a_prefix_each():
    entries = ['follower_left/joint_states -> left/', '/right/joints->right/']
    joints = validate(Joints, {**TWO_ARMS, 'sources': entries}, 'robot.yaml')
    assert joints.topics() == [
        ('follower_left/joint_states', 'left/'),
        ('/right/joints', 'right/'),
    ]
    assert validate(Joints, TWO_ARMS, 'robot.yaml').topics() == [('joint_states', '')]
    both = validate(Joints, {**TWO_ARMS, 'sources': ['arm/joints', 'hand/joints']}, 'robot.yaml')
    assert both.topics() == [('arm/joints', ''), ('hand/joints', '')]


@pytest.mark.parametrize(
    ('sources', 'named'),
    [
        (['a -> left/', 'b ->'], '\'b ->\' must read "<topic> -> <prefix>"'),
        (['-> left/'], "'-> left/' must read"),
        ([''], "'' must read"),
        (['a -> b -> c'], "'a -> b -> c' must read"),
        (['a -> le ft/'], "'a -> le ft/' must read"),
        (['a b -> left/'], "'a b' is no topic name"),
        (['a -> left/', 'a -> right/'], "topics named twice: ['a']"),
        (['a -> left/', 'b -> rihgt/'], "no joint of names begins as ['b -> rihgt/'] say"),
        (['a -> left/'], "['right/waist'] can come from none of ['a -> left/']"),
    ],
)
def test_sources_of_joint_states_that_cannot_be_meant_are_refused_by_name(sources, named):
    assert named in refusal(Joints, {**TWO_ARMS, 'sources': sources})


def test_sources_without_joints_are_refused():
    assert 'sources: no effect without names' in refusal(Joints, {'sources': ['a']})


def camera(key: str) -> dict[str, str]:
    return {'topic': f'{key}/image_raw', 'key': key}


@pytest.mark.parametrize(
    ('names', 'cameras', 'named'),
    [
        (['wrist'], {}, r"without a group cameras.<name>: \['wrist'\]"),
        ([], {'wrist': camera('a')}, r"cameras.wrist: 'wrist' is not listed in camera_names$"),
        (
            ['wrist'],
            {'wirst': {'topic': 'a'}},
            r"'wirst' is not listed in camera_names, did you mean 'wrist'\?",
        ),
        (['a', 'a'], {'a': camera('a')}, 'not unique'),
        (['a', 'b'], {'a': camera('k'), 'b': camera('k')}, 'share an observation key'),
    ],
)
def test_cameras_and_their_list_of_names_must_agree(names, cameras, named):
    with pytest.raises(ConfigurationError, match=named):
        validate(RobotConfig, {'camera_names': names, 'cameras': cameras}, 'robot.yaml')


@pytest.mark.parametrize(
    'topic', ['image', 'wrist/image_raw', '/a/b_2', '~/image', '{node}/image', 'a_{ns}/b']
)
def test_topic_names_are_those_of_ros(topic):
    camera = {'topic': topic, 'key': 'k'}
    assert validate(Camera, camera, 'robot.yaml').topic == topic


@pytest.mark.parametrize(
    'topic', ['a b', 'a//b', 'a/', '/', '~', '~image', 'a/~/b', '1abc', 'a/2b', 'a-b', 'a.b', 'ä']
)
def test_what_ros_takes_for_no_topic_is_refused_before_anything_is_loaded(topic):
    with pytest.raises(ConfigurationError, match=r'topic: .* is no topic name; expected letters'):
        validate(Camera, {'topic': topic, 'key': 'k'}, 'robot.yaml')


@pytest.mark.parametrize('dims', [[7], [7, 1, 1], [7, 0]])
def test_state_dims_has_one_entry_for_each_state_key(dims):
    profile = {'key_map': ['a -> observation.state', 'b -> state', 'c -> cam'], 'state_dims': dims}
    with pytest.raises(ConfigurationError, match=r"state_dims is .*\['a', 'b'\]"):
        validate(RobotConfig, {'profile': profile}, 'robot.yaml')


def test_state_dims_and_joints_must_agree():
    values = {
        'profile': {'key_map': ['a -> observation.state'], 'state_dims': [3]},
        'joints': {'names': ['j1', 'j2'], 'keys': ['a']},
    }
    with pytest.raises(ConfigurationError, match=r"says 3 for 'a', but joints.keys gives it 2"):
        validate(RobotConfig, values, 'robot.yaml')
    values['profile']['state_dims'] = [2]
    assert validate(RobotConfig, values, 'robot.yaml').joints.count('a') == 2


@pytest.mark.parametrize('crop', [[1, 2, 3], [-1, 0, 3, 4], [0, 0, 0, 4], [0, 0, 4, -1], [0] * 5])
def test_a_crop_is_four_numbers_that_name_a_part_of_an_image(crop):
    said = refusal(Camera, {'topic': 'a', 'key': 'k', 'crop': crop})
    assert said.startswith('crop: expected [x, y, width, height]')
    assert said.endswith(f'found {crop}')


def test_a_camera_turns_by_quarters():
    assert Camera(topic='a', key='k', rotate=270).rotate == 270
    assert 'rotate' in refusal(Camera, {'topic': 'a', 'key': 'k', 'rotate': 45})


def test_crop_and_rotate_are_written_as_ros_parameters(robot_file):
    robot = load_robot(
        str(
            robot_file(
                '/**: {ros__parameters: {camera_names: [a], '
                'cameras: {a: {topic: a, key: k, crop: [1, 2, 3, 4], rotate: 180}}}}'
            )
        )
    )
    assert (robot.cameras['a'].crop, robot.cameras['a'].rotate) == ([1, 2, 3, 4], 180)


def test_keys_that_the_key_map_does_not_know_are_found_whatever_the_policy(tmp_path: Path) -> None:
    text = files.resolve('so101', 'robot').read_text(encoding='utf-8')
    path = tmp_path / 'mine.yaml'
    path.write_text(
        text.replace('key: observation.images.wrist', 'key: observation.images.wirst').replace(
            'keys: ["observation.state"]', 'keys: ["observation.sate"]'
        )
    )
    with pytest.raises(ConfigurationError) as caught:
        load_robot(str(path))
    for said in (
        "cameras.wrist.key: profile.key_map leads no image from 'observation.images.wirst', did "
        "you mean 'observation.images.wrist'?",
        "joints.keys: profile.key_map leads no state from 'observation.sate', did you mean "
        "'observation.state'?",
    ):
        assert said in str(caught.value)
