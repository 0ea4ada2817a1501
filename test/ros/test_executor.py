# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The node's executor: messages at once, services beside them, and sleep in between."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('rclpy')

import rclpy
from node_process import BEST_EFFORT, HERE, WAIT, environment, new_domain
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from sensor_msgs.msg import Image
from std_msgs.msg import String
from std_srvs.srv import Trigger

from openpi_policy_ros.ros.executor import NodeExecutor

pytestmark = pytest.mark.ros


class Bench:
    """A node on an executor that the test spins."""

    def __init__(self) -> None:
        self.domain = new_domain()
        self.context = rclpy.Context()
        rclpy.init(context=self.context, domain_id=self.domain)
        self.node = rclpy.create_node('bench', context=self.context)
        self.executor = NodeExecutor(2, context=self.context)
        self.executor.add_node(self.node)
        self.spins = 0

    def serve(self, name: str, answer: Callable[[], None]) -> Any:
        def callback(request: Any, response: Any) -> Any:
            answer()
            return response

        self.node.create_service(
            Trigger, name, callback, callback_group=MutuallyExclusiveCallbackGroup()
        )
        return self.node.create_client(
            Trigger, name, callback_group=MutuallyExclusiveCallbackGroup()
        )

    def call(self, client: Any) -> Any:
        self.until(client.service_is_ready)
        return client.call_async(Trigger.Request())

    def until(self, condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + WAIT
        while not condition():
            assert time.monotonic() < deadline, 'did not happen'
            self.executor.spin_once(timeout_sec=0.1)
            self.spins += 1


@pytest.fixture
def bench() -> Iterator[Bench]:
    one = Bench()
    yield one
    one.executor.shutdown()
    one.node.destroy_node()
    rclpy.shutdown(context=one.context)


def test_messages_and_other_services_go_on_while_one_takes_long(bench: Bench) -> None:
    end, threads = threading.Event(), []
    slow = bench.serve('slow', lambda: (threads.append('slow'), end.wait(WAIT))[0])
    quick = bench.serve('quick', lambda: threads.append(threading.current_thread().name))
    heard: list[str] = []

    def take(message: String) -> None:
        heard.append(message.data)
        threads.append(threading.current_thread().name)

    bench.node.create_subscription(String, 'text', take, 10)
    publisher = bench.node.create_publisher(String, 'text', 10)
    try:
        answer = bench.call(slow)
        bench.until(lambda: threads == ['slow'])
        bench.until(publisher.get_subscription_count)
        publisher.publish(String(data='hello'))
        bench.until(lambda: heard == ['hello'])
        assert threads[1] == threading.current_thread().name
        bench.until(bench.call(quick).done)
        assert threads[2].startswith('ros-service')
        assert not answer.done()
    finally:
        end.set()
    bench.until(answer.done)


def test_what_a_callback_or_a_service_raises_is_raised_once(bench: Bench) -> None:
    def fail() -> None:
        raise LookupError('of the service')

    def take(message: String) -> None:
        raise LookupError(message.data)

    bench.node.create_subscription(String, 'text', take, 10)
    publisher = bench.node.create_publisher(String, 'text', 10)
    bench.until(publisher.get_subscription_count)
    publisher.publish(String(data='of the topic'))
    with pytest.raises(LookupError, match='of the topic'):
        bench.until(lambda: False)
    client = bench.serve('failing', fail)
    bench.call(client)
    with pytest.raises(LookupError, match='of the service'):
        bench.until(lambda: False)
    for _ in range(3):
        bench.executor.spin_once(timeout_sec=0.05)


def test_big_images_are_taken_without_spinning_for_each(bench: Bench, tmp_path: Path) -> None:
    images: list[int] = []
    bench.node.create_subscription(
        Image, 'image', lambda message: images.append(len(message.data)), BEST_EFFORT
    )
    sender = subprocess.Popen(
        [sys.executable, str(HERE / 'image_traffic.py'), 'send', 'image', '40'],
        env=environment(bench.domain, tmp_path),
    )
    try:
        bench.until(lambda: images)
        bench.spins = 0
        bench.until(lambda: sender.poll() is not None)
    finally:
        sender.terminate()
        sender.wait(WAIT)
    assert len(images) > 5
    # Two or three wake-ups an image; rclpy's executor of many threads needs dozens.
    assert bench.spins < 8 * len(images) + 50


def test_a_subscription_that_goes_away_while_it_is_waited_for_is_no_failure(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = bench
    heard: list[Any] = []
    doomed = one.node.create_subscription(String, 'doomed', heard.append, 1)
    kept = one.node.create_subscription(String, 'kept', heard.append, 1)
    publisher = one.node.create_publisher(String, 'kept', 1)
    waiting = one.executor.wait_for_ready_callbacks

    def destroyed_meanwhile(*args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        doomed.handle.destroy_when_not_in_use()
        with doomed.handle:
            raise AssertionError('the handle is still valid')

    monkeypatch.setattr(one.executor, 'wait_for_ready_callbacks', destroyed_meanwhile)
    one.executor.spin_once(timeout_sec=0.1)
    assert one.executor.wait_for_ready_callbacks == waiting
    one.node.destroy_subscription(doomed)
    publisher.publish(String(data='still here'))
    deadline = time.monotonic() + WAIT
    while not heard:
        assert time.monotonic() < deadline
        one.executor.spin_once(timeout_sec=0.1)
    assert heard[0].data == 'still here'
    assert kept is not None
