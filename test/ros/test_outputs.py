# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Commands become messages and goals; control_msgs is needed by grippers' actions alone.

control_msgs is not installed everywhere the tests run, so a stand-in takes its place here.
"""

from __future__ import annotations

import logging
import sys
from concurrent.futures import Future
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip('rclpy')

from rig import ARM_ARRAY, ARM_TRAJECTORY, GRIPPER, make_robot

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.control.commands import ArrayCommand, GripperCommand, TrajectoryCommand
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.ros.outputs import (
    GripperGoals,
    Outputs,
    gripper_action,
    gripper_goal,
    joint_trajectory,
    multi_array,
    output_problems,
)

pytestmark = pytest.mark.ros


class StandInAction:
    """Has the goal's fields of ``control_msgs/action/GripperCommand``, and no others."""

    class Goal:
        def __init__(self) -> None:
            self.command = StandInCommand()


class StandInCommand:
    """``control_msgs/msg/GripperCommand``: two numbers."""

    __slots__ = ('max_effort', 'position')


class StandInClient:
    """An action client whose server answers when the test says so."""

    def __init__(self) -> None:
        self.ready = True
        self.goals: list[Any] = []
        self.answers: list[Future[Any]] = []

    def server_is_ready(self) -> bool:
        return self.ready

    def send_goal_async(self, goal: Any) -> Future[Any]:
        self.goals.append(goal)
        self.answers.append(Future())
        return self.answers[-1]


def test_a_trajectory_starts_at_its_arrival_and_holds_positions_only() -> None:
    message = joint_trajectory(
        TrajectoryCommand('arm', ('b', 'a'), (20_000_000, 1_250_000_000), ((1.0, 2.0), (3.0, 4.5)))
    )
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (0, 0)
    assert message.joint_names == ['b', 'a']
    times = [(p.time_from_start.sec, p.time_from_start.nanosec) for p in message.points]
    assert times == [(0, 20_000_000), (1, 250_000_000)]
    assert [list(p.positions) for p in message.points] == [[1.0, 2.0], [3.0, 4.5]]
    for point in message.points:
        assert [*point.velocities, *point.accelerations, *point.effort] == []


def test_a_trajectory_carries_the_controllers_own_names_in_the_order_of_the_joints() -> None:
    robot = make_robot({'arm': {**ARM_TRAJECTORY, 'controller_names': ['waist', 'elbow_flex']}})
    node = StandInNode()
    outputs = Outputs(node, robot)  # type: ignore[arg-type]
    outputs.send(TrajectoryCommand('arm', ('shoulder', 'elbow'), (20_000_000,), ((0.1, 0.2),)))
    (message,) = node.sent
    assert message.joint_names == ['waist', 'elbow_flex']
    assert list(message.points[0].positions) == [0.1, 0.2]


@pytest.mark.parametrize(
    ('topic', 'use'),
    [
        ('joint_states', 'joint states'),
        ('/left/joint_states', 'joint states'),
        ('prompt', 'the prompt'),
        ('robot_description', 'the limits of joints'),
        ('/diagnostics', 'diagnostics'),
        ('wrist/image', "camera 'wrist'"),
        ('light_curtain', 'the interlock'),
        ('~/action_chunk', 'chunks'),
    ],
)
def test_a_topic_of_the_nodes_own_is_refused_before_anything_is_loaded(
    topic: str, use: str
) -> None:
    values = make_robot(
        {'arm': {**ARM_TRAJECTORY, 'topic': topic}}, safety={'interlock_topic': 'light_curtain'}
    ).model_dump(exclude_defaults=True)
    camera = {'topic': 'wrist/image', 'key': 'image'}
    robot = validate(
        RobotConfig, {**values, 'camera_names': ['wrist'], 'cameras': {'wrist': camera}}, 'test'
    )
    (problem,) = output_problems(StandInNode(), robot)  # type: ignore[arg-type]
    assert problem.startswith(f'outputs.arm.topic: {topic!r} is ')
    assert f'which this node itself uses for {use};' in problem


def test_an_array_holds_the_numbers_without_a_layout() -> None:
    message = multi_array(ArrayCommand('arm', (0.25, -1.0)))
    assert list(message.data) == [0.25, -1.0]
    assert message.layout.dim == []


def test_a_goal_holds_position_and_effort() -> None:
    goal = gripper_goal(StandInAction, GripperCommand('hand', 0.04, 20.0))
    assert (goal.command.position, goal.command.max_effort) == (0.04, 20.0)


def test_the_action_is_imported_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    package, action = ModuleType('control_msgs'), ModuleType('control_msgs.action')
    action.GripperCommand = StandInAction  # type: ignore[attr-defined]
    package.action = action  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, 'control_msgs', package)
    monkeypatch.setitem(sys.modules, 'control_msgs.action', action)
    assert gripper_action('hand') is StandInAction


def test_without_control_msgs_the_output_is_named_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, 'control_msgs', None)
    with pytest.raises(ConfigurationError) as refused:
        gripper_action('hand')
    text = str(refused.value)
    for words in (
        'outputs.hand.type: gripper needs the package control_msgs, which cannot be imported',
        'apt install ros-$ROS_DISTRO-control-msgs',
        'leave hand out of output_names',
        'type: array or trajectory with gripper: true',
    ):
        assert words in text


class StandInNode:
    """Names topics as a node in the namespace ``/left`` does, and refuses some as rclpy does."""

    def __init__(self, refuses: str = '') -> None:
        self.refuses = refuses
        self.open: list[str] = []
        self.sent: list[Any] = []

    def resolve_topic_name(self, topic: str) -> str:
        return topic if topic.startswith('/') else f'/left/{topic}'

    def create_publisher(self, kind: type, topic: str, qos: object) -> SimpleNamespace:
        if topic == self.refuses:
            raise RuntimeError('existing topic name with incompatible type')
        self.open.append(topic)
        return SimpleNamespace(topic=topic, publish=self.sent.append)

    def destroy_publisher(self, publisher: SimpleNamespace) -> None:
        self.open.remove(publisher.topic)

    def get_name(self) -> str:
        return 'openpi_policy'

    def get_namespace(self) -> str:
        return '/left'

    def get_publishers_info_by_topic(self, topic: str) -> list[SimpleNamespace]:
        there = [('/left', 'openpi_policy'), ('/', 'move_group'), ('/right', 'openpi_policy')]
        return [
            SimpleNamespace(node_namespace=space, node_name=name)
            for space, name in there
            if topic == '/arm'
        ]


def test_others_that_command_the_same_controller_are_named() -> None:
    shared = Outputs(StandInNode(), make_robot({'arm': {**ARM_ARRAY, 'topic': '/arm'}}))  # type: ignore[arg-type]
    assert shared.rivals() == ['/move_group on /arm', '/right/openpi_policy on /arm']
    alone = Outputs(StandInNode(), make_robot({'arm': {**ARM_ARRAY, 'topic': 'arm'}}))  # type: ignore[arg-type]
    assert alone.rivals() == []


def test_one_topic_written_in_two_ways_is_refused_for_two_outputs() -> None:
    two = {
        'arm': {**ARM_ARRAY, 'joints': ['shoulder'], 'action_indices': [0]},
        'other': {
            **ARM_ARRAY,
            'topic': '/left/arm/commands',
            'joints': ['elbow'],
            'action_indices': [1],
        },
    }
    with pytest.raises(ConfigurationError, match=r'so is that of outputs\.arm'):
        Outputs(StandInNode(), make_robot(two))  # type: ignore[arg-type]


def test_every_output_that_cannot_be_opened_is_told_at_once_and_none_stays_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, 'control_msgs', None)
    robot = make_robot(
        {
            'one': {**ARM_ARRAY, 'joints': ['shoulder'], 'action_indices': [0]},
            'two': {**ARM_ARRAY, 'topic': 'rosout', 'joints': ['elbow'], 'action_indices': [1]},
            'hand': GRIPPER,
        }
    )
    node = StandInNode(refuses='rosout')
    topic, package = output_problems(node, robot)  # type: ignore[arg-type]
    assert topic.startswith("outputs.two.topic: 'rosout' is refused by ROS for the type array: ")
    assert 'incompatible type' in topic
    assert package.startswith('outputs.hand.type: gripper needs the package control_msgs')
    assert node.open == []


def test_outputs_that_can_be_opened_are_no_problem_and_none_stays_open() -> None:
    node = StandInNode()
    assert output_problems(node, make_robot()) == []  # type: ignore[arg-type]
    assert node.open == []


def test_a_goal_goes_to_the_server_and_a_refusal_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = StandInClient()
    goals = GripperGoals('hand', '/gripper/gripper_cmd', StandInAction, client)
    for position in (0.0, 0.8, 0.4):
        goals.send(GripperCommand('hand', position, 5.0))
    assert [goal.command.position for goal in client.goals] == [0.0, 0.8, 0.4]
    client.answers[0].set_result(SimpleNamespace(accepted=True))
    assert caplog.text == ''
    with caplog.at_level(logging.ERROR):
        client.answers[1].set_result(SimpleNamespace(accepted=False))
        client.answers[2].set_exception(OSError('gone'))
    assert "'hand': /gripper/gripper_cmd refused the goal" in caplog.text
    assert 'the goal failed: gone' in caplog.text


def test_without_a_server_a_goal_is_not_taken_for_sent() -> None:
    client = StandInClient()
    client.ready = False
    goals = GripperGoals('hand', '/gripper/gripper_cmd', StandInAction, client)
    with pytest.raises(RuntimeError, match='no action server on /gripper/gripper_cmd'):
        goals.send(GripperCommand('hand', 0.0, 5.0))
    assert client.goals == []
