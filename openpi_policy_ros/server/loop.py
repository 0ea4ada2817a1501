# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which event loop the server runs on."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from openpi_policy_ros.errors import ConfigurationError

Runner: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]


def runner(name: str) -> Runner:
    """Return what runs a coroutine on a loop of its own in the calling thread.

    Args:
        name: ``asyncio``, or ``uvloop`` where that package is installed.

    Raises:
        ConfigurationError: uvloop is asked for, but cannot be imported, or is too old.

    """
    if name == 'asyncio':
        return asyncio.run
    try:
        run: Runner = importlib.import_module(name).run
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            'server',
            [
                f'event_loop is {name}, but {error}; install it (pip install "uvloop>=0.18"), or '
                'use asyncio'
            ],
        ) from None
    return run
