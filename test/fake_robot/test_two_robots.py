# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Two robots on one machine and in one ROS domain: two nodes in two namespaces, driven at once."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import pytest

pytest.importorskip('rclpy')

from arm import CLOSED, OPEN
from diagnostic_msgs.msg import DiagnosticArray
from node_process import RELIABLE, new_domain
from scene import Scene

pytestmark = pytest.mark.ros

DIAGNOSTICS = '/diagnostics'
SIDES = ('left', 'right')


@pytest.fixture(scope='module')
def robots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, Scene]]:
    domain = new_domain()
    with contextlib.ExitStack() as stack:
        made = []
        for name in SIDES:
            scratch = tmp_path_factory.mktemp(name)
            act = Scene(scratch, domain=domain, namespace=name)
            stack.callback(act.close)
            act.robot.peer.listen(DIAGNOSTICS, DiagnosticArray, RELIABLE)
            made.append(act)
        for act in made:
            act.start()
        yield made[0], made[1]


def moves(act: Scene, by: float = 0.02) -> None:
    before = act.robot.positions()['shoulder']
    act.robot.wait_until(
        'the robot moves', lambda: abs(act.robot.positions()['shoulder'] - before) > by
    )


def port(act: Scene) -> int:
    found = re.search(r'listening on ws://127\.0\.0\.1:(\d+)', act.node.text())
    assert found, act.node.text()
    return int(found[1])


def test_two_robots_are_driven_at_once_and_never_by_each_others_commands(
    robots: tuple[Scene, Scene],
) -> None:
    left, right = robots
    assert port(left) != port(right)

    # One is enabled: the other hears nothing and stays.
    stood = right.robot.positions()
    left.drive('sine gripper=0.9')
    moves(left)
    assert [one for one in right.robot.records() if one.kind == 'command'] == []
    assert right.robot.positions() == stood
    assert right.robot.said().state == 'READY'

    # Both are: each does what it was told itself, also where the two differ.
    right.drive('sine gripper=0.1')
    moves(right)
    moves(left)
    left.robot.wait_until(
        'the left hand closes', lambda: left.robot.positions()['finger'] == CLOSED
    )
    assert right.robot.positions()['finger'] == OPEN

    # One holds: the other goes on.
    left.robot.hold()
    left.hold('~/hold was called')
    stood = left.robot.positions()
    moves(right)
    assert left.robot.positions() == stood
    assert right.robot.said().state in ('ENABLED', 'WAIT')

    # The judges know what each robot was told, and where it may be.
    for act in robots:
        act.check()


def test_the_diagnostics_of_two_robots_are_told_apart_by_their_names(
    robots: tuple[Scene, Scene],
) -> None:
    left, _ = robots

    def names() -> set[str]:
        arrays = left.robot.peer.heard(DIAGNOSTICS)
        return {status.name for array in arrays for status in array.status}

    def both() -> bool:
        return all(any(name.startswith(f'/{side}/') for name in names()) for side in SIDES)

    left.robot.wait_until('both nodes tell their diagnostics', both)
    assert [name for name in names() if not name.startswith(('/left/', '/right/'))] == []
    told = {side: [name for name in names() if name.startswith(f'/{side}/')] for side in SIDES}
    same = {name.replace('/left/', '/right/') for name in told['left']} & set(told['right'])
    assert same
