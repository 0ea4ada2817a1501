# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Judge what the node does: inference, actuation, the server and the recording."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from openpi_policy_ros.configuration.diagnostics import Diagnostics
from openpi_policy_ros.control.controller import PAUSE
from openpi_policy_ros.control.health import (
    Finding,
    Health,
    Level,
    above,
    judge,
    number,
    percent,
    share,
    share_above,
)
from openpi_policy_ros.control.machine import ACTIVE, State
from openpi_policy_ros.control.tick import Counters

_GATE = re.compile(r'\bS\d+\b')


@dataclass(frozen=True)
class Spread:
    """Distribution of durations of late, ms."""

    last: float
    p50: float
    p95: float
    max: float


@dataclass(frozen=True)
class Supply:
    """How well the robot is supplied with chunks.

    Attributes:
        latency: p95 from trigger to chunk, s; None = none yet.
        budget: what that may take, s: the duration of a chunk, or how long the robot may wait for
            each (open_loop); None = not known.
        short_supply: inferences started too late for the running chunk, so far.
        starved: times that driving ran out of actions, so far.
        short_supply_lately: in the last minute.
        starved_lately: in the last minute.

    """

    latency: float | None = None
    budget: float | None = None
    short_supply: int = 0
    starved: int = 0
    short_supply_lately: int = 0
    starved_lately: int = 0


@dataclass(frozen=True)
class InferenceFacts:
    """What is known of the engine.

    Attributes:
        not_ready: why it is not fit to answer; '' = it is.
        busy_for: s the running call has been running, 0 = idle.
        timing: submit to answer; None = nothing was answered yet.
        rate: chunks per second of late, Hz; None = cannot be told yet.
        counts: so far: succeeded, failures, consecutive_failures and others.
        supply: of the robot; None = there is none.
        active: whether chunks are made for it.

    """

    not_ready: str
    busy_for: float
    timing: Spread | None
    rate: float | None
    counts: Mapping[str, int]
    supply: Supply | None = None
    active: bool = True


@dataclass(frozen=True)
class ActuationFacts:
    """What is known of the outputs.

    Attributes:
        state: where the robot's door stands.
        reason: why it waits or holds; '' elsewhere.
        counters: so far.
        driven: ticks at which actions were commanded, so far.
        driven_lately: the same, of the window.
        lately: counters of the window, by their names.

    """

    state: State
    reason: str
    counters: Counters
    driven: int
    driven_lately: int
    lately: Mapping[str, int]


@dataclass(frozen=True)
class ServerFacts:
    """What is known of the WebSocket server.

    Attributes:
        running: whether it is alive.
        clients: connected now.
        max_clients: most that it lets in, 0 = any number.
        counts: so far: connections, requests, failures, rejected, invalid_payloads.
        rate: requests per second of late, Hz; None = cannot be told yet.
        lately: counts of the last minute, by their names.
        decode: of requests; None = none was read yet.
        encode: of replies; None = none was written yet.

    """

    running: bool
    clients: int
    max_clients: int
    counts: Mapping[str, int]
    rate: float | None
    lately: Mapping[str, int]
    decode: Spread | None
    encode: Spread | None


@dataclass(frozen=True)
class RecordingFacts:
    """What is known of the recording.

    Attributes:
        written: messages, so far.
        dropped: messages that could not be written in time, so far.
        size: bytes written.
        written_lately: messages of the window.
        dropped_lately: likewise.
        waiting: bytes to be written.
        trouble: why nothing is written any more; '' = all is well.

    """

    written: int
    dropped: int
    size: int
    written_lately: int
    dropped_lately: int
    waiting: int = 0
    trouble: str = ''


def inference_health(facts: InferenceFacts, limits: Diagnostics) -> Health:
    """Return the health of the engine, and of the robot's supply with chunks."""
    counts, timing, supply = facts.counts, facts.timing, facts.supply
    failures = counts['consecutive_failures']
    findings = [
        Finding(
            Level.ERROR if facts.not_ready else Level.OK,
            f'{facts.not_ready}: see the log, and use a faster device or a larger '
            'inference_timeout where calls take long',
        ),
        Finding(
            above(failures, limits.pair('failures')),
            f'{failures} inference{"s in a row" if failures > 1 else ""} failed: the log says why',
        ),
    ]
    values = {
        'ready': str(not facts.not_ready).lower(),
        'rate_hz': '' if facts.rate is None else number(facts.rate, 2),
        **_durations('', timing, 1),
        'busy_for_s': number(facts.busy_for, 3),
        **{name: str(count) for name, count in counts.items()},
    }
    if supply is not None:
        if facts.active:
            findings += _supply(supply, limits)
        values |= {
            'latency_p95_ms': _milliseconds(supply.latency),
            'latency_budget_ms': _milliseconds(supply.budget),
            'short_supply': str(supply.short_supply),
            'short_supply_last_minute': str(supply.short_supply_lately),
            'starved': str(supply.starved),
            'starved_last_minute': str(supply.starved_lately),
        }
    rate = 'not measured yet' if facts.rate is None else f'{facts.rate:.1f} inferences per second'
    within = '' if timing is None else f', 95 % within {timing.p95:.0f} ms'
    well = f'{rate}{within}' if counts['succeeded'] else 'no request yet'
    return judge(findings, well, values)


def actuation_health(facts: ActuationFacts, limits: Diagnostics) -> Health:
    """Return the health of the outputs: whether the robot follows the policy, unchanged."""
    state, counters, lately = facts.state, facts.counters, facts.lately
    findings = []
    if state is State.HOLD:
        text = f'HOLD: {facts.reason}; remove the cause, then call ~/enable'
        findings.append(Finding(Level.ERROR, text))
    elif state is State.WAIT and facts.reason != PAUSE:
        findings.append(Finding(Level.WARN, f'WAIT: {facts.reason}'))
    rejected = lately['refused'] + lately['late']
    chunks = lately['chunks'] + rejected
    driven = facts.driven_lately
    findings += [
        Finding(
            share_above(rejected, chunks, limits.pair('rejected')),
            f'{percent(share(rejected, chunks))} of the chunks were refused (S4) or late (S14): '
            'use a faster device or a longer horizon, and see the log',
        ),
        Finding(
            share_above(lately['clamped'], driven, limits.pair('clamped')),
            f'{percent(share(lately["clamped"], driven))} of the commands were cut off at a '
            'position limit (S6): check joints.scale and offset, the limits, and whether the '
            'policy was trained on this robot',
        ),
        Finding(
            share_above(lately['slowed'], driven, limits.pair('slowed')),
            f'{percent(share(lately["slowed"], driven))} of the commands were slowed down to the '
            'velocity limit (S7): raise safety.velocity_scale where the robot may go faster',
        ),
    ]
    gate = _GATE.search(facts.reason)
    values = {
        'state': state.value,
        'reason': facts.reason,
        'gate': gate.group() if gate else '',
        **{name: str(count) for name, count in asdict(counters).items()},
        'driven': str(facts.driven),
        'rejected_share': number(share(rejected, chunks), 3),
        'clamped_share': number(share(lately['clamped'], driven), 3),
        'slowed_share': number(share(lately['slowed'], driven), 3),
    }
    return judge(findings, _door(state), values)


def server_health(facts: ServerFacts, limits: Diagnostics) -> Health:
    """Return the health of the WebSocket server."""
    counts, lately = facts.counts, facts.lately
    # Those rejected while the robot is enabled are as the robot file wants it.
    failed = lately['failures'] - lately['rejected'] + lately['invalid_payloads']
    full = 0 < facts.max_clients <= facts.clients
    findings = [
        Finding(
            Level.OK if facts.running else Level.ERROR,
            'the server has stopped: see the log, then cleanup and configure, or restart the node',
        ),
        Finding(
            Level.WARN if full else Level.OK,
            f'full: {facts.clients} clients are connected and more are refused; raise '
            'max_connections or close idle ones',
        ),
        Finding(
            share_above(failed, lately['requests'], limits.pair('server_failed')),
            f'{percent(share(failed, lately["requests"]))} of the requests in the last minute '
            'failed or were invalid: the log names the clients',
        ),
    ]
    values = {
        'running': str(facts.running).lower(),
        'clients': str(facts.clients),
        'max_clients': str(facts.max_clients or ''),
        'request_rate_hz': '' if facts.rate is None else number(facts.rate, 2),
        **{name: str(count) for name, count in counts.items()},
        'requests_last_minute': str(lately['requests']),
        'failed_share_last_minute': number(share(failed, lately['requests']), 3),
    }
    for stage, spread in (('decode_', facts.decode), ('encode_', facts.encode)):
        values |= _durations(stage, spread, 3)
    clients = f'{facts.clients} client{"" if facts.clients == 1 else "s"}'
    return judge(findings, f'listening, {clients}', values)


def recording_health(facts: RecordingFacts, limits: Diagnostics) -> Health:
    """Return the health of the recording."""
    offered = facts.written_lately + facts.dropped_lately
    findings = [
        Finding(
            Level.ERROR if facts.trouble else Level.OK,
            f'nothing is recorded any more: {facts.trouble}',
        ),
        Finding(
            share_above(facts.dropped_lately, offered, limits.pair('recording_loss')),
            f'{percent(share(facts.dropped_lately, offered))} of the messages were dropped: record '
            'to a faster disk, or fewer cameras',
        ),
    ]
    values = {
        'written': str(facts.written),
        'dropped': str(facts.dropped),
        'dropped_share': number(share(facts.dropped_lately, offered), 3),
        'size_bytes': str(facts.size),
        'waiting_bytes': str(facts.waiting),
    }
    return judge(findings, f'{facts.written} messages', values)


def _supply(supply: Supply, limits: Diagnostics) -> list[Finding]:
    findings = [
        Finding(
            above(supply.starved_lately, limits.pair('starved')),
            f'the robot ran out of actions {supply.starved_lately} times in the last minute: use '
            'a faster device, fewer sampler steps or a longer horizon',
        )
    ]
    if supply.latency is not None and supply.budget:
        findings.append(
            Finding(
                above(supply.latency / supply.budget, limits.pair('latency')),
                f'an inference takes {supply.latency:.3f} s (95 % of them, with waiting), '
                f'{percent(supply.latency / supply.budget)} of the {supply.budget:.3f} s there '
                'are: use a faster device, fewer sampler steps or a longer horizon',
            )
        )
    return findings


def _door(state: State) -> str:
    if state in ACTIVE:
        return 'enabled'
    return 'dry run: nothing is commanded' if state is State.DRY_RUN else 'not enabled'


def _milliseconds(seconds: float | None) -> str:
    return '' if seconds is None else number(1e3 * seconds, 1)


def _durations(prefix: str, spread: Spread | None, digits: int) -> dict[str, str]:
    """Return the keys of a distribution; they are empty where nothing was measured yet."""
    return {
        f'{prefix}{one.name}_ms': ''
        if spread is None
        else number(getattr(spread, one.name), digits)
        for one in fields(Spread)
    }
