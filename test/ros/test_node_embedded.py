# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The node inside somebody's own process and executor, and what it leaves behind where it fails."""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

pytest.importorskip('rclpy')

import rclpy
from light_robot import ROBOT
from node_process import (
    BEST_EFFORT,
    RELIABLE,
    WAIT,
    image_message,
    install_digest_policy,
    new_domain,
    set_stamp,
)
from rclpy.executors import Executor, MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.node import Node
from rclpy.parameter import Parameter
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool, Trigger

from openpi_policy_ros.ros import node as node_module
from openpi_policy_ros.ros import robot_side
from openpi_policy_ros.ros.executor import NodeExecutor
from openpi_policy_ros.ros.node import PolicyNode
from openpi_policy_ros.ros.publishers import Status

pytestmark = pytest.mark.ros

SUCCESS = TransitionCallbackReturn.SUCCESS
FAILURE = TransitionCallbackReturn.FAILURE
ERROR = TransitionCallbackReturn.ERROR
EXECUTORS: list[Callable[..., Executor]] = [
    lambda context: SingleThreadedExecutor(context=context),
    lambda context: MultiThreadedExecutor(2, context=context),
    lambda context: NodeExecutor(4, context=context),
]


@pytest.fixture
def context() -> Iterator[rclpy.Context]:
    made = rclpy.Context()
    rclpy.init(context=made, domain_id=new_domain())
    yield made
    rclpy.shutdown(context=made)


@pytest.fixture
def overrides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Parameter]:
    """Return parameters of a node that can be configured, in this process."""
    policy, _ = install_digest_policy(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    robot = tmp_path / 'robot.yaml'
    robot.write_text(yaml.safe_dump({'/**': {'ros__parameters': copy.deepcopy(ROBOT)}}))
    values = {
        'model': 'digest',
        'policy': str(policy),
        'robot': str(robot),
        'port': 0,
        'default_prompt': 'go',
    }
    return [Parameter(name, value=value) for name, value in values.items()]


class Driver(Node):
    """Another node of the same process: cameras and joints, and an ear for the policy."""

    def __init__(self, context: rclpy.Context) -> None:
        super().__init__('driver', context=context, namespace='left')
        self.chunks = 0
        self._image = self.create_publisher(Image, 'first/image', BEST_EFFORT)
        self._other = self.create_publisher(Image, 'two/image_raw', BEST_EFFORT)
        self._joints = self.create_publisher(JointState, 'joint_states', BEST_EFFORT)
        self.create_timer(1 / 30, self._publish)
        self.create_subscription(
            Float64MultiArray, 'pilot/action_chunk_array', self._count, RELIABLE
        )

    def _count(self, message: Float64MultiArray) -> None:
        self.chunks += 1

    def _publish(self) -> None:
        now = self.get_clock().now().nanoseconds
        image = image_message(np.zeros((48, 64, 3), np.uint8), stamp_ns=now)
        self._image.publish(image)
        self._other.publish(image)
        joints = JointState(name=['shoulder', 'finger'], position=[0.0, 0.0])
        set_stamp(joints, now)
        self._joints.publish(joints)


@contextmanager
def spinning(executor: Executor) -> Iterator[None]:
    going_on = threading.Event()
    going_on.set()

    def spin() -> None:
        while going_on.is_set():
            executor.spin_once(timeout_sec=0.1)

    thread = threading.Thread(target=spin, name='spin')
    thread.start()
    try:
        yield
    finally:
        going_on.clear()
        thread.join(WAIT)
        assert not thread.is_alive()


def wait_until(what: str, condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, f'{what}: did not happen'
        time.sleep(0.01)


def ask(node: Node, kind: type[Any], service: str, request: Any) -> Any:
    client = node.create_client(kind, service)
    assert client.wait_for_service(WAIT)
    future = client.call_async(request)
    wait_until(service, future.done)
    return future.result()


@pytest.mark.parametrize('make', EXECUTORS, ids=['single', 'multi', 'own'])
def test_it_runs_beside_other_nodes_in_their_executor(
    context: rclpy.Context, overrides: list[Parameter], make: Callable[..., Executor]
) -> None:
    policy = PolicyNode(
        context=context,
        namespace='left',
        parameter_overrides=overrides,
        cli_args=[
            '--ros-args',
            *('-r', '__node:=pilot'),
            *('-r', 'one/image_raw:=first/image'),
            *('-p', 'default_prompt:=go on'),
        ],
    )
    driver = Driver(context)
    executor = make(context=context)
    executor.add_node(policy)
    executor.add_node(driver)
    try:
        with spinning(executor):
            assert policy.get_fully_qualified_name() == '/left/pilot'
            assert policy.start_up()
            wait_until('chunks', lambda: driver.chunks > 3)
            answer = ask(driver, SetBool, 'pilot/enable', SetBool.Request(data=True))
            assert (answer.success, answer.message) == (True, 'enabled')
            assert driver.count_publishers('/left/arm_controller/joint_trajectory') == 1
            assert ask(driver, Trigger, 'pilot/hold', Trigger.Request()).message == 'HOLD'
        policy.halt()
        assert policy.shut_down(WAIT)
        executor.remove_node(policy)
        policy.destroy_node()
        # The others go on.
        with spinning(executor):
            wait_until(
                'nobody', lambda: driver.count_publishers('/left/pilot/action_chunk_array') == 0
            )
    finally:
        executor.shutdown()
        driver.destroy_node()
    assert threads() == set()


def test_two_of_them_live_in_one_process(
    context: rclpy.Context, overrides: list[Parameter]
) -> None:
    nodes = [
        PolicyNode('pilot', context=context, namespace=side, parameter_overrides=overrides)
        for side in ('left', 'right')
    ]
    try:
        assert all(node.start_up() for node in nodes)
        names = [node.get_fully_qualified_name() for node in nodes]
        assert names == ['/left/pilot', '/right/pilot']
        assert running() >= {'control', 'robot-door'}
    finally:
        # Without a word before: what is up is taken down.
        for node in nodes:
            node.destroy_node()
    assert threads() == set()


OURS = ('control', 'watchdog', 'robot-door', 'engine', 'server')
_before: set[threading.Thread] = set()


@pytest.fixture(autouse=True)
def _note_the_threads_of_other_tests() -> None:
    _before.clear()
    _before.update(threading.enumerate())


def running() -> set[str]:
    """Return which of the node's threads run now."""
    alive = set(threading.enumerate()) - _before
    return {one.name for one in alive if one.name.startswith(OURS)}


def threads() -> set[str]:
    """Return which of the node's threads run, once those that end have ended."""
    deadline = time.monotonic() + 2.0
    while running() and time.monotonic() < deadline:
        time.sleep(0.01)
    return running()


class Watched:
    """A node without executor, and the last that it said of itself."""

    def __init__(self, context: rclpy.Context, overrides: list[Parameter]) -> None:
        self.node = PolicyNode(context=context, parameter_overrides=overrides)
        self.said: list[Status] = []
        publisher = self.node._status
        show = publisher.show
        publisher.show = lambda status: (self.said.append(status), show(status))  # type: ignore[method-assign,assignment]
        self.before = self.belongings()

    @property
    def state(self) -> str:
        return str(self.node._state_machine.current_state[1])

    @property
    def text(self) -> str:
        return self.said[-1].reason

    def belongings(self) -> tuple[list[str], list[str], int]:
        """Return what the node has on the graph."""
        node = self.node
        return (
            sorted(one.topic_name for one in node.publishers),
            sorted(one.topic_name for one in node.subscriptions),
            len(list(node.timers)),
        )


@pytest.fixture
def watched(context: rclpy.Context, overrides: list[Parameter]) -> Iterator[Watched]:
    made = Watched(context, overrides)
    yield made
    made.node.destroy_node()
    assert threads() == set()


def boom(*_: Any, **__: Any) -> Any:
    raise RuntimeError('boom')


@pytest.mark.parametrize(
    ('where', 'what'),
    [
        (node_module, 'load_policy'),
        (node_module, 'Engine'),
        (node_module, 'RobotSide'),
        (robot_side, 'ChunkPublishers'),
        (robot_side, 'Assembler'),
        (robot_side, 'ActuationSide'),
        (robot_side, 'RobotDoor'),
        (robot_side, 'Sensors'),
        (node_module, 'ServerThread'),
    ],
    ids=lambda one: one if isinstance(one, str) else '',
)
def test_a_configuration_that_fails_half_way_leaves_nothing_behind(
    watched: Watched,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    where: Any,
    what: str,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(where, what, boom)
        assert watched.node.trigger_configure() == FAILURE
    assert watched.state == 'unconfigured'
    assert watched.text == 'configure failed: RuntimeError: boom'
    assert [one.message for one in caplog.records if one.levelno == logging.ERROR] == [
        'configure failed'
    ]
    assert watched.belongings() == watched.before
    assert threads() == set()
    # Parameters are open again, and the next attempt succeeds.
    (result,) = watched.node.set_parameters([Parameter('device', value='cpu')])
    assert result.successful
    assert watched.node.start_up()
    assert watched.state == 'active'


def test_an_activation_that_fails_leaves_the_node_inactive(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert watched.node.trigger_configure() == SUCCESS
    with monkeypatch.context() as patch:
        patch.setattr(robot_side.ActuationSide, 'start', boom)
        assert watched.node.trigger_activate() == FAILURE
    assert watched.state == 'inactive'
    assert watched.text == 'activate failed: RuntimeError: boom'
    assert 'robot-door' not in running()
    assert watched.node.trigger_activate() == SUCCESS


@pytest.mark.parametrize('transition', ['activate', 'deactivate'])
def test_one_that_cannot_be_undone_ends_unconfigured_with_all_taken_down(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, transition: str
) -> None:
    node = watched.node
    assert node.trigger_configure() == SUCCESS
    if transition == 'deactivate':
        assert node.trigger_activate() == SUCCESS
    with monkeypatch.context() as patch:
        patch.setattr(robot_side.RobotDoor, 'start', boom)
        patch.setattr(robot_side.RobotSide, 'stop', boom)
        trigger = getattr(node, f'trigger_{transition}')
        assert trigger() == ERROR
    assert watched.state == 'unconfigured'
    assert watched.text == (f'unconfigured after an error: {transition} failed: RuntimeError: boom')
    assert watched.belongings() == watched.before
    assert threads() == set()
    assert node.start_up()


@pytest.mark.parametrize('transition', ['cleanup', 'shutdown'])
def test_one_part_that_cannot_be_taken_down_does_not_keep_the_others_up(
    watched: Watched,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    transition: str,
) -> None:
    node = watched.node
    close = robot_side.Sensors.close

    def close_and_fail(sensors: robot_side.Sensors) -> None:
        close(sensors)
        boom()

    monkeypatch.setattr(robot_side.Sensors, 'close', close_and_fail)
    assert node.trigger_configure() == SUCCESS
    assert getattr(node, f'trigger_{transition}')() == SUCCESS
    assert watched.state == {'cleanup': 'unconfigured', 'shutdown': 'finalized'}[transition]
    assert 'subscriptions could not be taken down' in caplog.text
    assert watched.belongings() == watched.before
    assert threads() == set()


def test_a_recovery_that_fails_finalizes_the_node_and_says_so(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = watched.node
    assert node.start_up()
    with monkeypatch.context() as patch:
        patch.setattr(node, '_deactivate', boom)
        patch.setattr(node, '_recover', boom)
        assert node.trigger_deactivate() == ERROR
    assert watched.state == 'finalized'
    assert watched.text == 'error failed: RuntimeError: boom'
    assert 'deactivate failed' in caplog.text


def test_once_it_is_to_stop_nothing_starts_any_more(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    node = watched.node
    assert node.trigger_configure() == SUCCESS
    node.halt()
    assert node.trigger_activate() == FAILURE
    assert watched.state == 'inactive'
    assert watched.text == 'activate refused: the node is stopping'
    assert not running() & {'control', 'watchdog', 'robot-door'}
    assert node.trigger_cleanup() == SUCCESS
    assert node.trigger_configure() == FAILURE
    # Nothing is wrong with that.
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


def test_halting_during_an_activation_leaves_no_thread_that_drives(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = watched.node
    assert node.trigger_configure() == SUCCESS
    start = robot_side.RobotSide.start
    begun = threading.Event()

    def start_slowly(side: robot_side.RobotSide) -> None:
        begun.set()
        time.sleep(0.2)
        start(side)

    monkeypatch.setattr(robot_side.RobotSide, 'start', start_slowly)
    activating = threading.Thread(target=node.trigger_activate)
    activating.start()
    assert begun.wait(WAIT)
    node.halt()
    activating.join(WAIT)
    assert not running() & {'control', 'watchdog'}


@pytest.mark.parametrize('told_after', [True, False], ids=['jazzy', 'humble'])
def test_what_is_set_while_it_runs_counts_also_without_a_callback_after_setting(
    context: rclpy.Context, overrides: list[Parameter], told_after: bool
) -> None:
    class Old(PolicyNode):
        """As rclpy was when nobody could be told afterwards."""

        add_post_set_parameters_callback = None

    node = (PolicyNode if told_after else Old)(context=context, parameter_overrides=overrides)
    try:
        assert node.trigger_configure() == SUCCESS
        result = node.set_parameters_atomically(
            [Parameter('seed', value=5), Parameter('safety.velocity_scale', value=0.25)]
        )
        assert result.successful, result.reason
        config = node._parameters_book.config
        assert config is not None
        assert (config.seed, config.safety.velocity_scale) == (5, 0.25)
        assert node._parameters_book.seed() == 5
        assert node._robot is not None
        assert node._robot.config is config
        assert config.robot.endswith('robot.yaml'), 'the others are as they were'
        (result,) = node.set_parameters([Parameter('execution.blend_steps', value=101)])
        assert not result.successful
        assert node._parameters_book.config is config
    finally:
        node.destroy_node()


def test_what_is_set_while_a_model_loads_is_not_lost(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = watched.node
    load = node_module.load_policy

    def load_slowly(*arguments: Any, **options: Any) -> Any:
        result = node.set_parameters_atomically([Parameter('default_prompt', value='later')])
        assert result.successful, result.reason
        return load(*arguments, **options)

    monkeypatch.setattr(node_module, 'load_policy', load_slowly)
    prompts: list[str] = []
    monkeypatch.setattr(node._prompt, 'publish', prompts.append)
    assert node.trigger_configure() == SUCCESS
    assert prompts == ['go', 'later']
