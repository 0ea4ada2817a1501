# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""All checks at once, within a bounded time, and the report of what they found."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from typing import Any

from openpi_policy_ros.doctor import (
    clock,
    discovery,
    gpu,
    graph,
    memory,
    middleware,
    model,
    packages,
    ports,
    realtime,
    ros_install,
    round_trip,
)
from openpi_policy_ros.doctor.asked import Asked
from openpi_policy_ros.doctor.findings import Finding, Outcome, fail, failed, not_made

LIMIT = 19.0
"""Seconds after which what has not answered is left out."""

Check = Callable[[Asked], list[Finding]]

GRAPH = 'graph'


def _model(asked: Asked) -> list[Finding]:
    """Look for the model, then at what it needs."""
    facts = model.look(asked)
    return [*facts.findings, *memory.examine(asked, facts), *gpu.examine(asked, facts)]


def _graph(asked: Asked) -> list[Finding]:
    """Look at the graph, then at the server's address: a node of ours may have it."""
    seen = graph.look(asked)
    own = seen.get('own_server') or ''
    return [*graph.judge(asked, seen), *ports.examine(asked, own)]


CHECKS: tuple[tuple[str, Check], ...] = (
    ('packages', packages.examine),
    ('ROS', ros_install.examine),
    ('rmw', middleware.examine),
    ('discovery', discovery.examine),
    ('DDS round trip', round_trip.examine),
    (GRAPH, _graph),
    ('clock', clock.examine),
    ('model', _model),
    ('scheduling', realtime.examine),
)
"""In the order of the report."""


def examine(
    asked: Asked, checks: Sequence[tuple[str, Check]] = CHECKS, limit: float = LIMIT
) -> list[Finding]:
    """Return what all checks found.

    Args:
        asked: about what.
        checks: (name, function), run side by side.
        limit: seconds for all of them.

    """
    found: list[list[Finding] | None] = [None] * len(checks)

    def work(index: int) -> None:
        name, check = checks[index]
        try:
            found[index] = check(asked)
        # One that fails must not cost the others' answers; what it raised is told.
        except Exception as error:
            text = f'this check failed: {type(error).__name__}: {error}'
            found[index] = [fail(name, text, 'report it; the other checks stand')]

    # Daemons: one that hangs does not keep the process.
    threads = [
        threading.Thread(target=work, args=(index,), daemon=True) for index in range(len(checks))
    ]
    deadline = time.monotonic() + limit
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    findings: list[Finding] = []
    for (name, _), one in zip(checks, list(found), strict=True):
        findings += one if one is not None else [not_made(name, f'no answer within {limit:.0f} s')]
    return findings


def as_text(findings: Sequence[Finding]) -> str:
    """Return a line for each finding, one below it for what to do, and a last one that counts."""
    width = max(len(one.check) for one in findings)
    first = max(len(outcome.value) for outcome in Outcome)
    lines = []
    for one in findings:
        lines.append(f'{one.outcome.value:{first}}  {one.check:{width}}  {one.found}')
        if one.remedy:
            lines.append(f'{"":{first}}  {"":{width}}  -> {one.remedy}')
    counts = ', '.join(
        f'{sum(one.outcome is outcome for one in findings)} {outcome.value}' for outcome in Outcome
    )
    return '\n'.join([*lines, '', counts])


def wanted_checks(asked: Asked) -> list[str]:
    """Return the checks that were asked for by naming a robot file: not made, they fail."""
    return [] if asked.robot is None else [GRAPH, *graph.robot_checks(asked.robot)]


def as_json(findings: Sequence[Finding], wanted: Collection[str] = ()) -> dict[str, Any]:
    """Return the findings as an object for JSON; ``wanted`` as for ``failed``."""
    return {
        'findings': [{**asdict(one), 'outcome': one.outcome.value} for one in findings],
        'failed': failed(findings, wanted),
    }
