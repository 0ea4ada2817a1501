# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The simulated robot on its topics, and episodes in which the real node drives it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('mujoco')

from node_process import BEST_EFFORT, JOINTS, LATCHED, RELIABLE, Peer, new_domain, peer_of
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CompressedImage, Image, JointState
from sidecar_policy import FREEZE
from sim_robot_rig import Rig, rig_of, simulated_robot, skip_where_nothing_can_be_drawn
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from openpi_policy_ros.configuration.robot import RobotConfig, load_robot
from openpi_policy_ros.control.kinematics import KinematicTree
from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.errors import SimulationError
from openpi_policy_ros_sim.ros import link as link_module
from openpi_policy_ros_sim.ros.link import NodeLost
from openpi_policy_ros_sim.ros.node import FIRST_NS, Options, SimulatedRobotNode

pytestmark = pytest.mark.ros

IMAGES = ('exterior_1/image_raw', 'wrist/image_raw')
SECOND = 1_000_000_000


@pytest.fixture(scope='module', autouse=True)
def _can_draw() -> None:
    skip_where_nothing_can_be_drawn()


@pytest.fixture(scope='module')
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig_of(tmp_path_factory.mktemp('sim_robot')) as made:
        yield made


def stamp_of(message: Any) -> int:
    return message.header.stamp.sec * SECOND + message.header.stamp.nanosec


def settle(robot: SimulatedRobotNode, peer: Peer, *topics: str) -> None:
    """Turn until something came on every topic, then forget it."""
    deadline = time.monotonic() + 20
    while not all(peer.heard(topic) for topic in topics):
        assert time.monotonic() < deadline, topics
        robot.turn()
    for topic in topics:
        peer.forget(topic)


def test_its_topics_are_those_of_a_robot_with_a_clock() -> None:
    domain = new_domain()
    # Slow, so that nothing is lost on the way: best effort, and Python on the other side.
    with simulated_robot(domain, Options(rate=0.25)) as robot, peer_of(domain) as peer:
        peer.listen('/clock', Clock, BEST_EFFORT)
        peer.listen('joint_states', JointState, RELIABLE)
        for topic in IMAGES:
            peer.listen(topic, Image, BEST_EFFORT)
        peer.listen('robot_description', String, LATCHED)
        settle(robot, peer, '/clock', 'joint_states', *IMAGES)
        first = robot.turns
        for _ in range(120):
            robot.turn()
        time.sleep(0.2)
        stamps = [stamp_of(one) for one in peer.heard('joint_states')]
        assert len(stamps) >= 100
        assert np.diff(stamps).min() >= SECOND // 121
        ticks = [one.clock.sec * SECOND + one.clock.nanosec for one in peer.heard('/clock')]
        assert ticks == sorted(ticks)
        assert FIRST_NS < ticks[0] < ticks[-1] < FIRST_NS + 20 * SECOND
        names = dict(zip(peer.heard('joint_states')[-1].name, range(8), strict=True))
        assert set(names) == set(JOINTS)
        for topic in IMAGES:
            images = peer.heard(topic)
            assert len(images) >= 12
            assert {(one.height, one.width, one.encoding) for one in images} == {(126, 224, 'rgb8')}
            # Exposed every 1/15 s of simulated time, at a moment of the joints' own clock.
            assert set(np.diff([stamp_of(one) for one in images]) // 1_000_000) <= {66, 133, 200}
            pixels = np.frombuffer(images[-1].data, np.uint8)
            assert pixels.std() > 10
        assert robot.turns == first + 120
        # The description came to whoever is late, and is that of the arm that moves.
        tree = KinematicTree(peer.heard('robot_description')[0].data)
        assert set(JOINTS) <= set(tree.joints)


def test_images_are_stamped_with_their_exposure() -> None:
    domain = new_domain()
    with simulated_robot(domain, Options(rate=0.25)) as robot, peer_of(domain) as peer:
        peer.listen('wrist/image_raw', Image, BEST_EFFORT)
        settle(robot, peer, 'wrist/image_raw')
        environment, seen = robot.arm.environment, {}
        robot.arm.model.take_values('gripper', [c.STROKE], robot.time_ns)
        for _ in range(48):
            if robot.turns % 8 == 0:
                seen[robot.time_ns] = environment.render('wrist', 126, 224)
            robot.turn()
        time.sleep(0.2)
        heard = peer.heard('wrist/image_raw')
        assert len(heard) >= 4
        for message in heard:
            picture = np.frombuffer(message.data, np.uint8).reshape(126, 224, 3)
            np.testing.assert_array_equal(picture, seen[stamp_of(message)])
        pictures = list(seen.values())
        assert np.abs(pictures[0].astype(int) - pictures[-1]).max() > 50


def test_it_does_what_its_controllers_are_told_and_holds_the_last_of_it() -> None:
    domain = new_domain()
    with simulated_robot(domain, Options(rate=0.0)) as robot, peer_of(domain) as peer:
        arm = peer.publisher('arm_controller/joint_trajectory', JointTrajectory, RELIABLE)
        hand = peer.publisher('gripper_controller/commands', Float64MultiArray, RELIABLE)
        deadline = time.monotonic() + 20
        while not (arm.get_subscription_count() and hand.get_subscription_count()):
            assert time.monotonic() < deadline
            robot.turn()
        target = [angle + 0.1 for angle in c.HOME]
        message = JointTrajectory(joint_names=list(c.JOINT_NAMES))
        message.points = [JointTrajectoryPoint(positions=target)]
        message.points[0].time_from_start.nanosec = 100_000_000
        arm.publish(message)
        hand.publish(Float64MultiArray(data=[c.STROKE]))
        while robot.arm.model.taken != {'arm': 1, 'gripper': 1}:
            assert time.monotonic() < deadline
            robot.turn()
        for _ in range(200):
            robot.turn()
        positions = robot.arm.positions()
        assert [positions[name] for name in c.JOINT_NAMES] == pytest.approx(target, abs=5e-3)
        assert positions['finger_joint'] == pytest.approx(c.STROKE, abs=1e-3)


def test_by_the_time_of_day_there_is_no_clock_and_cameras_may_be_compressed() -> None:
    values = load_robot('sim_droid').model_dump()
    values['cameras']['wrist'] |= {'transport': 'compressed', 'topic': 'wrist/compressed'}
    domain = new_domain()
    with (
        simulated_robot(
            domain, Options(wall_clock=True), RobotConfig.model_validate(values)
        ) as robot,
        peer_of(domain) as peer,
    ):
        peer.listen('/clock', Clock, BEST_EFFORT)
        peer.listen('joint_states', JointState)
        peer.listen('wrist/compressed', CompressedImage, BEST_EFFORT)
        settle(robot, peer, 'joint_states', 'wrist/compressed')
        before = time.time_ns()
        for _ in range(20):
            robot.turn()
        peer.wait_until('joint states', lambda: peer.heard('joint_states'))
        stamps = [stamp_of(one) for one in peer.heard('joint_states')]
        assert before - SECOND < stamps[0] <= stamps[-1] <= time.time_ns()
        assert peer.heard('/clock') == []


@pytest.mark.parametrize('options', [{'camera_rate': 7}, {'wall_clock': True, 'rate': 0.5}])
def test_rates_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SimulationError, match='expected'):
        Options(**options)


def test_the_node_lifts_the_cube_and_is_reset_in_between(rig: Rig) -> None:
    first = rig.run(3, task='lift', max_steps=150)
    assert first.ended == ''
    assert first.success['lift'] is not None
    assert first.succeeded
    assert first.states[0].time == 0.0
    assert first.counters['chunks_taken'] > 3
    assert (first.counters['holds'], first.counters['failures']) == (0, 0)
    assert all(0.0 < age < 2.0 for age in first.latencies)
    assert 0.0 < first.factor < 0.6
    second = rig.run(3, task='lift', max_steps=2)
    assert not second.succeeded
    # The scene is the seed's again, and so is the arm.
    for name in ('cube', 'bowl', 'can', 'box'):
        was, now = getattr(first.states[0], name), getattr(second.states[0], name)
        np.testing.assert_allclose(now, was, atol=1e-4)
    np.testing.assert_allclose(second.states[0].joint_position, c.HOME, atol=5e-3)
    assert second.counters['holds'] == 0
    # Each episode is a session of its own, and time went on.
    assert rig.node.text().count('new session') >= 2
    assert 'the clock jumped' not in rig.node.text()


def test_the_instruction_reaches_the_node_before_it_may_move(rig: Rig) -> None:
    rig.run(4, task='bowl', max_steps=5)
    assert rig.peer.heard('openpi_policy/current_prompt')[-1].data == 'put the red cube in the bowl'
    assert rig.link.state == 'READY'


def test_a_hold_in_mid_episode_is_told_as_its_end(rig: Rig) -> None:
    def hold(step: int) -> None:
        if step == 8:
            rig.peer.call('hold', Trigger, Trigger.Request())

    episode = rig.run(5, task='lift', max_steps=150, each_step=hold)
    assert episode.ended == 'HOLD: ~/hold was called'
    assert not episode.succeeded
    assert episode.counters['holds'] == 1
    assert 8 <= len(episode.states) < 30
    # The arm stands where it was held, and the next episode goes as if nothing had been.
    speeds = np.abs(episode.states[-1].joint_velocity)
    assert speeds.max() < 2.0
    assert rig.run(6, task='lift', max_steps=4).ended == ''


def test_a_policy_that_fails_ends_the_episode_with_the_gates_reason(rig: Rig) -> None:
    episode = rig.run(5, task='lift', prompt=FREEZE, max_steps=150)
    assert episode.ended.startswith('HOLD: S')
    assert 'frozen' in episode.ended or 'RuntimeError' in episode.ended
    assert episode.counters['failures'] >= 3


def test_a_robot_that_falls_silent_is_held_by_the_node(rig: Rig) -> None:
    """The simulator stands still in mid-episode: neither clock nor sensors."""

    def pause(step: int) -> None:
        if step == 6:
            rig.peer.wait_until('a hold', lambda: 'HOLD: S' in rig.peer.status_text())

    episode = rig.run(7, task='lift', max_steps=150, each_step=pause)
    assert episode.ended.startswith('HOLD: S2: ') or episode.ended.startswith('HOLD: S5: ')


def test_a_node_that_goes_away_is_told(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last test with this node."""
    monkeypatch.setattr(link_module, 'ECHO', 1.0)
    monkeypatch.setattr(link_module, 'SILENCE', 2.0)

    def leave(step: int) -> None:
        if step == 6:
            rig.node.kill()

    def run_until_lost() -> None:
        # The node's last word may end the first episode in good order.
        rig.run(8, task='lift', max_steps=150, each_step=leave)
        rig.run(9, task='lift', max_steps=150)

    with pytest.raises(NodeLost, match='/openpi_policy is gone: no '):
        run_until_lost()
