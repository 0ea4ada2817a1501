# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Two arms that call their joints alike: the real node tells them apart in both directions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('rclpy')

from light_robot import ROBOT, Robot, robot_with
from trajectory_msgs.msg import JointTrajectory

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.ros.own_topics import own_topics

pytestmark = pytest.mark.ros

ARMS = ('left', 'right')
TOPIC = 'follower_{}/arm_controller/joint_trajectory'
STATES = 'follower_{}/joint_states'
AT = {'left': 0.125, 'right': -0.25}
TWO_ARMS: dict[str, Any] = {
    'joints': {
        **ROBOT['joints'],
        'names': ['left/waist', 'right/waist'],
        'sources': [f'{STATES.format(arm)} -> {arm}/' for arm in ARMS],
    },
    'output_names': list(ARMS),
    'outputs': {
        arm: {
            'type': 'trajectory',
            'topic': TOPIC.format(arm),
            'joints': [f'{arm}/waist'],
            'controller_names': ['waist'],
            'action_indices': [column],
        }
        for column, arm in enumerate(ARMS)
    },
}
OF_RCL = {'/rosout', '/parameter_events', '/openpi_policy/transition_event', '/clock'}
STATE_COLUMNS = {'left': 5, 'right': 6}
"""Where the digest policy tells the two joints."""


class TwoArms(Robot):
    """Publishes the joints of each arm on the arm's own topic, by bare names."""

    def publish_joints(self) -> None:
        for arm, position in AT.items():
            self.peer.publish_joints({'waist': position}, topic=STATES.format(arm))


def test_arms_with_equal_joint_names_are_heard_and_moved_apart(tmp_path: Path) -> None:
    safety = {**ROBOT['safety'], 'max_start_jump': 1.0}
    with robot_with(tmp_path, {**TWO_ARMS, 'safety': safety}, kind=TwoArms) as robot:
        peer = robot.peer
        for arm in ARMS:
            peer.listen(TOPIC.format(arm), JointTrajectory)
        chunks = 'openpi_policy/action_chunk_array'
        peer.wait_until('chunks', lambda: peer.heard(chunks))
        # What the policy was given.
        row = peer.heard(chunks)[-1].data
        assert {arm: row[column] for arm, column in STATE_COLUMNS.items()} == AT
        robot.wait_for('READY')
        assert robot.enable() == (True, 'enabled')
        for arm in ARMS:
            heard = peer.wait_until(arm, lambda arm=arm: peer.heard(TOPIC.format(arm)))
            assert heard[0].joint_names == ['waist']
            # The light wants both at 0: each starts from where it is itself.
            first = heard[0].points[0].positions[0]
            assert 0.0 <= first / AT[arm] <= 1.0, f'{arm}: {first}'
        known = {
            peer.node.resolve_topic_name(topic.replace('~', 'openpi_policy'))
            for topic in own_topics(_robot(safety))
        }
        graph = peer.node.get_publisher_names_and_types_by_node('openpi_policy', '/')
        used = {name for name, _ in graph} - {f'/{TOPIC.format(arm)}' for arm in ARMS}
        graph = peer.node.get_subscriber_names_and_types_by_node('openpi_policy', '/')
        used |= {name for name, _ in graph}
        assert used - known - OF_RCL == set(), 'own_topics lacks some'


def _robot(safety: dict[str, Any]) -> RobotConfig:
    return validate(RobotConfig, {**ROBOT, **TWO_ARMS, 'safety': safety}, 'test')


def test_an_arm_that_is_not_heard_is_named_with_the_topics_it_may_come_on(tmp_path: Path) -> None:
    class OneArm(Robot):
        def publish_joints(self) -> None:
            self.peer.publish_joints({'waist': 0.0}, topic=STATES.format('left'))

    with robot_with(tmp_path, TWO_ARMS, kind=OneArm) as robot:
        text = 'has named right/waist yet'
        robot.peer.wait_until('the reason', lambda: text in robot.peer.status_text())
        topics = ' or '.join(f'/{STATES.format(arm)}' for arm in ARMS)
        assert f'no message on {topics} {text}' in robot.peer.status_text()
        assert robot.peer.heard('openpi_policy/action_chunk_array') == []


def test_a_topic_of_the_nodes_own_is_told_before_the_policy_warms_up(tmp_path: Path) -> None:
    outputs = {**ROBOT['outputs'], 'arm': {**ROBOT['outputs']['arm'], 'topic': 'joint_states'}}
    # This model takes half a minute to warm up.
    with robot_with(tmp_path, {'outputs': outputs}, model='slow', autostart=False) as robot:
        assert not robot.peer.transition('configure')
        log = robot.process.text()
        assert (
            "outputs.arm.topic: 'joint_states' is /joint_states, which this node itself uses for "
            'joint states'
        ) in log
