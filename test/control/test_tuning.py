# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What changes while the robot moves counts from the next tick or chunk on, without a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from played_chunks import DT, START, at, executor, ramp
from rig import ARM_TRAJECTORY, PERIOD_NS, SPEED, VELOCITY_SCALE, Rig, make_robot, make_spec

from openpi_policy_ros.configuration.execution import Execution
from openpi_policy_ros.control.axes import make_axes
from openpi_policy_ros.control.commands import ArrayCommand, TrajectoryCommand
from openpi_policy_ros.control.controller import Controller
from openpi_policy_ros.control.machine import State

PERIOD_S = PERIOD_NS / 1e9
FAR = (0.19, 0.19, 0.0)
"""As far as a first command may be from where the rig's joints are."""


def tune(rig: Rig, scale: float, **execution: Any) -> None:
    rig.controller.tune(
        make_robot(
            rig.outputs,
            execution={**(rig.execution or {}), **execution},
            safety={**(rig.safety or {}), 'velocity_scale': scale},
        )
    )


def steps(rig: Rig) -> npt.NDArray[np.float64]:
    """Return how far the first joint was commanded to go from one tick to the next."""
    rows = [command.values[0] for command in rig.wire if isinstance(command, ArrayCommand)]
    return np.abs(np.diff(rows))


@pytest.mark.parametrize('scale', [0.1, 1.0])
def test_another_velocity_scale_counts_from_the_next_tick_on(scale: float) -> None:
    rig = Rig()
    rig.run(FAR, ticks=3)
    np.testing.assert_allclose(steps(rig), SPEED * VELOCITY_SCALE * PERIOD_S)
    rig.wire.clear()
    rig.tick()
    tune(rig, scale)
    rig.ticks(2)
    before, *after = steps(rig)
    np.testing.assert_allclose([before, *after], SPEED * scale * PERIOD_S)
    assert rig.controller.state is State.ENABLED


def test_a_trajectory_is_slowed_from_the_next_tick_on() -> None:
    rig = Rig({'arm': ARM_TRAJECTORY}, safety={'velocity_scale': 1.0})
    # 1 rad/s, half of what the joints may.
    rig.run(np.outer(np.arange(rig.horizon) * PERIOD_S, [1.0, 1.0, 0.0]), ticks=5)
    tune(rig, 0.1)
    rig.tick()
    last, slowed = rig.wire[-2:]
    assert isinstance(last, TrajectoryCommand)
    assert isinstance(slowed, TrajectoryCommand)
    begun = np.interp(PERIOD_NS, [0, *last.times_ns], [np.nan, *(row[0] for row in last.rows)])
    path = np.array([begun, *(row[0] for row in slowed.rows)])
    speeds = np.abs(np.diff(path)) / (np.diff([0, *slowed.times_ns]) / 1e9)
    assert len(speeds) >= 2
    np.testing.assert_allclose(speeds, 0.1 * SPEED, rtol=1e-6)


@settings(deadline=None, max_examples=40)
@given(scales=st.lists(st.sampled_from([0.05, 0.2, 0.5, 1.0]), min_size=1, max_size=20))
def test_no_command_is_ever_further_than_the_scale_of_its_tick_allows(scales: list[float]) -> None:
    rig = Rig()
    rig.run((0.0, 0.0, 0.0), ticks=1)
    rig.offer(FAR, epoch=1)
    last = 0.0
    for scale in scales:
        tune(rig, scale)
        rig.tick()
        command = rig.wire[-1]
        assert isinstance(command, ArrayCommand)
        assert abs(command.values[0] - last) <= scale * SPEED * PERIOD_S + 1e-12
        last = command.values[0]
    assert rig.controller.state is State.ENABLED


def test_numbers_may_change_before_limits_are_known() -> None:
    robot, spec = make_robot(), make_spec()
    axes = make_axes(robot, spec)
    controller = Controller(robot, spec, axes, inference_timeout=1.0, dry_run=False)
    controller.tune(make_robot(safety={'velocity_scale': 0.1}))
    controller.activate()
    assert 'the limits of the joints are not known yet' in controller.enable(True, 0)[1]


@pytest.mark.parametrize(('steps_of_fade', 'expected'), [(0, 0.01), (10, 0.001)])
def test_the_controller_fades_as_it_was_told_last(steps_of_fade: int, expected: float) -> None:
    rig = Rig(execution={'mode': 'async', 'blend_steps': 5})
    rig.run((0.0, 0.0, 0.0), ticks=5)
    tune(rig, VELOCITY_SCALE, blend_steps=steps_of_fade)
    rig.offer((0.01, 0.0, 0.0))
    rig.tick()
    command = rig.wire[-1]
    assert isinstance(command, ArrayCommand)
    assert command.values[0] == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize(('decay', 'expected'), [(0.0, 0.005), (100.0, 0.0)])
def test_the_controller_weighs_chunks_as_it_was_told_last(decay: float, expected: float) -> None:
    rig = Rig(execution={'mode': 'ensemble', 'blend_steps': 1, 'ensemble_decay': 1.0})
    rig.run((0.0, 0.0, 0.0), ticks=5)
    tune(rig, VELOCITY_SCALE, ensemble_decay=decay)
    rig.offer((0.01, 0.0, 0.0))
    rig.ticks(5)
    command = rig.wire[-1]
    assert isinstance(command, ArrayCommand)
    assert command.values[0] == pytest.approx(expected, abs=1e-6)


def test_a_fade_that_runs_is_not_cut_off_and_the_next_one_takes_as_long_as_said() -> None:
    one = executor(mode='async', blend_steps=4)
    one.offer(ramp(20) * 0.0, START, 0, START)
    one.offer(ramp(20) * 0.0 + 1.0, START + DT, 0, START + DT)
    moments = [100, 150, 300, 450]
    before = [at(one, ms) for ms in moments]
    assert 0.0 < before[1][0] < 1.0
    one.tune(Execution(mode='async', blend_steps=0))
    assert [at(one, ms) for ms in moments] == before
    one.offer(ramp(20) * 0.0 + 2.0, START + 5 * DT, 0, START + 5 * DT)
    assert at(one, 500)[0] == 2.0, 'no fade any more'


def test_the_mean_of_an_ensemble_does_not_step_when_its_weights_change() -> None:
    one = executor(mode='ensemble', blend_steps=4, ensemble_decay=0.0)
    one.offer(ramp(20) * 0.0, START, 0, START)
    one.offer(ramp(20) * 0.0 + 1.0, START + DT, 0, START + DT)
    moments = [100, 300, 600, 900]
    before = [at(one, ms) for ms in moments]
    one.tune(Execution(mode='ensemble', blend_steps=4, ensemble_decay=100.0))
    assert [at(one, ms) for ms in moments] == before
    now = START + 6 * DT
    one.offer(ramp(20) * 0.0 + 1.0, now, 0, now)
    assert at(one, 600)[0] == pytest.approx(before[2][0]), 'faded from where it was'
    assert at(one, 1000)[0] == pytest.approx(0.0, abs=1e-9), 'the oldest alone counts'
