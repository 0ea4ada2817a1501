# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether the control tick gets a core when it needs one."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

from openpi_policy_ros.bench.machine import cores, cpu_model
from openpi_policy_ros.doctor.asked import Asked
from openpi_policy_ros.doctor.findings import Finding, ok, warn
from openpi_policy_ros.ros.realtime import PRIORITY, go_first

_GOVERNORS = '/sys/devices/system/cpu'


def examine(asked: Asked) -> list[Finding]:
    """Look at priorities, cores, load and governor."""
    del asked
    return [
        judge_priority(_refusal()),
        judge_cores(cores(), _quota(), os.getloadavg()[0], cpu_model()),
        *judge_governors(_governors()),
    ]


def judge_priority(refusal: str) -> Finding:
    """Judge whether SCHED_FIFO is permitted; ``refusal``: why not, '' = it is."""
    if not refusal:
        return ok('real-time priority', f'SCHED_FIFO {PRIORITY} is permitted for the control tick')
    found, _, remedy = refusal.partition('; ')
    return warn(
        'real-time priority',
        f'SCHED_FIFO {PRIORITY}: {found}: the control tick waits for a core like any other thread',
        remedy,
    )


def judge_cores(count: int, quota: float | None, load: float, model: str) -> Finding:
    """Judge how much of the machine there is.

    Args:
        count: cores that this process may use.
        quota: cores' worth of time that the cgroup grants; None = no limit.
        load: average of the last minute.
        model: of the processor.

    """
    usable = count if quota is None else min(float(count), quota)
    text = f'{model}: {count} cores' + (f', limited to {quota:.1f}' if quota else '')
    if usable < 2:
        remedy = 'give the process two cores or more: one inference takes one for itself'
        return warn('cores', text, remedy)
    if load > usable:
        return warn(
            'cores',
            f'{text}, load average {load:.1f}: other programs want more than there is',
            'stop what is not needed while the robot moves',
        )
    return ok('cores', f'{text}, load average {load:.1f}')


def judge_governors(governors: Sequence[str]) -> list[Finding]:
    """Judge how the cores choose their clock; nothing where the kernel does not tell."""
    kinds = sorted(set(governors))
    if not kinds:
        return []
    slow = [kind for kind in kinds if kind in ('powersave', 'conservative', 'ondemand')]
    if not slow:
        return [ok('CPU governor', ', '.join(kinds))]
    return [
        warn(
            'CPU governor',
            f'{", ".join(slow)}: a core that idles between two ticks runs slowly at first',
            'sudo cpupower frequency-set -g performance',
        )
    ]


def _governors() -> list[str]:
    paths = Path(_GOVERNORS).glob('cpu[0-9]*/cpufreq/scaling_governor')
    return [path.read_text(encoding='ascii').strip() for path in paths]


def _refusal() -> str:
    """Return why a thread gets no real-time priority, tried by one that ends at once."""
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(go_first()))
    thread.start()
    thread.join()
    return answers[0]


def _quota() -> float | None:
    path = Path('/sys/fs/cgroup/cpu.max')
    if not path.is_file():
        return None
    quota, _, period = path.read_text(encoding='ascii').partition(' ')
    return None if quota == 'max' else int(quota) / int(period)
