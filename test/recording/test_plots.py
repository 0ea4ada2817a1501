# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the pictures of a recording show: which line is which, when it waited, in which units."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rosbags')
pytest.importorskip('mcap_ros2')
pytest.importorskip('matplotlib')

from fakes import EchoPolicy
from recordings import ROBOT, SPEC, observe, taped

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.engine import Engine, Lane
from openpi_policy_ros.errors import InvalidObservation
from openpi_policy_ros.policies.base import InferenceRequest
from openpi_policy_ros.recording import describe, messages, plots
from openpi_policy_ros.recording.reader import Recording
from openpi_policy_ros.recording.recorder import Recorder
from openpi_policy_ros.recording.replay import replay
from openpi_policy_ros.recording.units import action_units, motion_unit

NODE = '/openpi_policy'
SECOND = 10**9
OUTPUT = {'type': 'array', 'topic': 'hand/set', 'joints': ['a', 'b'], 'action_indices': [0, 1]}


def robot(**joints: Any) -> RobotConfig:
    file = {
        **ROBOT.model_dump(include={'profile', 'timing'}),
        'joints': {
            **ROBOT.joints.model_dump(include={'names', 'keys', 'action_indices'}),
            **joints,
        },
        'output_names': ['hand'],
        'outputs': {'hand': OUTPUT},
    }
    return validate(RobotConfig, file, 'test')


def note_joints(recorder: Recorder, time_ns: int, values: Sequence[float]) -> None:
    state = SimpleNamespace(
        header=SimpleNamespace(
            stamp=SimpleNamespace(sec=time_ns // SECOND, nanosec=0), frame_id=''
        ),
        name=['a', 'b'],
        position=list(values),
        velocity=[],
        effort=[],
    )
    recorder.note('/joint_states', lambda: messages.joint_state(state), time_ns)


def note_command(recorder: Recorder, time_ns: int, values: Sequence[float]) -> None:
    numbers = np.array(values)
    recorder.note('/hand/set', lambda: messages.numbers(numbers, None), time_ns)


def note_state(recorder: Recorder, time_ns: int, text: str) -> None:
    recorder.note(f'{NODE}/controller_state', lambda: messages.text(text), time_ns)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what is drawn, before it becomes pixels."""
    drawn: list[Any] = []

    def keep(figure: Any) -> bytes:
        drawn.append(figure)
        return b''

    monkeypatch.setattr(plots, '_png', keep)
    return drawn


def lines(axes: Any) -> dict[str, Any]:
    return {one.get_label(): one for one in axes.get_lines() if one.get_label()[0] != '_'}


def test_measured_and_commanded_are_told_apart_and_both_seen(
    tmp_path: Path, figures: list[Any]
) -> None:
    with taped(tmp_path, robot=robot()) as tape:
        tape.ask(1.0, 'ros:/x', '1', Lane.ROBOT)
        for second in (1, 2):
            note_joints(tape.recorder, second * SECOND, [0.25, 0.5])
            note_command(tape.recorder, SECOND + second * SECOND // 50, [0.1 * second, 0.75])
    (bag,) = tape.bags
    plots.pages(Recording(bag), None)
    first, second, *_ = figures[0].axes
    assert (first.get_title(loc='left'), second.get_title(loc='left')) == ('a', 'b')
    measured, commanded = lines(first)['measured'], lines(first)['commanded']
    assert list(measured.get_ydata()) == [0.25, 0.25]
    assert list(commanded.get_ydata()) == pytest.approx([0.1, 0.2])
    assert list(lines(second)['measured'].get_ydata()) == [0.5, 0.5]
    assert list(lines(second)['commanded'].get_ydata()) == [0.75, 0.75]
    assert (measured.get_color(), commanded.get_color()) == (plots.MEASURED, plots.COMMANDED)
    # The later one lies above: it must leave something of the other to be seen.
    order = first.get_lines()
    assert order.index(commanded) < order.index(measured)
    assert commanded.get_linewidth() > 2.0 * measured.get_linewidth()
    assert figures[0].get_supylabel() == '[rad or m]'


def test_the_line_of_commands_is_broken_where_nothing_was_commanded(
    tmp_path: Path, figures: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with taped(tmp_path, robot=robot()) as tape:
        tape.ask(1.0, 'ros:/x', '1', Lane.ROBOT)
        for begin, value in ((1, 0.25), (4, 0.5)):
            for tick in range(5):
                at = begin * SECOND + tick * SECOND // 50
                note_joints(tape.recorder, at, [value, 0.5])
                note_command(tape.recorder, at, [value, 0.75])
    for most in (plots.MOST_POINTS, 2):
        monkeypatch.setattr(plots, 'MOST_POINTS', most)
        figures.clear()
        plots.pages(Recording(tape.bags[0]), None)
        drawn = lines(figures[0].axes[0])
        (gap,) = np.flatnonzero(np.isnan(drawn['commanded'].get_ydata()))
        times = drawn['commanded'].get_xdata()
        assert times[gap + 1] - times[gap - 1] == pytest.approx(2.92)
        assert not np.isnan(drawn['measured'].get_ydata()).any(), 'measured all the time'


def test_what_waits_and_holds_is_shaded_from_its_beginning_to_its_end(
    tmp_path: Path, figures: list[Any]
) -> None:
    with taped(tmp_path, robot=robot()) as tape:
        tape.ask(1.0, 'ros:/x', '1', Lane.ROBOT)
        for second in range(1, 10):
            note_joints(tape.recorder, second * SECOND, [0.25, 0.5])
            note_command(tape.recorder, second * SECOND, [0.25, 0.5])
        for second, text in (
            (1, 'ENABLED'),
            (3, 'WAIT: S1: camera is 0.2 s old'),
            (4, 'ENABLED'),
            (6, 'HOLD: S12: the interlock is false'),
        ):
            note_state(tape.recorder, second * SECOND, text)
    recording = Recording(tape.bags[0])
    motion = recording.motion()
    assert motion.spans('WAIT') == [(3 * SECOND, 4 * SECOND)]
    assert motion.spans('HOLD') == [(6 * SECOND, 9 * SECOND)]
    plots.pages(recording, None)
    for figure in figures:
        for axes in (one for one in figure.axes if one.get_visible()):
            spans = {
                one.get_label(): (one.get_x(), one.get_x() + one.get_width())
                for one in axes.patches
            }
            assert spans == {'WAIT': pytest.approx((2.0, 3.0)), 'HOLD': pytest.approx((5.0, 8.0))}
        (legend,) = figure.legends
        assert {'WAIT', 'HOLD'} <= {text.get_text() for text in legend.get_texts()}


class Picky(EchoPolicy):
    """Fails at one value."""

    def answer(self, one: InferenceRequest) -> Any:
        if one.observation['value'] == 2.0:
            return InvalidObservation('value', 'is 2')
        return super().answer(one)


@pytest.mark.parametrize('replayed', [False, True])
def test_a_line_breaks_where_an_inference_is_missing(
    tmp_path: Path, figures: list[Any], replayed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As of many, which are drawn as a line.
    monkeypatch.setattr(plots, 'MOST_MARKS', 2)
    with taped(tmp_path, Picky(SPEC)) as tape:
        for value in range(5):
            observation = observe(float(value))
            try:
                tape.ask(float(value), observation=observation, seed=0)
            except InvalidObservation:
                assert value == 2
    recording = Recording(tape.bags[0])
    comparison = None
    if replayed:
        engine = Engine(EchoPolicy(SPEC))
        engine.start()
        try:
            comparison = replay(recording, engine)
        finally:
            engine.close()
        assert comparison.numbers == [1, 2, 4, 5]
    plots.pages(recording, comparison)
    drawn = lines(figures[0].axes[0])
    labels = ['recorded: first step', *(['replayed: first step'] if replayed else [])]
    for label in labels:
        values = drawn[label].get_ydata()
        assert np.array_equal(values, [0.0, 1.0, np.nan, 3.0, 4.0], equal_nan=True)


def test_units_are_those_of_the_joint_as_far_as_the_robot_file_scales_it(tmp_path: Path) -> None:
    def units(one: RobotConfig | None, space: str = 'joint_position') -> list[str]:
        config = None if one is None else one.model_dump(mode='json')
        header = {
            'policy': {'action_names': ['x', 'y', 'z'], 'action_space': space},
            'robot': {'config': config},
        }
        return list(action_units(header).values())

    assert units(robot()) == ['rad or m', 'rad or m', 'policy units']
    assert units(robot(scale=[57.29578, -25.0])) == ['deg', '-0.04 rad or m', 'policy units']
    assert units(robot(), 'joint_velocity') == ['rad/s or m/s', 'rad/s or m/s', 'policy units']
    fast = robot(scale=[2.0, 1.0], velocity_scale=[57.29578, 1.0])
    assert units(fast, 'joint_velocity')[:2] == ['deg/s', 'rad/s or m/s']
    # Only the outputs say which column is whose.
    assert units(robot(scale=[2.0, 1.0], action_indices=[]))[0] == '0.5 rad or m'
    assert units(robot(), 'cartesian_position') == ['policy units'] * 3
    assert units(None) == ['policy units'] * 3
    measured = motion_unit({'policy': {'action_space': 'joint_velocity'}})
    assert measured == 'measured: rad or m; commanded and chunks: rad/s or m/s'


def test_units_stand_at_the_axes_and_in_the_tables(tmp_path: Path, figures: list[Any]) -> None:
    with taped(tmp_path, robot=robot(scale=[57.29578, 1.0])) as tape:
        tape.ask(1.0, seed=0)
    recording = Recording(tape.bags[0])
    engine = Engine(EchoPolicy(SPEC))
    engine.start()
    try:
        comparison = replay(recording, engine)
    finally:
        engine.close()
    plots.pages(recording, comparison)
    names = [f'joint_{number}' for number in range(3)]
    expected = ['deg', 'rad or m', 'policy units']
    titles = [axes.get_title(loc='left') for axes in figures[0].axes if axes.get_visible()]
    assert sorted(titles) == [
        f'{name} [{unit}]' for name, unit in zip(names, expected, strict=True)
    ]
    head, *rows = describe.table(comparison)[1:5]
    assert head.endswith('  unit')
    assert [row.endswith(f'  {unit}') for row, unit in zip(rows, expected, strict=True)] == [
        True
    ] * 3
    assert [one['unit'] for one in comparison.as_json()['columns'].values()] == expected
