# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a number was measured on: without it, it means nothing."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path

PACKAGES = ('numpy', 'torch', 'websockets', 'msgpack', 'uvloop', 'openpi-client', 'rclpy')


def describe() -> dict[str, object]:
    """Return CPU, cores this process may use, versions, load average; for JSON."""
    return {
        'cpu': cpu_model(),
        'cores': cores(),
        'system': platform.platform(terse=True),
        'python': platform.python_version(),
        'packages': {name: version(name) for name in PACKAGES},
        'load_average': [round(load, 2) for load in os.getloadavg()],
    }


def line(machine: dict[str, object]) -> str:
    """Return the description in one line."""
    packages = machine['packages']
    assert isinstance(packages, dict)
    found = ', '.join(f'{name} {number}' for name, number in packages.items() if number)
    loads = machine['load_average']
    assert isinstance(loads, list)
    return (
        f'{machine["cpu"]}, {machine["cores"]} cores, {machine["system"]}, '
        f'Python {machine["python"]}, {found}, load average {" ".join(map(str, loads))}'
    )


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, 'sched_getaffinity'):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_model() -> str:
    """Return the name the processor gives itself, else its architecture."""
    if sys.platform == 'linux':
        for entry in Path('/proc/cpuinfo').read_text(encoding='utf-8').splitlines():
            name, _, value = entry.partition(':')
            if name.strip() in ('model name', 'Model'):
                return value.strip()
    return platform.processor() or platform.machine()


def version(package: str) -> str | None:
    """Return a package's version without importing it, None = not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
