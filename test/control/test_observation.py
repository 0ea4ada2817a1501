# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's newest messages become the observation a WebSocket client would send, or reasons."""

import math
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
from droid_sensors import JOINTS, MS, START, Robot, header
from hypothesis import given, settings
from hypothesis import strategies as st

from openpi_policy_ros.configuration.robot import RobotConfig, load_robot
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.control.observation import Assembler, Blocked, Ready


def test_the_observation_is_what_a_websocket_client_of_this_robot_sends() -> None:
    robot = Robot()
    robot.everything()
    seen = robot.ready().observation
    assert set(seen) == {
        'observation/exterior_image_1_left',
        'observation/wrist_image_left',
        'observation/joint_position',
        'observation/gripper_position',
        'prompt',
    }
    assert seen['prompt'] == 'pick up the cup'
    image = seen['observation/wrist_image_left']
    assert (image.shape, image.dtype) == ((4, 5, 3), np.uint8)
    np.testing.assert_array_equal(image[0, 0], [21, 20, 20])
    state = seen['observation/joint_position']
    assert (state.shape, state.dtype) == ((7,), np.float32)
    np.testing.assert_array_equal(state, range(7))
    np.testing.assert_array_equal(seen['observation/gripper_position'], [8.75])


@pytest.mark.parametrize('layout', ['HWC', 'CHW'])
@pytest.mark.parametrize('colour_order', ['RGB', 'BGR'])
@pytest.mark.parametrize('encoding', ['rgb8', 'bgr8'])
def test_images_follow_the_profile_so_that_its_reader_finds_red_where_it_looks(
    layout: Any, colour_order: Any, encoding: str
) -> None:
    robot = Robot(profile={'layout': layout, 'colour_order': colour_order})
    robot.everything()
    robot.image('wrist', 20, encoding=encoding)
    image = robot.ready().observation['observation/wrist_image_left']
    if layout == 'CHW':
        image = image.transpose(1, 2, 0)
    assert image.shape == (4, 5, 3)
    published_first = encoding[:3].upper() == colour_order
    np.testing.assert_array_equal(image[0, 0], [21, 20, 20] if published_first else [20, 20, 21])


def test_the_prompt_goes_under_the_profiles_key() -> None:
    robot = Robot(profile={'prompt_key': 'task'})
    robot.everything()
    assert robot.ready().observation['task'] == 'pick up the cup'


def test_a_compressed_camera_is_decoded() -> None:
    cameras = load_robot('droid').model_dump()['cameras']
    cameras['wrist']['transport'] = 'compressed'
    robot = Robot(cameras=cameras)
    robot.image('exterior_1')
    robot.joints()
    robot.image('wrist', format='jpeg', data=b'BM')
    assert 'neither jpeg nor png' in robot.blocked()
    blue_first = np.full((4, 5, 3), (3, 2, 1), np.uint8)
    png = cv2.imencode('.png', blue_first)[1].tobytes()
    robot.image('wrist', format='png', data=png)
    image = robot.ready().observation['observation/wrist_image_left']
    np.testing.assert_array_equal(image[0, 0], [1, 2, 3])
    robot.image('wrist', format='png', data=png[:-9])
    assert "camera 'wrist': data of format 'png' cannot be decoded" in robot.blocked()
    assert "camera 'wrist': data of format 'png' cannot be decoded" in robot.blocked()


def with_wrist(layout: str = 'HWC', **settings: Any) -> Robot:
    cameras = load_robot('droid').model_dump()['cameras']
    cameras['wrist'].update(settings)
    return Robot(cameras=cameras, profile={'layout': layout})


@pytest.mark.parametrize('layout', ['HWC', 'CHW'])
@pytest.mark.parametrize('transport', ['raw', 'compressed'])
def test_a_camera_is_cropped_in_its_own_pixels_then_turned(layout: Any, transport: str) -> None:
    robot = with_wrist(layout, crop=[1, 0, 3, 2], rotate=90, transport=transport)
    robot.image('exterior_1')
    robot.joints()
    sent = np.random.default_rng(0).integers(0, 256, (4, 5, 3), np.uint8)
    if transport == 'raw':
        robot.image('wrist', data=sent.tobytes())
    else:
        png = cv2.imencode('.png', sent[..., ::-1])[1].tobytes()
        robot.image('wrist', format='png', data=png)
    image = robot.ready().observation['observation/wrist_image_left']
    if layout == 'CHW':
        image = image.transpose(1, 2, 0)
    np.testing.assert_array_equal(image, np.rot90(sent[0:2, 1:4], -1))
    assert all(stride > 0 for stride in image.strides)
    assert not image.flags.writeable


@pytest.mark.parametrize('transport', ['raw', 'compressed'])
def test_a_crop_that_the_image_does_not_hold_is_told_by_camera(transport: str) -> None:
    robot = with_wrist(crop=[1, 0, 5, 2], transport=transport)
    robot.image('exterior_1')
    if transport == 'raw':
        # Told at once, also while other streams are missing.
        robot.image('wrist')
    else:
        robot.joints()
        png = cv2.imencode('.png', np.zeros((4, 5, 3), np.uint8))[1].tobytes()
        robot.image('wrist', format='png', data=png)
    assert robot.blocked().startswith(
        "camera 'wrist': crop 5×2 at (1, 0) does not lie inside its image of 5×4"
    )


def test_a_frame_that_has_not_changed_is_not_decoded_again() -> None:
    robot = Robot()
    robot.everything()
    robot.image('wrist', encoding='bgr8')
    first = robot.ready().observation['observation/wrist_image_left']
    robot.joints()
    assert robot.ready().observation['observation/wrist_image_left'] is first
    robot.image('wrist', encoding='bgr8')
    assert robot.ready().observation['observation/wrist_image_left'] is not first


@settings(max_examples=50, deadline=None)
@given(ages=st.lists(st.integers(0, 90), min_size=3, max_size=3))
def test_t_obs_is_the_oldest_among_the_newest_of_each_stream(ages: list[int]) -> None:
    robot = Robot()
    robot.everything(age_ms=99)
    robot.image('exterior_1', age_ms=ages[0])
    robot.image('wrist', age_ms=ages[1])
    robot.joints(age_ms=ages[2])
    assert robot.ready().t_obs_ns == START - max(ages) * MS


@settings(max_examples=50, deadline=None)
@given(parts=st.permutations([JOINTS[:3], JOINTS[3:7], JOINTS[7:], ('tray_joint',)]))
def test_several_publishers_may_each_carry_part_of_the_joints(
    parts: list[tuple[str, ...]],
) -> None:
    robot = Robot()
    robot.everything()
    robot.sensors.restart()
    robot.image('exterior_1')
    robot.image('wrist')
    for part in parts[:-1]:
        robot.joints(part)
    missing = [name for name in parts[-1] if name in JOINTS]
    if missing:
        assert robot.blocked() == (
            f'joint_states: no message on /ns/joint_states has named {", ".join(missing)} yet'
        )
    robot.joints(parts[-1])
    np.testing.assert_array_equal(robot.ready().observation['observation/joint_position'], range(7))


def test_with_nothing_heard_every_stream_is_named_with_its_topic() -> None:
    robot = Robot()
    robot.sensors.set_prompt('')
    assert robot.blocked() == (
        "camera 'exterior_1': no image on /ns/exterior_1/image_raw yet; "
        "camera 'wrist': no image on /ns/wrist/image_raw yet; "
        f'joint_states: no message on /ns/joint_states has named {", ".join(JOINTS)} yet; '
        'no prompt; publish a std_msgs/String on `prompt`, or set default_prompt'
    )


def test_what_is_known_of_a_silent_camera_is_told_until_it_speaks() -> None:
    robot = Robot()
    robot.everything()
    robot.sensors.restart()
    robot.image('exterior_1')
    robot.joints()
    robot.sensors.explain_silence('wrist', 'incompatible QoS')
    assert robot.blocked() == (
        "camera 'wrist': no image on /ns/wrist/image_raw yet (incompatible QoS)"
    )
    robot.image('wrist')
    assert robot.ready()


def test_what_is_known_of_a_thin_camera_is_told_when_it_is_stale() -> None:
    robot = Robot()
    robot.everything()
    robot.sensors.explain_silence('wrist', '9 of its last 10 images were lost')
    assert robot.ready()
    robot.now += 160 * MS
    robot.image('exterior_1')
    robot.joints()
    assert robot.blocked() == (
        "camera 'wrist' is 0.160 s old (allowed 0.150 s); 9 of its last 10 images were lost"
    )
    robot.sensors.explain_silence('wrist', '')
    assert robot.blocked() == "camera 'wrist' is 0.160 s old (allowed 0.150 s)"


def test_a_stale_camera_and_stale_joints_are_named_with_their_ages() -> None:
    robot = Robot()
    robot.everything()
    robot.now += 120 * MS
    robot.image('exterior_1')
    assert robot.blocked() == (
        f'joint_states: {", ".join(JOINTS)} is 0.120 s old (allowed 0.100 s)'
    )
    robot.joints(JOINTS[:7])
    assert robot.blocked() == 'joint_states: finger_joint is 0.120 s old (allowed 0.100 s)'
    robot.joints()
    robot.now += 40 * MS
    assert robot.blocked() == "camera 'wrist' is 0.160 s old (allowed 0.150 s)"
    robot.image('wrist')
    assert robot.ready()


def test_a_message_that_was_long_on_its_way_says_so() -> None:
    robot = Robot()
    robot.everything()
    robot.image('wrist', age_ms=200)
    assert robot.blocked() == (
        "camera 'wrist' is 0.200 s old (allowed 0.150 s), it came 0.200 s after its stamp"
    )


def test_one_camera_may_have_its_own_max_age() -> None:
    cameras = load_robot('droid').model_dump()['cameras']
    cameras['wrist']['max_age'] = 0.5
    robot = Robot(cameras=cameras, timing={'max_skew': 1.0})
    robot.everything()
    robot.image('wrist', age_ms=400)
    assert robot.ready()
    robot.image('exterior_1', age_ms=400)
    assert robot.blocked().startswith("camera 'exterior_1' is 0.400 s old (allowed 0.150 s)")


def test_streams_too_far_apart_are_named() -> None:
    robot = Robot()
    robot.everything()
    robot.image('wrist', age_ms=130)
    assert robot.blocked().startswith(
        "camera 'wrist' is 0.130 s older than joint 'finger_joint' (allowed 0.100 s)"
    )
    result = robot.sensors.snapshot()
    assert isinstance(result, Blocked)
    # Which of the joints is named does not make it another reason.
    assert result.reasons[0].signature == ('skew', '', "camera 'wrist'", 'joint_states')


@pytest.mark.parametrize(
    ('fields', 'said'),
    [
        ({'encoding': '32FC1'}, "camera 'wrist': encoding '32FC1' is a depth"),
        ({'step': 3}, "camera 'wrist': step is 3 bytes"),
        ({'header': header(0)}, "camera 'wrist' has no stamp (0)"),
        ({'age_ms': -500}, "camera 'wrist' is stamped 0.500 s in the future"),
    ],
)
def test_an_unusable_image_stops_inference_until_the_next_good_one(
    fields: dict[str, Any], said: str
) -> None:
    robot = Robot()
    robot.everything()
    serial = robot.ready().serial
    robot.image('wrist', **fields)
    assert robot.blocked().startswith(said)
    robot.image('wrist')
    assert robot.ready().serial > serial


@pytest.mark.parametrize(
    ('fields', 'said'),
    [
        ({'position': [math.nan] * 8}, f'joint_states: {", ".join(JOINTS)} position is nan'),
        ({'position': [0.0] * 7}, 'joint_states: 8 names and 7 positions'),
        ({'name': [], 'position': [0.0]}, 'joint_states: 0 names and 1 positions'),
        ({'header': header(0)}, f'joint_states: {", ".join(JOINTS)} has no stamp (0)'),
        ({'age_ms': -30}, f'joint_states: {", ".join(JOINTS)} is stamped 0.030 s in the future'),
    ],
)
def test_unusable_joints_stop_inference_until_the_next_good_ones(
    fields: dict[str, Any], said: str
) -> None:
    robot = Robot()
    robot.everything()
    robot.joints(**fields)
    assert robot.blocked().startswith(said)
    robot.joints()
    assert robot.ready()


def test_messages_without_positions_take_none_away_from_those_that_have_them() -> None:
    robot = Robot()
    robot.everything()
    before = robot.ready()
    robot.joints(position=[])
    assert robot.ready().serial == before.serial
    silent = Robot()
    silent.everything()
    silent.sensors.restart()
    silent.image('exterior_1')
    silent.image('wrist')
    silent.joints(position=[])
    assert 'come without positions' in silent.blocked()
    silent.joints()
    assert silent.ready()


def test_one_bad_joint_is_named_alone_and_others_joints_do_not_matter() -> None:
    robot = Robot()
    robot.everything()
    robot.joints(('panda_joint2', 'tray'), position=[math.inf, math.nan])
    assert robot.blocked() == 'joint_states: panda_joint2 position is inf'
    robot.joints(('panda_joint2',))
    robot.joints(('tray', 'lid'), position=[0.0])
    assert robot.ready()


def test_unstamped_messages_go_by_their_arrival_where_allowed() -> None:
    robot = Robot(timing={'allow_unstamped': True})
    robot.everything()
    robot.image('wrist', header=header(0))
    robot.now += 30 * MS
    assert robot.ready().t_obs_ns == START


def test_without_a_clock_message_there_is_no_observation() -> None:
    robot = Robot()
    robot.now = 0
    robot.sensors.add_joints(SimpleNamespace(header=header(5), name=['panda_joint1'], position=[0]))
    assert robot.blocked().startswith('use_sim_time is on, but no /clock message has come yet')


def test_a_clock_that_jumps_back_clears_everything_and_begins_a_new_session() -> None:
    robot = Robot()
    robot.everything()
    before = robot.ready()
    robot.now -= 1
    robot.image('wrist')
    assert "camera 'exterior_1': no image" in robot.blocked()
    assert robot.sensors.session == before.session + 1
    assert robot.sensors.epoch == before.epoch + 1
    robot.everything()
    assert robot.ready().observation['prompt'] == 'pick up the cup'
    assert robot.sensors.session == before.session + 1


def test_a_restart_forgets_messages_but_not_the_prompt() -> None:
    robot = Robot()
    robot.everything()
    before = robot.ready()
    robot.sensors.restart()
    assert 'no image' in robot.blocked()
    assert 'no prompt' not in robot.blocked()
    robot.everything()
    after = robot.ready()
    assert (after.session, after.epoch) == (before.session + 1, before.epoch + 1)


def test_another_prompt_is_a_new_epoch_of_the_same_session_and_news() -> None:
    robot = Robot()
    robot.everything()
    before = robot.ready()
    assert not robot.sensors.set_prompt('pick up the cup')
    assert robot.ready().serial == before.serial
    assert robot.sensors.set_prompt('put it down')
    after = robot.ready()
    assert (after.session, after.epoch) == (before.session, before.epoch + 1)
    assert after.serial > before.serial
    assert after.observation['prompt'] == 'put it down'


@pytest.mark.parametrize('prompt', ['', '  \n'])
def test_an_empty_prompt_means_none(prompt: str) -> None:
    robot = Robot()
    robot.everything()
    robot.sensors.set_prompt(prompt)
    assert robot.blocked().startswith('no prompt')


def test_the_serial_rises_with_each_message_and_only_then() -> None:
    robot = Robot()
    robot.everything()
    first = robot.ready().serial
    assert robot.ready().serial == first
    robot.joints(('somebody_elses',))
    assert robot.ready().serial == first
    robot.joints(JOINTS[:1])
    assert robot.ready().serial == first + 1


def test_a_robot_without_cameras_observes_its_joints() -> None:
    values = {'joints': {'names': ['a'], 'keys': ['state']}}
    sensors = Assembler(validate(RobotConfig, values, 'test'), lambda: START)
    sensors.set_prompt('go')
    sensors.add_joints(SimpleNamespace(header=header(START), name=['a'], position=[1.5]))
    result = sensors.snapshot()
    assert isinstance(result, Ready)
    assert set(result.observation) == {'state', 'prompt'}
