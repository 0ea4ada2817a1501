# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the real node says on /diagnostics, of a robot, without one, and of two at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('rclpy')

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from light_robot import ARM, HAND, ROBOT, Robot, robot_with
from node_process import (
    NodeProcess,
    Peer,
    install_digest_policy,
    new_domain,
    peer_of,
    start_node,
)
from serving import TIMEOUT
from websockets.sync.client import connect

from openpi_policy_ros.wire import Dialect

pytestmark = pytest.mark.ros

OK, WARN, ERROR, STALE = (
    DiagnosticStatus.OK,
    DiagnosticStatus.WARN,
    DiagnosticStatus.ERROR,
    DiagnosticStatus.STALE,
)
NODE = '/openpi_policy'
PARTS = ['status', 'camera one', 'camera two', 'joint states', 'inference', 'actuation', 'server']


class Monitor:
    """Hears /diagnostics."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        peer.listen('/diagnostics', DiagnosticArray)

    def arrays(self, node: str = NODE) -> list[dict[str, DiagnosticStatus]]:
        """Return every message of a node so far: part → status."""
        prefix = f'{node}: '
        arrays = [
            {one.name.removeprefix(prefix): one for one in array.status}
            for array in self.peer.heard('/diagnostics')
            if array.status[0].name.startswith(prefix)
        ]
        return arrays

    def of(self, part: str) -> list[DiagnosticStatus]:
        """Return every status of a part so far."""
        return [array[part] for array in self.arrays() if part in array]

    def until(
        self, what: str, part: str, condition: Callable[[DiagnosticStatus], object]
    ) -> DiagnosticStatus:
        """Block until the newest status of a part is so; return it."""

        def found() -> DiagnosticStatus | None:
            said = self.of(part)
            return said[-1] if said and condition(said[-1]) else None

        return self.peer.wait_until(what, found)

    def until_parts(self, *parts: str) -> dict[str, DiagnosticStatus]:
        """Block until the newest message has these parts and no others; return it."""

        def found() -> dict[str, DiagnosticStatus] | None:
            arrays = self.arrays()
            return arrays[-1] if arrays and list(arrays[-1]) == list(parts) else None

        return self.peer.wait_until(f'only {", ".join(parts)}', found)


def values(status: DiagnosticStatus) -> dict[str, str]:
    return {pair.key: pair.value for pair in status.values}


def levels(statuses: list[DiagnosticStatus]) -> list[bytes]:
    """Return the levels in turn, each run of equal ones once."""
    found = [one.level for one in statuses]
    return [one for i, one in enumerate(found) if i == 0 or found[i - 1] != one]


@contextlib.contextmanager
def watched(
    scratch: Path, changes: dict[str, Any] | None = None, **parameters: Any
) -> Iterator[tuple[Robot, Monitor]]:
    with robot_with(scratch, changes, **parameters) as robot:
        yield robot, Monitor(robot.peer)


# Levels that follow each other at least one message apart.
LIMITS = {
    'age_warn': 1.0,
    'age_error': 3.0,
    'stale_after': 5.0,
    # What a busy machine makes of the rate is no matter here.
    'camera_rate_warn': 0.1,
    'camera_rate_error': 0.1,
}


def test_a_camera_that_stops_is_told_of_in_steps_and_thresholds_may_be_set_meanwhile(
    tmp_path: Path,
) -> None:
    safety = {**ROBOT['safety'], 'stale_hold': 50.0, 'max_wait': 50.0}
    with watched(tmp_path, {'diagnostics': LIMITS, 'safety': safety}) as (robot, monitor):
        well = monitor.until(
            'measured', 'camera one', lambda one: values(one)['rate_hz'] and one.level == OK
        )
        said = values(well)
        assert 1.0 < float(said['rate_hz']) < 60.0
        assert float(said['age_s']) < 1.0
        assert (said['encoding'], said['width_px'], said['height_px']) == ('rgb8', '50', '40')
        assert (said['topic'], well.hardware_id) == ('/one/image_raw', '/one/image_raw')
        assert (said['refused'], said['lost']) == ('0', '0')
        newest = monitor.arrays()[-1]
        assert list(newest) == PARTS
        assert newest['status'].message == robot.peer.heard('openpi_policy/status')[-1].message
        assert values(newest['joint states'])['missing'] == ''

        robot.blind.add('one')
        gone = monitor.until('stale', 'camera one', lambda one: one.level == STALE)
        assert '/one/image_raw' in gone.message
        statuses = monitor.of('camera one')
        after = statuses[statuses.index(well) :]
        assert levels(after) == [OK, WARN, ERROR, STALE]
        assert float(values(gone)['age_s']) > 5.0
        # Its neighbour is as it was.
        assert {one.level for one in monitor.of('camera two')[-3:]} == {OK}

        assert robot.peer.set_parameter('diagnostics.stale_after', 3000.0).successful
        monitor.until('an error', 'camera one', lambda one: one.level == ERROR)
        refused = robot.peer.set_parameter('diagnostics.age_warn', 9.0)
        assert not refused.successful
        assert 'age_error is 3 and age_warn 9' in refused.reason
        assert robot.peer.set_parameter('diagnostics.age_error', 1000.0).successful
        assert robot.peer.set_parameter('diagnostics.age_warn', 999.0).successful
        assert robot.peer.set_parameter('diagnostics.camera_rate_error', 0.0).successful
        assert robot.peer.set_parameter('diagnostics.camera_rate_warn', 0.0).successful
        monitor.until('nothing to say', 'camera one', lambda one: one.level == OK)
        assert robot.peer.set_parameter('diagnostics.camera_rate_warn', 1.0).successful
        assert robot.peer.set_parameter('diagnostics.camera_rate', 500.0).successful
        slow = monitor.until('slow', 'camera two', lambda one: one.level == WARN)
        assert 'images per second, expected 500' in slow.message


def test_the_robot_is_followed_from_enabling_to_a_hold_and_clients_are_counted(
    tmp_path: Path,
) -> None:
    with watched(tmp_path) as (robot, monitor):
        robot.wait_for('READY')
        ready = monitor.until('ready', 'actuation', lambda one: one.message == 'not enabled')
        assert (ready.level, ready.hardware_id) == (OK, f'/{ARM},/{HAND}')
        count = len(robot.peer.heard('openpi_policy/status'))
        robot.drive()
        since = robot.peer.heard('openpi_policy/status')[count:]
        assert [one.message for one in since if 'no image' in one.message] == []
        assert float(robot.peer.status()['latency_p95_ms']) > 0.0
        assert robot.peer.status()['short_supply'].isdigit()
        driven = monitor.until('driven', 'actuation', lambda one: int(values(one)['driven']) > 10)
        assert (driven.level, values(driven)['state']) == (OK, 'ENABLED')
        inference = monitor.until(
            'a rate', 'inference', lambda one: float(values(one)['rate_hz'] or 0) > 0.0
        )
        assert inference.level == OK
        said = values(inference)
        assert float(said['p50_ms']) <= float(said['p95_ms']) <= float(said['max_ms'])
        # 4 actions at 15 Hz.
        assert said['latency_budget_ms'] == '266.7'

        server = robot.peer.status()['server']
        monitor.until('nobody', 'server', lambda one: values(one)['clients'] == '0')
        with connect(f'ws://{server}{Dialect.OPENPI.value}') as socket:
            socket.recv(timeout=TIMEOUT)
            one = monitor.until('a client', 'server', lambda one: values(one)['clients'] == '1')
            assert (one.message, one.hardware_id, one.level) == ('listening, 1 client', server, OK)
        gone = monitor.until('left', 'server', lambda one: values(one)['clients'] == '0')
        assert values(gone)['connections'] == '1'

        assert robot.enable(False)[0]
        robot.drive()
        robot.blind.add('one')
        hold = monitor.until('hold', 'actuation', lambda one: 'HOLD: S2: ' in one.message)
        assert hold.level == ERROR
        assert values(hold)['gate'] == 'S2'
        assert monitor.arrays()[-1]['status'].level == ERROR


def test_only_what_is_there_is_told_of_and_what_is_inactive_is_no_error(tmp_path: Path) -> None:
    with watched(tmp_path, autostart=False) as (robot, monitor):
        peer = robot.peer
        robot.blind.update(('one', 'two'))
        unconfigured = monitor.until_parts('status')['status']
        assert (unconfigured.level, unconfigured.message) == (OK, 'INIT: unconfigured')
        assert unconfigured.hardware_id == NODE
        assert peer.transition('configure')
        parts = monitor.until_parts(*PARTS)
        assert {one.level for one in parts.values()} == {OK}
        assert parts['camera one'].message.startswith('inactive; no image on /one/image_raw yet')
        assert parts['actuation'].message == 'inactive'
        assert parts['server'].message == 'listening, 0 clients'
        assert peer.transition('activate')
        monitor.until('stale', 'camera one', lambda one: one.level == STALE)
        assert peer.transition('deactivate')
        monitor.until('inactive', 'camera one', lambda one: one.level == OK)
        assert peer.transition('cleanup')
        monitor.until_parts('status')
        assert peer.transition('shutdown')
        done = monitor.until('finalized', 'status', lambda one: 'finalized' in one.message)
        assert done.level == OK
        monitor.until_parts('status')


@contextlib.contextmanager
def two_nodes(scratch: Path) -> Iterator[tuple[Peer, list[NodeProcess]]]:
    """Start a robot's node in /left, and a server's in /right whose clock stands still."""
    (scratch / 'policy').mkdir()
    policy, python_path = install_digest_policy(scratch / 'policy')
    domain = new_domain()
    common = {'model': 'digest', 'policy': str(policy), 'port': 0}
    processes = []
    try:
        for name, robot, extra in (
            ('left', ROBOT, []),
            ('right', None, ['-p', 'use_sim_time:=true']),
        ):
            (scratch / name).mkdir()
            processes.append(
                start_node(
                    scratch / name,
                    domain,
                    common,
                    '-r',
                    f'__ns:=/{name}',
                    *extra,
                    python_path=python_path,
                    robot=robot,
                )
            )
        with peer_of(domain) as peer:
            yield peer, processes
    finally:
        for process in processes:
            process.kill()


def test_two_robots_do_not_collide_and_a_clock_that_stands_still_stops_nothing(
    tmp_path: Path,
) -> None:
    with two_nodes(tmp_path) as (peer, _):
        monitor = Monitor(peer)

        def newest(namespace: str, part: str) -> DiagnosticStatus | None:
            arrays = monitor.arrays(f'/{namespace}{NODE}')
            return arrays[-1].get(part) if arrays else None

        left, right = peer.wait_until(
            'both servers',
            lambda: all(found := [newest(name, 'server') for name in ('left', 'right')]) and found,
        )
        assert left.name != right.name
        assert left.hardware_id != right.hardware_id
        camera = peer.wait_until('the camera of the left one', lambda: newest('left', 'camera one'))
        assert camera.hardware_id == '/left/one/image_raw'
        # No robot, no stream of one.
        arrays = monitor.arrays(f'/right{NODE}')
        assert list(arrays[-1]) == ['status', 'inference', 'server']
        peer.wait_until('more', lambda: len(monitor.arrays(f'/right{NODE}')) > len(arrays) + 1)
