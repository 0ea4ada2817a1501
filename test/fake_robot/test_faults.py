# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""One fault at a time on the fake robot: what the node does, and that no command breaks a limit.

All on one node, which is enabled anew for each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip('rclpy')

from arm import CLOSED, HOME, OPEN
from scene import Scene, scene

pytestmark = pytest.mark.ros


@pytest.fixture(scope='module')
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp('faults')) as made:
        made.start()
        yield made


@pytest.fixture
def act(stage: Scene) -> Scene:
    """Return the scene, the robot at rest and disabled."""
    stage.rest()
    return stage


def _moved(act: Scene, by: float = 0.02) -> None:
    """Wait until the arm and the wrist have moved by so much."""
    before = act.robot.positions()

    def moves() -> bool:
        now = act.robot.positions()
        return all(abs(now[joint] - before[joint]) > by for joint in ('shoulder', 'wrist'))

    act.robot.wait_until('the robot moves', moves)


def test_nothing_is_sent_until_it_is_enabled(act: Scene) -> None:
    act.robot.prompt('sine')
    time.sleep(0.5)
    assert [one for one in act.robot.records() if one.kind == 'command'] == []


def test_it_drives_and_stops_by_holding(act: Scene) -> None:
    act.drive()
    _moved(act, 0.05)
    assert act.robot.enable(False)[0]
    act.robot.wait_for('READY')
    # The hold is where the arm will be a control period after it was sent.
    time.sleep(0.1)
    stood = act.robot.positions()
    time.sleep(0.4)
    assert act.robot.positions() == stood
    assert len(act.check()) > 10
    assert act.robot.commands('wrist')
    assert act.robot.commands('hand')


def test_a_hold_of_the_operator_is_latched(act: Scene) -> None:
    act.drive()
    _moved(act)
    assert act.robot.hold()[0]
    act.hold('')
    act.robot.reset()
    assert act.robot.said().state == 'HOLD'
    act.check()
    act.drive()
    _moved(act)
    act.check()


def test_a_camera_stops(act: Scene) -> None:
    act.drive()
    act.robot.faults.cameras['hand'].stopped = True
    assert "camera 'hand'" in act.hold('S2').reason
    act.check()
    # Enabling is refused for as long as the camera is silent.
    done, text = act.robot.enable()
    assert not done
    assert 'S2' in text


def test_a_camera_that_comes_back_in_time_only_makes_it_wait(act: Scene) -> None:
    act.drive()
    act.robot.faults.cameras['hand'].stopped = True
    act.robot.wait_for('WAIT', 'S1')
    act.robot.faults.cameras['hand'].stopped = False
    act.robot.wait_for('ENABLED')
    _moved(act)
    states = act.robot.states()
    assert 'HOLD' not in states
    assert states[-1] == 'ENABLED'
    act.check()


def test_joint_states_stop(act: Scene) -> None:
    act.drive()
    act.robot.faults.joints_stopped = True
    assert 'joint_states' in act.hold('').reason
    act.check()


def test_joints_follow_late(act: Scene) -> None:
    act.robot.faults.joints_behind = 10
    act.drive()
    _moved(act, 0.05)
    act.robot.prompt('fast')
    _moved(act, 0.05)
    assert set(act.robot.states()) <= {'READY', 'WAIT', 'ENABLED'}
    act.check()


def test_one_joint_vanishes(act: Scene) -> None:
    act.drive()
    act.robot.faults.without = ('elbow',)
    assert 'elbow' in act.hold('').reason
    act.check()


def test_one_camera_lags(act: Scene) -> None:
    act.drive()
    act.robot.faults.cameras['front'].skew = 0.12
    act.robot.wait_for('WAIT', 'S3')
    act.robot.faults.cameras['front'].skew = 0.0
    act.robot.wait_for('ENABLED')
    act.check()


def test_a_camera_delivers_late(act: Scene) -> None:
    act.drive()
    act.robot.faults.cameras['front'].delay = 0.3
    act.robot.wait_for('WAIT')
    act.robot.faults.cameras['front'].delay = 0.0
    act.robot.wait_for('ENABLED')
    act.check()


def test_a_camera_changes_its_encoding(act: Scene) -> None:
    act.drive()
    act.robot.faults.cameras['front'].encoding = '32FC1'
    assert 'front' in act.hold('').reason
    act.check()


@pytest.mark.parametrize('silent', [False, True])
def test_the_interlock(act: Scene, silent: bool) -> None:
    act.drive()
    act.robot.faults.interlock = silent
    act.robot.faults.interlock_silent = silent
    act.hold('S12')
    act.check()
    done, text = act.robot.enable()
    assert not done
    assert 'S12' in text


@pytest.mark.parametrize('prompt', ['raise', 'nan', 'inf', 'narrow'])
def test_a_policy_that_fails_again_and_again(act: Scene, prompt: str) -> None:
    act.drive()
    act.robot.prompt(prompt)
    act.hold('S11')
    act.check()
    # The way back: ~/reset forgets the failures.
    act.robot.prompt('sine')
    act.robot.reset()
    act.drive()
    act.check()


def test_late_chunks_are_not_played(act: Scene) -> None:
    act.drive()
    late = act.robot.counter('late')
    act.robot.prompt('late')
    act.robot.wait_for('WAIT')
    act.hold('S15')
    assert act.robot.counter('late') > late
    act.check()


def test_slow_chunks_are_entered_at_the_time_that_is_now(act: Scene) -> None:
    act.drive('sine slow=0.4')
    _moved(act, 0.05)
    act.check()


def test_a_policy_that_hangs(act: Scene) -> None:
    act.drive()
    act.robot.prompt('hang')
    act.hold('S10')
    done, text = act.robot.enable()
    assert not done
    assert 'S10' in text
    act.robot.prompt('sine')
    # When it has come back.
    act.drive()
    act.check()


def test_another_prompt_in_the_middle_of_a_chunk(act: Scene) -> None:
    act.drive('sine')
    _moved(act)
    act.robot.prompt('step by=0.1')
    act.robot.wait_for('ENABLED')
    time.sleep(0.5)
    act.robot.prompt('sine')
    _moved(act)
    assert set(act.robot.states()) <= {'READY', 'WAIT', 'ENABLED'}
    act.check()


def test_a_reset_in_the_middle_of_a_chunk(act: Scene) -> None:
    act.drive('sine slow=0.2')
    _moved(act)
    mark = len(act.robot.commands('wrist'))
    assert act.robot.reset()[0]

    def stands() -> bool:
        # Not by ~/status: it keeps the newest state only, and this one is short.
        rows = [one.value for one in act.robot.commands('wrist')[mark:]]
        return any(len(set(rows[i : i + 5])) == 1 for i in range(len(rows) - 4))

    act.robot.wait_until('it waits where it is', stands)
    _moved(act)
    assert set(act.robot.states()) <= {'READY', 'WAIT', 'ENABLED'}
    act.check()


def test_a_first_action_one_radian_off(act: Scene) -> None:
    stood = act.robot.positions()
    act.robot.prompt('jump')
    act.enable()
    act.hold('S8')
    act.check()
    assert act.robot.positions() == stood


def test_velocities_beyond_the_limit(act: Scene) -> None:
    act.drive()
    slowed = act.robot.counter('slowed')
    act.robot.prompt('fast')
    _moved(act, 0.05)
    act.robot.wait_until('it is slowed', lambda: act.robot.counter('slowed') > slowed)
    assert act.robot.said().state == 'ENABLED'
    act.check()


def test_positions_beyond_the_limit_are_clamped(act: Scene) -> None:
    act.drive('beyond')
    clamped = act.robot.counter('clamped')
    limit = 0.98
    act.robot.wait_until(
        'the limit is reached', lambda: act.robot.positions()['shoulder'] > limit - 0.01
    )
    act.robot.wait_until('it is clamped', lambda: act.robot.counter('clamped') > clamped)
    assert act.robot.said().state == 'ENABLED'
    act.check()


def test_positions_far_beyond_the_limit(act: Scene) -> None:
    act.robot.prompt('beyond to=1.6 pace=3')
    act.enable()
    act.hold('S6')
    act.check()


def test_a_gripper_that_hesitates_does_not_chatter(act: Scene) -> None:
    act.drive('sine gripper=0.9')
    act.robot.wait_until(
        'the gripper is closed', lambda: act.robot.positions()['finger'] >= CLOSED - 1e-6
    )
    act.robot.prompt('chatter')
    count = len(act.robot.commands('hand'))
    act.robot.wait_until('it is driven', lambda: len(act.robot.commands('hand')) > count + 60)
    closed = [one.value for one in act.robot.commands('hand')[count:]]
    np.testing.assert_allclose(closed, CLOSED, atol=1e-9)
    act.robot.prompt('sine gripper=0.1')
    act.robot.wait_until(
        'the gripper is open', lambda: act.robot.positions()['finger'] <= OPEN + 1e-6
    )
    act.check()


def test_it_is_still_where_nothing_moves_it(act: Scene) -> None:
    stood = act.robot.positions()
    act.drive('still')
    time.sleep(0.5)
    for joint, position in act.robot.positions().items():
        if joint in HOME and joint != 'finger':
            assert position == pytest.approx(stood[joint], abs=1e-3)
    act.check()
