# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that looks back sees one frame per camera first, then one per offset."""

from typing import Any

import cv2
import numpy as np
import pytest
from droid_sensors import MS, START, Robot

from openpi_policy_ros.configuration.robot import RobotConfig, load_robot
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.control import decoding
from openpi_policy_ros.control.observation import Assembler

OFFSETS = (-3, -2, 0)
WRIST, EXTERIOR = 'observation/wrist_image_left', 'observation/exterior_image_1_left'
DT_MS = 100.0
SESSION = 0
"""Number of an assembler's first session."""


def looking_back(**changes: Any) -> Robot:
    """Return a robot of 10 actions per second."""
    return Robot(OFFSETS, **{'timing': {'action_rate': 1e3 / DT_MS}, **changes})


def step(robot: Robot, value: int, ms: float = DT_MS, **wrist: Any) -> None:
    """Let time pass, then everything come."""
    robot.pass_time(ms)
    robot.image('exterior_1', value + 100)
    robot.image('wrist', value, **wrist)
    robot.joints()


def values(image: Any) -> list[int]:
    """Return what tells the frames of a camera apart: their green."""
    return [int(one[0, 0, 1]) for one in image]


def test_the_first_observation_of_a_session_holds_one_frame_and_later_ones_all_of_them() -> None:
    robot = looking_back()
    for i in range(6):
        step(robot, i)
    first = robot.ready().observation
    assert (first[WRIST].shape, first[WRIST].dtype) == ((1, 4, 5, 3), np.uint8)
    assert (values(first[WRIST]), values(first[EXTERIOR])) == ([5], [105])
    later = robot.ready(SESSION).observation
    assert (later[WRIST].shape, later[WRIST].dtype) == ((3, 4, 5, 3), np.uint8)
    assert (values(later[WRIST]), values(later[EXTERIOR])) == ([2, 3, 5], [102, 103, 105])
    step(robot, 6)
    assert values(robot.ready(SESSION).observation[WRIST]) == [3, 4, 6]
    # A first call that failed is repeated as the first.
    assert values(robot.ready().observation[WRIST]) == [6]
    assert values(robot.ready(SESSION + 1).observation[WRIST]) == [6]
    assert not first[WRIST].flags.writeable
    assert not later[WRIST].flags.writeable


def test_without_offsets_an_image_has_no_time_axis() -> None:
    robot = Robot()
    robot.everything()
    assert robot.ready(SESSION).observation[WRIST].shape == (4, 5, 3)


def test_the_frames_of_a_fast_camera_lie_an_action_step_apart() -> None:
    robot = looking_back()
    for i in range(41):
        step(robot, i, DT_MS / 4)
    assert values(robot.ready(SESSION).observation[WRIST]) == [28, 32, 40]


def test_a_start_repeats_the_oldest_there_is() -> None:
    robot = looking_back()
    step(robot, 1)
    assert values(robot.ready(SESSION).observation[WRIST]) == [1, 1, 1]
    step(robot, 2)
    assert values(robot.ready(SESSION).observation[WRIST]) == [1, 1, 2]


@pytest.mark.parametrize(('layout', 'shape'), [('HWC', (4, 5, 3)), ('CHW', (3, 4, 5))])
def test_time_is_the_first_axis_in_either_layout(layout: str, shape: tuple[int, ...]) -> None:
    robot = looking_back(profile={'layout': layout})
    for i in range(4):
        step(robot, i)
    assert robot.ready().observation[WRIST].shape == (1, *shape)
    image = robot.ready(SESSION).observation[WRIST]
    assert image.shape == (3, *shape)
    if layout == 'CHW':
        image = image.transpose(0, 2, 3, 1)
    assert values(image) == [0, 1, 3]
    np.testing.assert_array_equal(image[..., 0], image[..., 1] + 1)


def test_frames_of_the_past_count_neither_for_t_obs_nor_for_freshness() -> None:
    robot = looking_back(safety={'clock_jump': 10.0})
    for i in range(4):
        step(robot, i)
    robot.pass_time(5000)
    robot.everything(age_ms=30)
    ready = robot.ready(SESSION)
    assert values(ready.observation[WRIST]) == [3, 3, 20]
    assert (ready.t_obs_ns, ready.age_ns) == (robot.now - 30 * MS, 30 * MS)
    robot.pass_time(300)
    robot.joints()
    assert "camera 'wrist' is 0.330 s old" in robot.blocked(SESSION)


@pytest.mark.parametrize('how', ['restart', 'forget', 'clock back', 'clock forward'])
def test_what_was_seen_before_is_forgotten_with(how: str) -> None:
    robot = looking_back()
    for i in range(4):
        step(robot, i)
    if how == 'restart':
        robot.sensors.restart()
    elif how == 'forget':
        robot.sensors.forget()
    else:
        robot.now += (-1 if how == 'clock back' else 1) * 3000 * MS
    step(robot, 50, ms=10)
    assert values(robot.ready(robot.sensors.session).observation[WRIST]) == [50, 50, 50]
    assert (robot.sensors.session == SESSION) == (how == 'forget')


def test_another_prompt_forgets_nothing() -> None:
    robot = looking_back()
    for i in range(4):
        step(robot, i)
    robot.sensors.set_prompt('now the plate')
    assert values(robot.ready(SESSION).observation[WRIST]) == [0, 1, 3]


def png(value: int, height: int = 4) -> bytes:
    return cv2.imencode('.png', np.full((height, 5, 3), value, np.uint8))[1].tobytes()


def compressed() -> Robot:
    cameras = load_robot('droid').model_dump()['cameras']
    cameras['wrist']['transport'] = 'compressed'
    return looking_back(cameras=cameras)


def test_every_frame_is_decoded_once_and_only_if_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded: list[int] = []

    def counting(message: Any, *arguments: Any, **named: Any) -> Any:
        decoded.append(message.number)
        return decode(message, *arguments, **named)

    decode = decoding.decode_compressed_image
    monkeypatch.setattr(decoding, 'decode_compressed_image', counting)
    robot = compressed()
    for i in range(20):
        step(robot, i, format='png', data=png(i), number=i)
        if i == 3:
            assert decoded == []
        if i >= 10:
            assert values(robot.ready(SESSION).observation[WRIST]) == [i - 3, i - 2, i]
    assert decoded == [10, 7, 8, 11, 9, *range(12, 20)]
    assert robot.ready(SESSION).observation[WRIST] is not None
    assert len(decoded) == 13
    # And no more is remembered than may be wanted again.
    known = robot.sensors._decoder._known['wrist']
    assert len(known) <= 1 - 2 * OFFSETS[0]


def test_an_earlier_image_that_cannot_be_decoded_counts_as_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    robot = compressed()
    for i in range(6):
        data = png(i)[:-9] if i == 3 else png(i)
        step(robot, i, format='png', data=data)
    for _ in range(2):
        assert values(robot.ready(SESSION).observation[WRIST]) == [2, 2, 5]
    (told,) = caplog.messages
    assert "left out of the history: camera 'wrist': data of format 'png' cannot be" in told
    step(robot, 6, format='png', data=png(6)[:-9])
    assert "camera 'wrist': data of format 'png' cannot be decoded" in robot.blocked(SESSION)
    step(robot, 7, format='png', data=png(7))
    assert values(robot.ready(SESSION).observation[WRIST]) == [4, 5, 7]
    # Told already, as the newest.
    step(robot, 8, format='png', data=png(8))
    assert values(robot.ready(SESSION).observation[WRIST]) == [5, 5, 8]
    assert caplog.messages == [told]


def test_images_of_before_another_resolution_are_not_mixed_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    robot = compressed()
    for i in range(6):
        step(robot, i, format='png', data=png(i, height=4 if i < 4 else 6))
    image = robot.ready(SESSION).observation[WRIST]
    assert image.shape == (3, 6, 5, 3)
    assert values(image) == [4, 4, 5]
    assert 'its shape is [4, 5, 3], that of the newest [6, 5, 3]' in caplog.text


def test_an_image_stamped_before_the_last_one_is_the_newest_all_the_same() -> None:
    robot = looking_back()
    for i in range(6):
        step(robot, i)
    robot.image('wrist', 77, age_ms=50)
    ready = robot.ready(SESSION)
    assert values(ready.observation[WRIST]) == [1, 2, 77]
    assert ready.t_obs_ns == robot.now - 50 * MS


def test_a_robot_without_a_rate_cannot_look_back() -> None:
    values = load_robot('droid').model_dump()
    values['timing']['action_rate'] = None
    robot = validate(RobotConfig, values, 'test')
    with pytest.raises(ValueError, match=r'timing\.action_rate is None'):
        Assembler(robot, lambda: START, history_offsets=OFFSETS)
    assert Assembler(robot, lambda: START).session == SESSION
