# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How the parts of a node are read: over time, with a recorder, and where one of them fails."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

pytest.importorskip('rclpy')

from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.control.buffers import StreamCount
from openpi_policy_ros.control.health import Level
from openpi_policy_ros.control.images import Picture
from openpi_policy_ros.control.machine import State
from openpi_policy_ros.control.observation import StreamCounts
from openpi_policy_ros.control.tick import Counters, Tick
from openpi_policy_ros.engine import EngineHealth, EngineStats
from openpi_policy_ros.ros.door import DoorStats
from openpi_policy_ros.ros.settings import NodeConfig
from openpi_policy_ros.ros.vitals import Part, Vitals
from openpi_policy_ros.server import ServerStats

pytestmark = pytest.mark.ros


class FakeRobot:
    """A robot's side with one camera, two joints and outputs, whose numbers the test sets."""

    settings: ClassVar[dict[str, Any]] = {
        'camera_names': ['wrist'],
        'cameras': {'wrist': {'topic': 'wrist/image', 'key': 'image', 'max_age': 0.3}},
        'joints': {'names': ['a', 'b'], 'keys': ['state']},
        'timing': {'action_rate': 10.0},
        'output_names': ['arm'],
        'outputs': {
            'arm': {'type': 'array', 'topic': 'arm', 'joints': ['a'], 'action_indices': [0]}
        },
    }

    def __init__(self) -> None:
        self.images = self.torn = self.lost = self.positions = self.driven = 0
        self.counters = Counters()
        self.supply = DoorStats(None, 0)
        self.spec = SimpleNamespace(horizon=5)
        self.assembler = SimpleNamespace(counts=self._counts)
        self.sensors = SimpleNamespace(lost=lambda camera: {'wrist': self.lost}[camera])
        self.actuation = SimpleNamespace(
            actuation=SimpleNamespace(
                account=lambda: (Tick(State.ENABLED, '', (), self.counters), self.driven)
            )
        )

    @property
    def door(self) -> Any:
        return SimpleNamespace(stats=self.supply)

    def _counts(self) -> StreamCounts:
        fresh = 10_000_000
        wrist = StreamCount(self.images, self.torn, fresh if self.images else None, '')
        joint = StreamCount(self.positions, 0, fresh, '')
        return StreamCounts(
            {'wrist': wrist}, {'a': joint, 'b': joint}, {'wrist': Picture('rgb8', 5, 4, 60)}
        )


class Rig:
    """A node whose numbers and clock the test sets."""

    def __init__(
        self, recorder: Any = None, robot: FakeRobot | None = None, **settings: Any
    ) -> None:
        self.seconds = 100.0
        self.stats = EngineStats()
        self.traffic = ServerStats()
        self.engine = SimpleNamespace(
            stats=lambda: self.stats, health=lambda: EngineHealth(True, 'ready', 0.0)
        )
        server = SimpleNamespace(stats=lambda: self.traffic, running=True)
        self.vitals = Vitals(
            self.config(**settings),
            self.engine,  # type: ignore[arg-type]
            server,  # type: ignore[arg-type]
            address='127.0.0.1:8000',
            robot=robot,  # type: ignore[arg-type]
            resolve=lambda topic: f'/{topic}',
            active=lambda: True,
            recorder=recorder,
            clock=lambda: self.seconds,
        )

    @staticmethod
    def config(**settings: Any) -> NodeConfig:
        return validate(NodeConfig, {'model': 'm', **settings}, 'test')

    def look(self) -> dict[str, Part]:
        """Let a second pass."""
        self.seconds += 1.0
        return {part.name: part for part in self.vitals.parts()}


def test_rates_are_those_of_the_window_and_failures_those_of_the_last_minute() -> None:
    rig = Rig()
    for second in range(1, 11):
        rig.stats = EngineStats(succeeded=7 * second)
        rig.traffic = ServerStats(requests=20 * second, failures=20 * second)
        parts = rig.look()
    assert list(parts) == ['inference', 'server']
    assert parts['inference'].health.values['rate_hz'] == '7.00'
    assert parts['inference'].health.values['succeeded'] == '70'
    server = parts['server']
    assert (server.hardware_id, server.health.level) == ('127.0.0.1:8000', Level.ERROR)
    assert server.health.values['request_rate_hz'] == '20.00'
    rig.traffic = ServerStats(requests=1000, failures=200)
    for _ in range(65):
        parts = rig.look()
    # They go on being counted, but they are no news any more.
    assert parts['server'].health.level is Level.OK
    assert parts['server'].health.values['failures'] == '200'
    assert parts['inference'].health.values['rate_hz'] == '0.00'


def test_before_the_first_request_no_duration_is_told() -> None:
    parts = Rig().look()
    for name, key in (('inference', 'p95_ms'), ('server', 'decode_p95_ms')):
        assert parts[name].health.values[key] == ''


def test_other_thresholds_are_used_from_the_next_look_on() -> None:
    rig = Rig()
    rig.stats = EngineStats(consecutive_failures=2, failures=2)
    assert rig.look()['inference'].health.level is Level.WARN
    rig.vitals.tune(rig.config(diagnostics={'failures_error': 1}))
    assert rig.look()['inference'].health.level is Level.ERROR


def test_a_recording_is_told_of_where_there_is_one() -> None:
    stats = SimpleNamespace(written=100, dropped=0, bytes=5000, waiting=20, stopped='')
    rig = Rig(recorder=SimpleNamespace(stats=stats))
    part = rig.look()['recording']
    assert (part.health.level, part.health.message) == (Level.OK, '100 messages')
    assert part.health.values['waiting_bytes'] == '20'
    stats.written, stats.dropped = 200, 100
    part = rig.look()['recording']
    assert part.health.level is Level.ERROR
    assert part.health.values['dropped_share'] == '0.500'
    stats.stopped = 'the disk is full'
    assert 'the disk is full' in rig.look()['recording'].health.message


def test_a_part_that_cannot_be_read_says_so_and_does_not_silence_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, 'openpi_policy_ros')
    rig = Rig()

    def broken() -> EngineHealth:
        raise RuntimeError('no health')

    rig.engine.health = broken
    for _ in range(5):
        parts = rig.look()
    assert parts['inference'].health.level is Level.ERROR
    assert parts['inference'].health.message.startswith('cannot be read: RuntimeError: no health')
    assert parts['server'].health.level is Level.OK
    assert [r.getMessage() for r in caplog.records] == ['diagnostics: inference cannot be read']


def test_everything_of_a_robot_is_counted_over_its_own_time() -> None:
    robot = FakeRobot()
    rig = Rig(robot=robot, **FakeRobot.settings)
    for _ in range(20):
        robot.images += 20
        robot.torn += 5
        robot.lost += 20
        robot.positions += 100
        robot.driven += 50
        robot.counters = Counters(
            chunks=robot.counters.chunks + 3,
            late=robot.counters.late + 1,
            clamped=robot.counters.clamped + 10,
            slowed=robot.counters.slowed + 25,
            starved=robot.counters.starved + 1,
        )
        robot.supply = DoorStats(0.1, robot.supply.short_supply + 2)
        parts = rig.look()
    said = {name: part.health.values for name, part in parts.items()}
    assert list(said) == ['camera wrist', 'joint states', 'inference', 'actuation', 'server']
    camera = said['camera wrist']
    assert (camera['rate_hz'], camera['expected_rate_hz']) == ('15.00', '10.00')
    assert (camera['max_age_s'], camera['encoding']) == ('0.300', 'rgb8')
    assert (camera['refused_share'], camera['lost'], camera['lost_share']) == (
        '0.250',
        '400',
        '0.500',
    )
    assert (said['joint states']['rate_hz'], said['joint states']['joints']) == ('100.00', '2')
    assert (parts['joint states'].hardware_id, parts['actuation'].hardware_id) == (
        '/joint_states',
        '/arm',
    )
    inference = said['inference']
    assert (inference['latency_p95_ms'], inference['latency_budget_ms']) == ('100.0', '500.0')
    # Since the first look, which was before anything happened.
    assert (inference['starved'], inference['starved_last_minute']) == ('20', '20')
    assert (inference['short_supply'], inference['short_supply_last_minute']) == ('40', '40')
    actuation = said['actuation']
    assert (actuation['driven'], actuation['clamped_share']) == ('1000', '0.200')
    assert (actuation['slowed_share'], actuation['rejected_share']) == ('0.500', '0.250')
    for _ in range(61):
        parts = rig.look()
    assert parts['inference'].health.values['starved_last_minute'] == '0'
    assert parts['actuation'].health.values['clamped_share'] == '0.000'


def test_where_the_robot_waits_for_each_chunk_that_may_take_as_long_as_it_may_wait() -> None:
    robot = FakeRobot()
    execution = {'execution': {'mode': 'open_loop'}, 'safety': {'max_wait': 8.0}}
    rig = Rig(robot=robot, **FakeRobot.settings, **execution)
    assert rig.look()['inference'].health.values['latency_budget_ms'] == '8000.0'


def test_an_image_that_turns_out_unreadable_makes_no_rate_negative() -> None:
    robot = FakeRobot()
    rig = Rig(robot=robot, **FakeRobot.settings)
    robot.images = 10
    for _ in range(10):
        rig.look()
    robot.torn = 1
    assert rig.look()['camera wrist'].health.values['rate_hz'] == '0.00'
