# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure how the robot is driven: in time, without gaps, without jumps, and how fast it stops.

What needs no real time is simulated and exact (``control_simulation``); threads are measured beside
a real policy (``control_loop``), topics with the real node (``control_topics``).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from openpi_policy_ros.bench import control_simulation as simulation
from openpi_policy_ros.bench.child import Child
from openpi_policy_ros.bench.statistics import Spread, quantiles, ratios, table

ROUNDS = 4
SIMULATED = 60.0
"""Seconds on the simulated clock."""
COST_SIMULATED = 40.0
PHASES = 20
INFERENCE_TIMEOUT = 120.0
AIM_MS = 5.0
CONDITIONS = {
    'idle': 'idle',
    'inferring': 'infers in this process',
    'elsewhere': 'infers in another process',
    'realtime': 'infers in this process, control thread SCHED_FIFO',
}
_LOOP = 'openpi_policy_ros.bench.control_loop'


def measure(*, seconds: float, model: str | None, size: str, threads: int | None) -> dict[str, Any]:
    """Return everything this part measures; ``report`` says what.

    Args:
        seconds: of each measurement in real time.
        model: a π0 checkpoint directory or hub id; None = make one of ``size``.
        size: of the checkpoint that is made.
        threads: of torch; None = as it is.

    Raises:
        ChildFailed: a process ended or does not answer; shows its log.

    """
    result: dict[str, Any] = {
        'seconds': seconds,
        'model': model or f'made: {size}',
        'threads': threads,
        'simulated_s': SIMULATED,
        'starvation': simulation.starvation(SIMULATED),
        'boundaries': simulation.boundaries(SIMULATED),
        'disagreement_rad': simulation.DISAGREEMENT,
        'reactions': simulation.reactions(PHASES),
        'tick_costs': simulation.tick_costs(COST_SIMULATED),
        **_threads(seconds, model, size, threads),
    }
    from openpi_policy_ros.bench import control_topics

    problem = control_topics.missing()
    result['topics'] = control_topics.measure(seconds) if problem is None else None
    result['topics_missing'] = problem
    return result


def _threads(seconds: float, model: str | None, size: str, threads: int | None) -> dict[str, Any]:
    """Measure the control thread in rounds: idle, inferring beside it, inferring elsewhere."""
    from openpi_policy_ros.ros.main import SWITCH_INTERVAL

    with ExitStack() as stack:
        if model is None:
            from openpi_policy_ros.policies.pi0.make_checkpoint import make_checkpoint

            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix='openpi_bench_'))
            model = str(Path(scratch) / size)
            make_checkpoint(Path(model), size, 0)
        arguments = [model, '--seconds', f'{seconds / ROUNDS:g}']
        arguments += ['--switch-interval', f'{SWITCH_INTERVAL:g}']
        env = dict(os.environ)
        if threads is not None:
            arguments += ['--threads', str(threads)]
            env['OMP_NUM_THREADS'] = str(threads)
        loop = stack.enter_context(Child(_LOOP, arguments, env))
        load = stack.enter_context(Child(_LOOP, arguments, env))
        patience = seconds + INFERENCE_TIMEOUT
        names = [one for one in CONDITIONS if one != 'realtime' or loop.hello['realtime']]
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for turn in range(ROUNDS):
            # In changing order: what disturbs the machine for a while disturbs each of them.
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                if name == 'elsewhere':
                    rounds[name].append(_beside(loop, load, patience))
                else:
                    rounds[name].append(loop.ask(f'jitter {name}', patience))
        reaction = {name: loop.ask(f'reaction {name}', patience) for name in ('idle', 'inferring')}
        return {
            'switch_interval_s': loop.hello['switch_interval'],
            'rounds': ROUNDS,
            'jitter': {name: _jitter(found) for name, found in rounds.items()},
            'jitter_ratio': {
                name: ratios(_p99(found), _p99(rounds['idle'])).as_dict()
                for name, found in rounds.items()
                if name != 'idle'
            },
            'reaction_threads': reaction,
        }


def _beside(loop: Child, load: Child, patience: float) -> dict[str, Any]:
    """Measure ticks without inferences of their own while another process infers."""
    with ThreadPoolExecutor(1) as pool:
        inferring = pool.submit(load.ask, 'infer', patience)
        found = loop.ask('jitter idle', patience)
        return {**found, **inferring.result()}


def _p99(rounds: Sequence[Mapping[str, Any]]) -> list[float]:
    return [one['jitter_ms']['p99'] for one in rounds]


def _jitter(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the rounds of one condition as spreads and sums."""
    inferences = [one['inference_ms']['p50'] for one in rounds if one['inference_ms']]
    return {
        **{
            f'{name}_ms': Spread.of([one['jitter_ms'][name] for one in rounds]).as_dict()
            for name in ('p50', 'p99', 'max')
        },
        'tick_p99_ms': Spread.of([one['tick_ms']['p99'] for one in rounds]).as_dict(),
        'ticks': sum(one['ticks'] for one in rounds),
        **{name: sum(one[name] for one in rounds) for name in ('gaps_20_ms', 'gaps_40_ms')},
        'driving_share': min(one['driving_share'] for one in rounds),
        'inferences': sum(one['inferences'] for one in rounds),
        'inference_ms': quantiles(inferences)['p50'] if inferences else None,
    }


def report(result: dict[str, Any]) -> str:
    """Return every table, each under one line that says how it was measured."""
    parts = [
        _jitter_text(result),
        _cost_text(result),
        _reaction_text(result),
        _starvation_text(result),
        _boundary_text(result),
        _topics_text(result),
    ]
    return '\n\n'.join(parts)


def _jitter_text(result: dict[str, Any]) -> str:
    rows = []
    for name, one in result['jitter'].items():
        ratio = result['jitter_ratio'].get(name)
        rows.append(
            [
                CONDITIONS[name],
                *(Spread(**one[f'{share}_ms']).text() for share in ('p50', 'p99', 'max')),
                '1' if ratio is None else Spread(**ratio).text(),
                f'{one["gaps_20_ms"]}, {one["gaps_40_ms"]} of {one["ticks"]}',
                Spread(**one['tick_p99_ms']).text(),
                '–' if one['inference_ms'] is None else f'{one["inference_ms"]:.0f}',
            ]
        )
    worst = result['jitter']['inferring']['p99_ms']
    holds = 'holds' if worst['max'] <= AIM_MS else 'does not always hold'
    holds = 'does not hold' if worst['min'] > AIM_MS else holds
    threads = result['threads']
    head = (
        'Jitter: how far apart two ticks of the control thread began, less the period, without '
        f'sign; 100 Hz, {result["rounds"]} rounds of {result["seconds"] / result["rounds"]:g} s '
        f'each in turns, median (smallest … largest); model {result["model"]}, '
        f'{"as many torch threads as cores" if threads is None else f"{threads} torch threads"}, '
        f'switch interval {1e3 * result["switch_interval_s"]:g} ms. At gaps of two periods S9 '
        'holds: 20 ms here, 40 ms at the default 50 Hz.'
    )
    headings = [
        'policy',
        'p50 ms',
        'p99 ms',
        'max ms',
        'p99 ratio',
        'gaps > 20, > 40 ms',
        'p99 of a tick ms',
        'inference ms',
    ]
    verdict = (
        f'A thread {holds} a p99 of {AIM_MS:g} ms beside the inference here '
        f'({worst["min"]:.1f} to {worst["max"]:.1f} ms).'
    )
    hurried = result['jitter'].get('realtime')
    if hurried is not None:
        low, high = hurried['p99_ms']['min'], hurried['p99_ms']['max']
        verdict += f' With real-time priority it was {low:.1f} to {high:.1f} ms.'
    return f'{head}\n\n{table(headings, rows)}\n\n{verdict}'


def _cost_text(result: dict[str, Any]) -> str:
    rows = [
        [
            one['output'],
            f'{one["action_rate"]:g}',
            *(f'{one["tick_us"][share]:.0f}' for share in ('p50', 'p99')),
        ]
        for one in result['tick_costs']
    ]
    head = (
        'Cost of a tick: CPU time of one call of the controller that drives seven joints and a '
        'gripper at 50 Hz, in a process that does nothing else.'
    )
    return f'{head}\n\n{table(["arm output", "actions/s", "p50 µs", "p99 µs"], rows)}'


def _reaction_text(result: dict[str, Any]) -> str:
    def between(one: Mapping[str, float]) -> str:
        return f'{1e3 * one["min"]:.0f} … {1e3 * one["max"]:.0f}'

    def sampled(one: Mapping[str, float] | None) -> str:
        return '–' if one is None else f'p50 {one["p50"]:.0f}, max {one["max"]:.0f}'

    rows = [
        [
            'simulated, exact',
            f'{one["control_rate"]:g}',
            f'{1e3 * one["latency_s"]:.0f} ms each',
            '–' if one['wait_s'] is None else between(one['wait_s']),
            between(one['hold_s']),
        ]
        for one in result['reactions']
    ]
    for name, one in result['reaction_threads'].items():
        rows.append(
            [
                'threads',
                '100',
                'none' if name == 'idle' else 'for others, all the time',
                *(sampled(one[k]) for k in ('wait_ms', 'hold_ms')),
            ]
        )
    first = result['reactions'][0]
    head = (
        'Reaction: from the last image of a camera that falls silent to the tick that waits and '
        f'the one that holds; camera_max_age {first["max_age_s"]:g} s, stale_hold '
        f'{first["stale_hold_s"]:g} s; {first["phases"]} moments within a period, or '
        f'{result["reaction_threads"]["idle"]["trials"]} and '
        f'{result["reaction_threads"]["inferring"]["trials"]} trials.'
    )
    headings = ['clock', 'ticks/s', 'inferences', 'to WAIT ms', 'to HOLD ms']
    return f'{head}\n\n{table(headings, rows)}'


def _starvation_text(result: dict[str, Any]) -> str:
    rows = [
        [
            one['mode'],
            f'{one["action_rate"]:g} ({one["horizon_s"]:.2f} s)',
            f'{one["latency_s"]:g}',
            f'{100.0 * one["waiting_share"]:.1f} %',
            f'{one["longest_wait_s"]:.2f}',
            str(one['starved']),
            f'{one["chunks"]}, {one["late"]}',
        ]
        for one in result['starvation']
    ]
    head = (
        f'Starvation: {result["simulated_s"]:g} s simulated, 50 ticks/s, a camera at 30 Hz, chunks '
        'of 50 actions, the latency ±10 % seeded; counted from the first command on. Pauses of '
        'open_loop are meant and not counted as starved. Without a limit to the wait '
        '(safety.max_wait is 2 s as shipped: HOLD).'
    )
    headings = [
        'mode',
        'actions/s (chunk)',
        'latency s',
        'ticks in WAIT',
        'longest s',
        'starved',
        'chunks taken, late',
    ]
    return f'{head}\n\n{table(headings, rows)}'


def _boundary_text(result: dict[str, Any]) -> str:
    rows = []
    for one in result['boundaries']:
        sizes = [one['own_step'], one['largest_step']['3'], one['largest_step']['0']]
        rows.append(
            [
                f'{one["action_rate"]:g}',
                str(one['chunks']),
                *(f'{1e3 * size:.1f}' for size in sizes),
                *(f'{size / one["own_step"]:.1f}' for size in sizes[1:]),
            ]
        )
    head = (
        f'Steps between chunks: {result["simulated_s"]:g} s simulated at 50 ticks/s and a latency '
        f'of 0.1 s; each chunk is off by a seeded offset of {result["disagreement_rad"]:g} rad '
        '(standard deviation, every joint its own); velocity limits out of the way; the largest '
        'change of any joint from tick to tick.'
    )
    headings = [
        'actions/s',
        'chunks',
        'of the chunk itself mrad',
        'blend_steps 3 mrad',
        'blend_steps 0 mrad',
        '3: × own',
        '0: × own',
    ]
    return f'{head}\n\n{table(headings, rows)}'


def _topics_text(result: dict[str, Any]) -> str:
    one = result['topics']
    if one is None:
        return f'Topic to command: left out: {result["topics_missing"]}'
    rows = [
        [title, *(f'{one[name][share]:.1f}' for share in ('p50', 'p99', 'max'))]
        for name, title in (
            ('overhead_ms', 'overhead: total less wait'),
            ('to_core_ms', 'trigger to control core'),
            ('wait_ms', 'wait for the next tick'),
            ('to_robot_ms', 'tick to subscriber'),
            ('total_ms', 'total'),
        )
    ]
    head = (
        'Topic to command: from the inference trigger to the first command of that chunk at a '
        'subscriber in another process, less the wait for the next tick; the real node with a '
        f'policy that costs nothing, three raw 640×480 cameras at 30 Hz, {one["control_rate"]:g} '
        f'ticks/s, {one["chunks"]} chunks, {one["commands"]} commands in {one["seconds"]:g} s.'
    )
    return f'{head}\n\n{table(["", "p50 ms", "p99 ms", "max ms"], rows)}'
