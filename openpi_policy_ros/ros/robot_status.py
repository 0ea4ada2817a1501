# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Put together what ``~/status`` says of the robot: from what makes chunks and what plays them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

from diagnostic_msgs.msg import DiagnosticStatus

from openpi_policy_ros.control.buffers import Reason
from openpi_policy_ros.control.controller import PAUSE, Tick
from openpi_policy_ros.control.machine import ACTIVE, State
from openpi_policy_ros.ros.door import DoorState, DoorStats
from openpi_policy_ros.ros.publishers import Status

JOINTS = 'joint_states'
"""What gates call all joints together."""


def robot_status(
    door: DoorState,
    tick: Tick | None,
    *,
    dry_run: bool,
    facts: Mapping[str, str],
    supply: DoorStats | None = None,
) -> Status:
    """Return the status of an active node.

    WAIT and HOLD belong to an enabled robot. One that is not is READY (or DRY_RUN), and its reason
    says why no chunk can be made.

    Args:
        door: what makes chunks.
        tick: the newest of the outputs; None = the robot has none, or has not ticked yet.
        dry_run: the node's parameter.
        facts: further keys and values.
        supply: how fast chunks come; None = not told.

    """
    level = DiagnosticStatus.OK
    if door.reasons:
        level = DiagnosticStatus.ERROR if door.failing else DiagnosticStatus.WARN
    numbers = _supply(supply)
    if tick is not None:
        counters = {name: str(count) for name, count in asdict(tick.counters).items()}
        # The node's facts say under ``chunks`` what the chunks on its topics are.
        numbers |= {'chunks_taken': counters.pop('chunks'), **counters}
    if tick is None or tick.state not in {*ACTIVE, State.HOLD}:
        state = 'DRY_RUN' if dry_run else 'READY'
        return Status(state, door.text, level, door.signature, facts, numbers)
    door = DoorState(tuple(_unsaid(door, tick.reason)))
    reason = '; '.join(text for text in (tick.reason, door.text) if text)
    if tick.state is State.HOLD:
        level = DiagnosticStatus.ERROR
    elif tick.state is State.WAIT and tick.reason != PAUSE:
        level = max(level, DiagnosticStatus.WARN)
    signature = (kind_of(tick.reason), door.signature)
    return Status(tick.state.value, reason, level, signature, facts, numbers)


def _unsaid(door: DoorState, told: str) -> Iterator[Reason]:
    """Yield of the door's reasons what a gate has not told: it judges the same streams."""
    for one in door.reasons:
        ages = (one.kind == 'stale' and _are_named(one.streams, told)) or (
            one.kind == 'skew' and 'S3:' in told
        )
        if not ages and one.text not in told:
            yield one
        elif one.kind == 'stale' and not any(' ' in name for name in one.streams):
            # A gate judges the joints as one stream: which of them it was is told here.
            yield replace(one, text=f'too old: {", ".join(one.streams)}')
        elif one.kind == 'stale' and one.detail and one.detail not in told:
            # Why a camera is silent, which a gate cannot know.
            yield replace(one, text=one.detail)


def _are_named(streams: Sequence[str], told: str) -> bool:
    # A gate calls joints by their topic alone.
    return all((name if ' ' in name else JOINTS) in told for name in streams)


def kind_of(reason: str) -> str:
    """Return a gate's reason without its numbers: ages in it change with every tick."""
    return re.sub(r'\d+', '', reason)


def _supply(stats: DoorStats | None) -> dict[str, str]:
    if stats is None:
        return {}
    latency = '' if stats.latency is None else f'{1e3 * stats.latency:.1f}'
    return {'latency_p95_ms': latency, 'short_supply': str(stats.short_supply)}
