# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A second node of the same full name is told once, in the log, ``~/status`` and the callback."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip('rclpy')

import rclpy
from diagnostic_msgs.msg import DiagnosticStatus
from node_process import LATCHED, new_domain
from rclpy.executors import SingleThreadedExecutor

from openpi_policy_ros.ros.namesake import NamesakeWatch
from openpi_policy_ros.ros.node import PolicyNode
from openpi_policy_ros.ros.publishers import Status, StatusPublisher

pytestmark = pytest.mark.ros

PATIENCE = 20.0


@pytest.fixture
def context(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv('ROS_LOG_DIR', str(tmp_path))
    made = rclpy.Context()
    rclpy.init(context=made, domain_id=new_domain())
    yield made
    rclpy.shutdown(context=made)


def look_until(watch: NamesakeWatch, alarms: list[str], count: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while len(alarms) < count:
        assert time.monotonic() < deadline, alarms
        watch.look()
        time.sleep(0.02)
    # Said once, however often it is looked.
    for _ in range(3):
        watch.look()
    assert len(alarms) == count


def test_another_node_of_the_name_is_told_when_it_comes_and_when_it_is_gone(
    context: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, 'openpi_policy_ros')
    node = rclpy.create_node('openpi_policy', context=context, namespace='/left')
    elsewhere = rclpy.create_node('openpi_policy', context=context, namespace='/right')
    alarms: list[str] = []
    watch = NamesakeWatch(node, alarms.append)
    watch.look()
    assert alarms == []
    for _ in range(2):
        alarms.clear()
        caplog.clear()
        twin = rclpy.create_node('openpi_policy', context=context, namespace='/left')
        look_until(watch, alarms, 1)
        assert 'another node is named /left/openpi_policy too' in alarms[0]
        twin.destroy_node()
        look_until(watch, alarms, 2)
        assert alarms[1] == ''
        assert [record.levelname for record in caplog.records] == ['ERROR', 'INFO']
        assert 'stays listed for about 20 s' in caplog.text
    elsewhere.destroy_node()
    node.destroy_node()


def test_the_node_says_so_in_its_status(context: Any) -> None:
    node = PolicyNode(context=context)
    twin = rclpy.create_node('openpi_policy', context=context)
    heard: list[DiagnosticStatus] = []
    twin.create_subscription(DiagnosticStatus, '~/status', heard.append, LATCHED)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    executor.add_node(twin)
    deadline = time.monotonic() + PATIENCE
    while not any('is named /openpi_policy too' in one.message for one in heard):
        assert time.monotonic() < deadline, heard
        executor.spin_once(timeout_sec=0.1)
    assert heard[-1].level == DiagnosticStatus.ERROR
    executor.shutdown()
    twin.destroy_node()
    node.destroy_node()


def test_the_status_says_so_until_it_is_over(context: Any) -> None:
    node = rclpy.create_node('openpi_policy', context=context)
    publisher = StatusPublisher(node, lambda status: None)
    publisher.show(Status('READY'))
    publisher.alarm('another node')
    newest = publisher.newest()
    assert newest is not None
    assert (newest.level, newest.message) == (DiagnosticStatus.ERROR, 'READY; another node')
    publisher.show(Status('HOLD', 'S2'))
    newest = publisher.newest()
    assert newest is not None
    assert newest.message == 'HOLD: S2; another node'
    publisher.alarm('')
    newest = publisher.newest()
    assert newest is not None
    assert (newest.level, newest.message) == (DiagnosticStatus.OK, 'HOLD: S2')
    node.destroy_node()
