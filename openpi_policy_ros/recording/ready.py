# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Find out, before a model is loaded for minutes, whether a recording could be written at all."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from openpi_policy_ros.errors import ConfigurationError

START_FREE = 10**9
"""Bytes that must be free for a recording to begin."""

STOP_FREE = 250 * 10**6
"""Bytes that a recording leaves free: it stops there, so that nothing else meets a full disk."""


def missing_extra(module: str, extra: str) -> str:
    """Return what to install where ``module`` is absent, '' = it is there."""
    if importlib.util.find_spec(module) is not None:
        return ''
    return f"needs {module}; install it with: pip install 'openpi_policy_ros[{extra}]'"


def record_problems(directory: str) -> list[str]:
    """Return why nothing can be recorded under ``directory``; it is made where it can be."""
    why = missing_extra('rosbags', 'record')
    return [why] if why else folder_problems(directory)


def folder_problems(directory: str) -> list[str]:
    """Return why nothing can be written under ``directory``; it is made where it can be."""
    folder = Path(directory).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Tried, not asked: a read-only mount has writable permissions.
        with tempfile.TemporaryFile(dir=folder):
            pass
        free = shutil.disk_usage(folder).free
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        return [f'{directory!r} cannot be written: {reason}; name a folder that can']
    if free < START_FREE:
        return [
            f'{directory!r} has {free / 1e9:.2f} GB free, expected at least '
            f'{START_FREE / 1e9:g} GB; delete old recordings, or name a folder on another disk'
        ]
    return []


def require(directory: str, setting: str) -> Path:
    """Return the folder to record into.

    Args:
        directory: as the user wrote it.
        setting: what to call it in an error.

    Raises:
        ConfigurationError: as ``record_problems`` says.

    """
    problems = record_problems(directory)
    if problems:
        raise ConfigurationError(setting, problems)
    return Path(directory).expanduser()
