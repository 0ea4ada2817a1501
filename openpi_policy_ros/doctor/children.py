# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Ask another process, so that whatever hangs or crashes there does not take the doctor along."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from openpi_policy_ros.doctor.findings import Finding, fail, not_made


def ask(module: str, arguments: Sequence[str], timeout: float) -> dict[str, Any]:
    """Return the JSON object that ``python -m module`` prints as its last line.

    Args:
        module: to be run.
        arguments: for it.
        timeout: seconds until it is killed.

    Returns:
        Its answer; ``{'problem': text}`` where there is none, with ``slow`` where it took too long.

    """
    return run([sys.executable, '-m', module, *arguments], timeout)


def unanswered(check: str, what: str, answer: Mapping[str, Any], remedy: str) -> Finding:
    """Return what to say where there was no answer; one that took too long proves nothing.

    Args:
        check: what was looked at.
        what: what could not be done.
        answer: with its ``problem``.
        remedy: what to do where it is a real problem.

    """
    text = f'{what}: {answer["problem"]}'
    if answer.get('slow'):
        return not_made(check, text)
    return fail(check, text, remedy)


def run(command: Sequence[str], timeout: float) -> dict[str, Any]:
    """Return the JSON object that a command prints as its last line; see ``ask``."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {'problem': f'no answer within {timeout:.0f} s', 'slow': True}
    except OSError as error:
        return {'problem': f'{command[0]} cannot be run: {error.strerror}'}
    if done.returncode < 0:
        return {'problem': f'it was ended by signal {-done.returncode}'}
    lines = done.stdout.strip().splitlines()
    try:
        answer = json.loads(lines[-1])
    except (IndexError, ValueError):
        answer = None
    if isinstance(answer, dict):
        return answer
    errors = done.stderr.strip().splitlines()
    return {'problem': errors[-1] if errors else f'it ended with {done.returncode} and no answer'}
