# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Read every part of a configured node once a second, for its judgement in ``control.health``."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Protocol

from openpi_policy_ros.configuration.diagnostics import Diagnostics
from openpi_policy_ros.control.controller import Counters
from openpi_policy_ros.control.health import Health, Level, inactive
from openpi_policy_ros.control.health_streams import (
    CameraFacts,
    JointFacts,
    Lately,
    camera_health,
    joint_health,
)
from openpi_policy_ros.control.health_work import (
    ActuationFacts,
    InferenceFacts,
    RecordingFacts,
    ServerFacts,
    Spread,
    Supply,
    actuation_health,
    inference_health,
    recording_health,
    server_health,
)
from openpi_policy_ros.control.observation import StreamCounts
from openpi_policy_ros.control.window import MINUTE, CounterWindow
from openpi_policy_ros.engine import Engine, EngineStats, Timing
from openpi_policy_ros.ros.actuation_side import ActuationSide
from openpi_policy_ros.ros.robot_side import RobotSide
from openpi_policy_ros.ros.settings import NodeConfig
from openpi_policy_ros.server import ServerStats, ServerThread

_log = logging.getLogger('openpi_policy_ros.ros.diagnostics')

_REPEAT = 60.0
"""Least seconds between two log lines about one part that cannot be read."""


class RecorderStats(Protocol):
    """What a recorder counts."""

    @property
    def written(self) -> int:
        """Return how many messages were written."""

    @property
    def dropped(self) -> int:
        """Return how many could not be written in time."""

    @property
    def bytes(self) -> int:
        """Return how many bytes were written."""

    @property
    def waiting(self) -> int:
        """Return how many bytes wait to be written."""

    @property
    def stopped(self) -> str:
        """Return why nothing is recorded any more, '' = it is."""


class Recorder(Protocol):
    """What is known here of the recorder."""

    @property
    def stats(self) -> RecorderStats:
        """Return its counts."""


@dataclass(frozen=True)
class Part:
    """One status.

    Attributes:
        name: without the node's.
        hardware_id: what it is about: a topic, a device, an address.
        health: its judgement.

    """

    name: str
    hardware_id: str
    health: Health


class Vitals:
    """The parts of one configured node; call ``parts`` once a second, from one thread.

    Args:
        config: the node's.
        engine: its engine.
        server: its server.
        address: of the server, host:port.
        robot: its robot's side; None = server only.
        resolve: returns the full name of a topic.
        active: returns whether the node is active.
        recorder: None = nothing is recorded.
        clock: monotonic seconds.

    """

    def __init__(
        self,
        config: NodeConfig,
        engine: Engine,
        server: ServerThread,
        *,
        address: str,
        robot: RobotSide | None,
        resolve: Callable[[str], str],
        active: Callable[[], bool],
        recorder: Recorder | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._engine = engine
        self._server = server
        self._address = address
        self._robot = robot
        self._resolve = resolve
        self._active = active
        self._recorder = recorder
        self._clock = clock
        self._window = CounterWindow()
        self._told: dict[str, float] = {}
        self._look()

    def tune(self, config: NodeConfig) -> None:
        """Judge by other settings from now on. Any thread."""
        self._config = config

    def parts(self) -> list[Part]:
        """Return the status of every part; one that cannot be read says so."""
        seen = self._look()
        limits = self._config.diagnostics
        return [
            Part(name, hardware, self._safely(name, make))
            for name, hardware, make in self._makers(seen, limits)
        ]

    def _look(self) -> _Seen:
        """Read all counters at one moment."""
        robot = self._robot
        seen = _Seen(
            self._engine.stats(),
            self._server.stats(),
            None if robot is None else robot.assembler.counts(),
            {
                name: 0 if robot is None else robot.sensors.lost(name)
                for name in self._config.camera_names
            },
        )
        counters = {
            'engine/succeeded': seen.engine.succeeded,
            **{f'server/{name}': count for name, count in _counts(seen.server).items()},
        }
        if seen.streams is not None:
            streams = (
                *((f'camera {name}', one) for name, one in seen.streams.cameras.items()),
                *((f'joint {name}', one) for name, one in seen.streams.joints.items()),
            )
            for name, one in streams:
                counters[f'{name}/received'] = one.received
                counters[f'{name}/refused'] = one.refused
                counters[f'{name}/usable'] = one.received - one.refused
            counters |= {f'camera {name}/lost': count for name, count in seen.lost.items()}
        if robot is not None:
            counters['door/short_supply'] = robot.door.stats.short_supply
            if robot.actuation is not None:
                tick, counters['actuation/driven'] = robot.actuation.actuation.account()
                for name, count in asdict(tick.counters).items():
                    counters[f'actuation/{name}'] = count
        if self._recorder is not None:
            counters['recording/written'] = self._recorder.stats.written
            counters['recording/dropped'] = self._recorder.stats.dropped
        self._window.add(self._clock(), counters)
        return seen

    def _makers(
        self, seen: _Seen, limits: Diagnostics
    ) -> Iterator[tuple[str, str, Callable[[], Health]]]:
        config, active, robot = self._config, self._active(), self._robot

        def expected(health: Health) -> Health:
            return health if active else inactive(health)

        if robot is not None and seen.streams is not None:
            streams = seen.streams
            for name in config.camera_names:
                topic = self._resolve(config.cameras[name].topic)
                yield (
                    f'camera {name}',
                    topic,
                    lambda name=name, topic=topic: expected(  # type: ignore[misc]
                        camera_health(self._camera(name, topic, streams, seen, limits), limits)
                    ),
                )
            if streams.joints:
                topic = ','.join(self._resolve(one) for one, _ in config.joints.topics())
                yield (
                    'joint states',
                    topic,
                    lambda topic=topic: expected(  # type: ignore[misc]
                        joint_health(self._joints(topic, streams, limits), limits)
                    ),
                )
        yield (
            'inference',
            f'{platform.node()}:{config.device}',
            lambda: inference_health(self._inference(seen, limits, active), limits),
        )
        if robot is not None and robot.actuation is not None:
            side = robot.actuation
            yield (
                'actuation',
                ','.join(self._resolve(config.outputs[name].topic) for name in config.output_names),
                lambda: expected(actuation_health(self._actuation(side, limits), limits)),
            )
        yield 'server', self._address, lambda: server_health(self._serving(seen, limits), limits)
        if self._recorder is not None:
            stats = self._recorder.stats
            yield (
                'recording',
                platform.node(),
                lambda: recording_health(self._recording(stats, limits), limits),
            )

    def _camera(
        self, name: str, topic: str, streams: StreamCounts, seen: _Seen, limits: Diagnostics
    ) -> CameraFacts:
        config, prefix = self._config, f'camera {name}'
        return CameraFacts(
            topic=topic,
            max_age=config.cameras[name].max_age or config.timing.camera_max_age,
            expected_rate=limits.camera_rate or config.timing.action_rate or 0.0,
            count=streams.cameras[name],
            lost=seen.lost[name],
            rate=self._rate(f'{prefix}/usable', limits),
            lately=self._lately((prefix,), limits),
            picture=streams.pictures.get(name),
        )

    def _joints(self, topic: str, streams: StreamCounts, limits: Diagnostics) -> JointFacts:
        config = self._config
        return JointFacts(
            topic=topic,
            max_age=config.timing.joint_max_age,
            expected_rate=limits.joint_rate or config.timing.action_rate or 0.0,
            counts=streams.joints,
            rates={name: self._rate(f'joint {name}/usable', limits) for name in streams.joints},
            lately=self._lately(tuple(f'joint {name}' for name in streams.joints), limits),
        )

    def _inference(self, seen: _Seen, limits: Diagnostics, active: bool) -> InferenceFacts:
        health, stats = self._engine.health(), seen.engine
        return InferenceFacts(
            not_ready='' if health.ready else health.reason,
            busy_for=health.busy_for,
            timing=_spread(stats.latency),
            rate=self._rate('engine/succeeded', limits),
            counts={
                'succeeded': stats.succeeded,
                'failures': stats.failures,
                'consecutive_failures': stats.consecutive_failures,
                'invalid_observations': stats.invalid_observations,
                'superseded': stats.superseded,
                'waiting': stats.waiting,
            },
            supply=None if self._robot is None else self._supply(self._robot),
            active=active,
        )

    def _supply(self, robot: RobotSide) -> Supply:
        config, stats = self._config, robot.door.stats
        rate = config.timing.action_rate
        budget = None if rate is None else robot.spec.horizon / rate
        if config.execution.mode == 'open_loop':
            budget = config.safety.max_wait
        side = robot.actuation
        counters = Counters() if side is None else side.actuation.account()[0].counters
        return Supply(
            latency=stats.latency,
            budget=budget,
            short_supply=stats.short_supply,
            starved=counters.starved,
            short_supply_lately=self._window.gained('door/short_supply', MINUTE),
            starved_lately=self._window.gained('actuation/starved', MINUTE),
        )

    def _actuation(self, side: ActuationSide, limits: Diagnostics) -> ActuationFacts:
        tick, driven = side.actuation.account()
        return ActuationFacts(
            state=tick.state,
            reason=tick.reason,
            counters=tick.counters,
            driven=driven,
            driven_lately=self._window.gained('actuation/driven', limits.window),
            lately={
                name: self._window.gained(f'actuation/{name}', limits.window)
                for name in asdict(tick.counters)
            },
        )

    def _serving(self, seen: _Seen, limits: Diagnostics) -> ServerFacts:
        stats = seen.server
        counts = _counts(stats)
        return ServerFacts(
            running=self._server.running,
            clients=stats.clients,
            max_clients=self._config.max_connections,
            counts=counts,
            rate=self._rate('server/requests', limits),
            lately={name: self._window.gained(f'server/{name}', MINUTE) for name in counts},
            decode=_spread(stats.stages.get('decode', Timing())),
            encode=_spread(stats.stages.get('encode', Timing())),
        )

    def _recording(self, stats: RecorderStats, limits: Diagnostics) -> RecordingFacts:
        return RecordingFacts(
            written=stats.written,
            dropped=stats.dropped,
            size=stats.bytes,
            written_lately=self._window.gained('recording/written', limits.window),
            dropped_lately=self._window.gained('recording/dropped', limits.window),
            waiting=stats.waiting,
            trouble=stats.stopped,
        )

    def _rate(self, name: str, limits: Diagnostics) -> float | None:
        rate = self._window.rate(name, limits.window)
        # An image that turns out unreadable is taken back from those that were usable.
        return None if rate is None else max(rate, 0.0)

    def _lately(self, prefixes: tuple[str, ...], limits: Diagnostics) -> Lately:
        def gained(what: str) -> int:
            return sum(self._window.gained(f'{one}/{what}', limits.window) for one in prefixes)

        return Lately(gained('received'), gained('refused'), gained('lost'))

    def _safely(self, name: str, make: Callable[[], Health]) -> Health:
        """Return a part's health; one that cannot be read does not silence the others."""
        try:
            return make()
        except Exception as error:
            now = self._clock()
            if now - self._told.get(name, now - _REPEAT) >= _REPEAT:
                self._told[name] = now
                _log.exception('diagnostics: %s cannot be read', name)
            text = f'cannot be read: {type(error).__name__}: {error}; please report this'
            return Health(Level.ERROR, text, {})


@dataclass(frozen=True)
class _Seen:
    engine: EngineStats
    server: ServerStats
    streams: StreamCounts | None
    lost: dict[str, int]


def _counts(stats: ServerStats) -> dict[str, int]:
    return {
        'connections': stats.connections,
        'requests': stats.requests,
        'failures': stats.failures,
        'rejected': stats.rejected,
        'invalid_payloads': stats.invalid_payloads,
    }


def _spread(timing: Timing) -> Spread | None:
    if not timing.count:
        return None
    return Spread(timing.last, timing.p50, timing.p95, timing.max)
