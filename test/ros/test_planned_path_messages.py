# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Paths as markers: what RViz and Foxglove need to show the newest, and nothing that is over."""

from __future__ import annotations

import queue
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('visualization_msgs.msg')

import visualization_msgs.msg as markers
from diagnostic_msgs.msg import DiagnosticStatus
from rig import make_robot, make_spec
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from openpi_policy_ros.configuration.visual import Visual
from openpi_policy_ros.control.planned_path import TipPath
from openpi_policy_ros.policies.base import ActionChunk
from openpi_policy_ros.ros.planned_path import (
    COLOURS,
    LEVELS,
    NoPath,
    PlannedPath,
    make_planned_path,
    path_messages,
    state_message,
)
from openpi_policy_ros.ros.publishers import Status

pytestmark = pytest.mark.ros

POINTS = np.arange(12.0).reshape(4, 3)
STAMP_NS = 1_700_000_000_123_456_789


def test_each_tip_has_a_line_and_dots_that_replace_those_of_before() -> None:
    paths = [TipPath('arm', 'tool', POINTS), TipPath('', 'finger', POINTS + 1.0)]
    drawn = path_messages(markers, paths, 'left/base', STAMP_NS, 2_500_000_000)
    kinds = [markers.Marker.LINE_STRIP, markers.Marker.SPHERE_LIST]
    assert [one.type for one in drawn] == kinds * 2
    assert [(one.ns, one.id) for one in drawn] == [
        ('arm: tool', 0),
        ('arm: tool', 1),
        ('finger', 0),
        ('finger', 1),
    ]
    for one, path in zip(drawn, [paths[0], paths[0], paths[1], paths[1]], strict=True):
        assert one.action == markers.Marker.ADD
        assert one.header.frame_id == 'left/base'
        assert (one.header.stamp.sec, one.header.stamp.nanosec) == divmod(STAMP_NS, 10**9)
        assert one.frame_locked, 'seen from where the base is now'
        assert (one.lifetime.sec, one.lifetime.nanosec) == (2, 500_000_000)
        assert one.pose.orientation.w == 1.0
        assert one.scale.x > 0.0
        found = [(point.x, point.y, point.z) for point in one.points]
        assert found == [tuple(point) for point in path.points.tolist()]
    assert drawn[1].scale.x == drawn[1].scale.y == drawn[1].scale.z


def test_colours_tell_the_tip_and_fade_along_the_chunk() -> None:
    count = len(COLOURS) + 1
    paths = [TipPath('', f'tip_{i}', POINTS) for i in range(count)]
    drawn = path_messages(markers, paths, 'base', STAMP_NS, 1)[::2]
    hues = [(one.colors[0].r, one.colors[0].g, one.colors[0].b) for one in drawn]
    assert len(set(hues)) == len(COLOURS)
    assert hues[-1] == hues[0]
    for one in drawn:
        alphas = [colour.a for colour in one.colors]
        assert len(alphas) == len(one.points), 'else neither RViz nor Foxglove draws it'
        assert alphas == sorted(set(alphas), reverse=True)
        assert alphas[0] == 1.0
        assert 0.1 < alphas[-1] < 0.2


def test_a_chunk_of_one_action_is_drawn_too() -> None:
    drawn = path_messages(markers, [TipPath('', 'tip', POINTS[:1])], 'base', STAMP_NS, 1)
    assert [len(one.points) for one in drawn] == [1, 1]
    assert drawn[0].colors[0].a == 1.0


@pytest.mark.parametrize(
    'level', [DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR]
)
def test_the_state_stands_above_the_first_action_in_the_colour_of_its_level(level: Any) -> None:
    status = Status('HOLD', 'S12: the interlock is false ' * 10, level)
    drawn = state_message(markers, status, TipPath('', 'tip', POINTS + 5.0), 'base', STAMP_NS, 7)
    assert drawn.type == markers.Marker.TEXT_VIEW_FACING
    assert drawn.text.startswith('HOLD: S12: the interlock is false')
    assert len(drawn.text) <= 160
    assert max(map(len, drawn.text.splitlines())) <= 40
    place = drawn.pose.position
    assert (place.x, place.y) == (5.0, 6.0)
    assert place.z > 7.0
    assert (drawn.color.r, drawn.color.g, drawn.color.b) == LEVELS[level]
    assert (drawn.color.a, drawn.lifetime.nanosec) == (1.0, 7)


def test_nothing_is_drawn_where_the_robot_file_says_so_or_the_package_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node: Any = None  # of which nothing is asked
    robot = make_robot()
    off = robot.model_copy(update={'visual': Visual(planned_path=False)})
    cases = [(off, make_spec(), 'visual.planned_path is false')]
    cases.append(
        (robot, make_spec('cartesian_position'), "the action space is 'cartesian_position'")
    )
    for case, spec, why in cases:
        made = make_planned_path(node, case, spec)
        assert isinstance(made, NoPath)
        assert made.facts['planned_path'].startswith(f'not drawn: {why}')
    monkeypatch.setitem(sys.modules, 'visualization_msgs.msg', None)
    made = make_planned_path(node, robot, make_spec())
    assert (
        'install it (apt install ros-$ROS_DISTRO-visualization-msgs)' in made.facts['planned_path']
    )


class StandInPlanner:
    """Keeps where it is told that the joints are."""

    links, frame, left_out = ('tip',), 'base', ()

    def __init__(self) -> None:
        self.measured: queue.Queue[dict[str, float]] = queue.Queue()

    def describe(self, urdf: str) -> None:
        assert urdf == '<robot/>'

    def plan(self, chunk: ActionChunk, measured: dict[str, float]) -> list[TipPath]:
        self.measured.put(measured)
        return [TipPath('', 'tip', POINTS)]


def test_a_path_begins_where_the_joints_were_at_the_observation() -> None:
    callbacks: list[Any] = []
    node: Any = SimpleNamespace(
        resolve_topic_name=lambda topic: f'/{topic}',
        create_publisher=lambda *_: SimpleNamespace(
            publish=lambda message: None, get_subscription_count=lambda: 1
        ),
        create_subscription=lambda kind, topic, take, *_, **__: callbacks.append(take),
        destroy_publisher=lambda publisher: None,
        destroy_subscription=lambda subscription: None,
    )
    planner = StandInPlanner()
    drawn = PlannedPath(node, markers, planner, horizon=1.0)  # type: ignore[arg-type]
    try:
        callbacks[0](String(data='<robot/>'))
        for second, position in ((10, 0.1), (12, 0.9)):
            message = JointState(name=['lift'], position=[position])
            message.header.stamp.sec = second
            drawn.on_joints(message, now_ns=13 * 10**9)
        chunk = ActionChunk({'actions': np.zeros((4, 3), np.float32)})
        drawn.on_chunk(chunk, t_obs_ns=11 * 10**9)
        assert planner.measured.get(timeout=20.0) == {'lift': 0.1}
    finally:
        drawn.close()
