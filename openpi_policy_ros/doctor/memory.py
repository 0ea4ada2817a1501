# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Memory and disk against what the checkpoint needs."""

from __future__ import annotations

import shutil
from pathlib import Path

from openpi_policy_ros.doctor.asked import Asked
from openpi_policy_ros.doctor.findings import Finding, fail, gigabytes, ok, skipped, warn
from openpi_policy_ros.doctor.model import ModelFacts

_BESIDE = 2e9
"""Bytes that Python, torch and one inference take beside the weights, on a CPU."""
_CACHE = 'disk for the hub cache'


def examine(asked: Asked, facts: ModelFacts) -> list[Finding]:
    """Look at free memory, the cgroup's limit and the disk of the hub's cache."""
    return [
        judge_memory(_available(), _limit(), facts.weights, on_cpu=asked.device == 'cpu'),
        judge_disk(asked.model, facts),
    ]


def judge_memory(
    available: int | None, limit: int | None, weights: int | None, *, on_cpu: bool
) -> Finding:
    """Judge the memory of the machine.

    Args:
        available: bytes that can be taken without swapping; None = the system does not tell.
        limit: bytes that the cgroup still grants; None = no limit.
        weights: bytes of weights once loaded; None = unknown.
        on_cpu: whether they stay in this memory.

    """
    if available is None:
        return skipped('memory', 'this system does not tell how much is free')
    usable = available if limit is None else min(available, limit)
    text = f'{gigabytes(usable)} free'
    if limit is not None and limit < available:
        text += f' (the container may take no more; the machine has {gigabytes(available)})'
    if weights is None:
        return ok('memory', f'{text}; what the model needs is not known')
    need = weights + _BESIDE if on_cpu else _BESIDE
    text += f', {gigabytes(need)} needed'
    if usable < need:
        what = 'raise the limit of the container' if limit is not None else 'free some memory'
        remedy = f'{what}, or serve from a larger machine (policy:=remote)'
        return fail('memory', f'{text}: the process would be killed while loading', remedy)
    if usable < need + weights:
        # The file is mapped while it is copied; without room for both it is read again and again.
        return warn('memory', f'{text}: loading will be slow', 'free some memory')
    return ok('memory', text)


def judge_disk(model: str, facts: ModelFacts, free: int | None = None) -> Finding:
    """Judge the room for a download; ``free`` bytes, None = look."""
    if facts.missing is None:
        return skipped(_CACHE, 'no model of the hub to download')
    if not facts.missing:
        return ok(_CACHE, 'nothing has to be downloaded')
    place = _cache()
    if free is None:
        free = shutil.disk_usage(place).free
    text = f'{gigabytes(free)} free in {place}, {gigabytes(facts.missing)} needed for {model}'
    if free < facts.missing:
        return fail(_CACHE, text, 'make room there, or set HF_HOME to where there is some')
    return ok(_CACHE, text)


def _cache() -> Path:
    from huggingface_hub import constants

    place = Path(constants.HF_HUB_CACHE).expanduser()
    while not place.exists():
        place = place.parent
    return place


def _available() -> int | None:
    path = Path('/proc/meminfo')
    if not path.is_file():
        return None
    for line in path.read_text(encoding='ascii').splitlines():
        name, _, value = line.partition(':')
        if name == 'MemAvailable':
            return int(value.split()[0]) * 1024
    return None


def _limit() -> int | None:
    """Return how many bytes the cgroup still grants."""
    most, used = Path('/sys/fs/cgroup/memory.max'), Path('/sys/fs/cgroup/memory.current')
    if not most.is_file() or not used.is_file():
        return None
    limit = most.read_text(encoding='ascii').strip()
    if limit == 'max':
        return None
    return max(int(limit) - int(used.read_text(encoding='ascii')), 0)
