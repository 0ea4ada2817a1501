# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``bench --only control``: what it measures, what its simulated clock says, never how fast."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openpi_policy_ros.bench import control, control_rig, control_topics
from openpi_policy_ros.bench import control_simulation as simulation
from openpi_policy_ros.cli import main


@pytest.mark.ros
@pytest.mark.timeout(120)
def test_control_measures_threads_simulation_and_a_real_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip('rclpy')
    monkeypatch.setattr(control, 'ROUNDS', 1)
    monkeypatch.setattr(control, 'SIMULATED', 4.0)
    monkeypatch.setattr(control, 'COST_SIMULATED', 1.0)
    monkeypatch.setattr(control, 'PHASES', 1)
    file = tmp_path / 'bench.json'
    arguments = ['--only', 'control', '--seconds', '1', '--threads', '1', '--json', str(file)]
    assert main(['bench', *arguments]) == 0
    result: dict[str, Any] = json.loads(file.read_text(encoding='utf-8'))['control']
    # Real-time priority is not for every user.
    measured = set(result['jitter'])
    assert measured - {'realtime'} == {'idle', 'inferring', 'elsewhere'}
    for one in result['jitter'].values():
        assert one['ticks'] > 0
        assert 0.0 <= one['p50_ms']['median'] <= one['p99_ms']['median'] <= one['max_ms']['median']
    assert set(result['jitter_ratio']) == measured - {'idle'}
    for one in result['reaction_threads'].values():
        # Never earlier than the limits allow; how much later is the machine's business.
        assert one['wait_ms'] is None or one['wait_ms']['p50'] >= 150.0
        assert one['hold_ms']['p50'] >= 500.0
    assert all(one['tick_us']['p50'] > 0.0 for one in result['tick_costs'])
    topics = result['topics']
    assert topics['chunks'] > 0
    assert topics['overhead_ms']['p50'] > 0.0
    without = control.report({**result, 'topics': None, 'topics_missing': 'no rclpy'})
    assert without.endswith('Topic to command: left out: no rclpy')
    printed = capsys.readouterr().out
    for what in ('Jitter', 'Cost of a tick', 'Reaction', 'Starvation', 'Steps between chunks'):
        assert f'{what}: ' in printed
    assert 'Topic to command: from the inference trigger' in printed


def test_async_starves_only_where_two_latencies_outlast_a_chunk() -> None:
    slow = simulation.starved('async', 15.0, 1.5, 20.0)
    assert (slow['waiting_share'], slow['starved']) == (0.0, 0)
    # A chunk of 1 s: two of 0.5 s, give or take a tenth, may or may not fit.
    edge = simulation.starved('async', 50.0, 0.5, 20.0)
    assert 0.0 < edge['waiting_share'] < 0.2
    assert edge['starved'] > 0
    hopeless = simulation.starved('async', 50.0, 1.5, 20.0)
    assert (hopeless['waiting_share'], hopeless['chunks']) == (1.0, 0)
    assert hopeless['late'] > 0


def test_open_loop_waits_for_the_latency_after_every_chunk_and_calls_it_no_starving() -> None:
    paused = simulation.starved('open_loop', 50.0, 0.5, 20.0)
    # One second of actions, half a second of inference, and a frame and a tick until it begins.
    assert paused['waiting_share'] == pytest.approx(0.5 / 1.5, abs=0.03)
    assert paused['starved'] == 0


def test_the_simulated_reaction_lies_within_one_period_of_the_limits() -> None:
    for one in simulation.reactions(2):
        period = 1.0 / one['control_rate']
        assert 0.5 < one['hold_s']['min'] <= one['hold_s']['max'] <= 0.5 + period + 1e-6
        assert one['wait_s']['min'] > 0.15
        # A running inference puts WAIT off to its end.
        latest = max(0.15, 1.1 * one['latency_s'] + 2 * simulation.FRAME_NS * 1e-9)
        if one['latency_s'] < 0.1:
            assert one['wait_s']['max'] <= latest + period + 1e-6
        else:
            assert one['wait_s']['max'] > 0.2


def test_fading_spreads_a_boundary_over_its_steps() -> None:
    coarse, fine = simulation.boundaries(8.0)
    for one in (coarse, fine):
        assert one['own_step'] < one['largest_step']['3'] < one['largest_step']['0']
    # Three actions are ten ticks at 15 Hz and three ticks at 50 Hz.
    assert coarse['largest_step']['3'] < fine['largest_step']['3']
    assert fine['largest_step']['0'] / fine['largest_step']['3'] == pytest.approx(3.0, rel=0.2)


def test_chunks_of_the_bench_agree_on_every_moment_but_for_their_offset() -> None:
    early = control_rig.swing(0, 10.0)
    late = control_rig.swing(1_000_000_000, 10.0, 0.5)
    np.testing.assert_allclose(late[:40] - 0.5, early[10:], atol=1e-6)


def test_the_way_of_a_chunk_is_all_but_the_wait_for_a_tick() -> None:
    ms = 1_000_000
    parts = control_topics.split((1, 0.1, 10 * ms, 12 * ms, 18 * ms), 21 * ms)
    assert parts == {
        'overhead_ms': pytest.approx(5.0),
        'wait_ms': pytest.approx(6.0),
        'to_core_ms': pytest.approx(2.0),
        'to_robot_ms': pytest.approx(3.0),
        'total_ms': pytest.approx(11.0),
    }
