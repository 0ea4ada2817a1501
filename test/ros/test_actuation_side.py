# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The wiring of what drives a robot: limits that come while it is enabled count thereafter."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip('rclpy')

from rig import ACTION_RATE, ARM_ARRAY, JOINTS, make_spec
from std_msgs.msg import String

from openpi_policy_ros.control.gates import StreamReport
from openpi_policy_ros.control.machine import State
from openpi_policy_ros.ros.actuation_side import ActuationSide
from openpi_policy_ros.ros.settings import NodeConfig

pytestmark = pytest.mark.ros

JOINT = '<joint name="{}" type="revolute"><limit lower="-1" upper="{}" velocity="2"/></joint>'


class StandInNode:
    """Keeps the callbacks of subscriptions, and takes every message."""

    def __init__(self) -> None:
        self.callbacks: dict[str, Callable[[Any], None]] = {}
        self.publishers: list[Any] = []

    def resolve_topic_name(self, topic: str) -> str:
        return f'/{topic}'

    def get_name(self) -> str:
        return 'openpi_policy'

    def get_namespace(self) -> str:
        return '/'

    def get_publishers_info_by_topic(self, topic: str) -> list[Any]:
        return self.publishers

    def get_clock(self) -> Any:
        return SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=time.time_ns()))

    def create_publisher(self, *_: object) -> Any:
        return SimpleNamespace(publish=lambda message: None, wait_for_all_acked=lambda left: True)

    def create_subscription(
        self, kind: type, topic: str, callback: Callable[[Any], None], *_: object, **__: object
    ) -> str:
        self.callbacks[topic] = callback
        return topic

    def destroy_publisher(self, publisher: object) -> None:
        pass

    def destroy_subscription(self, subscription: str) -> None:
        del self.callbacks[subscription]


class Bench:
    """The side of a robot without limits in its file, enabled and waiting for its first chunk."""

    def __init__(self) -> None:
        self.node = StandInNode()
        config = NodeConfig.model_validate(
            {
                'model': 'rig',
                'joints': {'names': JOINTS, 'keys': ['state']},
                'timing': {'action_rate': ACTION_RATE},
                # What a busy machine takes is no matter here.
                'safety': {'watchdog_periods': 50.0, 'max_wait': 30.0, 'stale_hold': 5.0},
                'output_names': ['arm'],
                'outputs': {'arm': ARM_ARRAY},
            }
        )
        engine = SimpleNamespace(spec=make_spec(), problem=lambda: '')
        self.side = ActuationSide(
            self.node,  # type: ignore[arg-type]
            config,
            engine,  # type: ignore[arg-type]
            streams=StreamReport,
            report=lambda tick: None,
        )
        self.side.start()

    def enable(self, on: bool) -> tuple[bool, str]:
        return self.side.enable(on, self.side.actuation)  # type: ignore[arg-type]

    def describe(self, upper: float) -> None:
        joints = ''.join(JOINT.format(name, upper) for name in ARM_ARRAY['joints'])
        self.node.callbacks['robot_description'](String(data=f'<robot name="r">{joints}</robot>'))


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Return a robot that was enabled, and got a description meanwhile that leaves no room."""
    made = Bench()
    try:
        assert 'no position and no velocity limit' in made.enable(True)[1]
        made.describe(upper=1.0)
        assert made.enable(True) == (True, 'enabled')
        made.describe(upper=-0.99)
        assert made.side.actuation.enabled, made.side.actuation.reason
        yield made
    finally:
        made.side.close()
    assert made.node.callbacks == {}


def test_limits_that_came_while_enabled_count_when_it_is_enabled_after_a_hold(
    bench: Bench,
) -> None:
    bench.side.actuation.hold('test')
    assert bench.side.actuation.state is State.HOLD
    assert 'nothing of its range' not in bench.side.facts['limits']
    done, text = bench.enable(True)
    assert not done
    assert 'nothing of its range' in text


def test_limits_that_came_while_enabled_count_and_are_told_once_it_is_disabled(
    bench: Bench,
) -> None:
    assert 'nothing of its range' not in bench.side.facts['limits']
    assert bench.enable(False) == (True, 'disabled')
    assert 'nothing of its range' in bench.side.facts['limits']


def test_who_else_commands_the_robot_is_told_to_who_enables_it(bench: Bench) -> None:
    bench.enable(False)
    bench.describe(upper=1.0)
    bench.node.publishers = [SimpleNamespace(node_namespace='/', node_name='move_group')]
    done, text = bench.enable(True)
    assert done
    assert text.startswith('enabled; take care, others command this robot too: /move_group on /')
