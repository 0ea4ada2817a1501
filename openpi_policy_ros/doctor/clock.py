# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The clock: whether it is kept by a time server, and runs as fast as time does."""

from __future__ import annotations

import ctypes
import time

from openpi_policy_ros.doctor.asked import Asked
from openpi_policy_ros.doctor.findings import Finding, ok, skipped, warn

_UNSYNCHRONISED = 0x0040
"""STA_UNSYNC of adjtimex(2)."""
_LOOK = 0.2
"""Seconds over which both clocks are compared."""
_TOLERATED = 0.005
_REMEDY = (
    'run chrony or another NTP client on every machine that stamps or reads images; stamps more '
    'than timing.future_tolerance ahead are refused'
)


class _Timex(ctypes.Structure):
    """The head of ``struct timex``; the kernel writes no more than 208 bytes."""

    _fields_ = (
        ('modes', ctypes.c_uint),
        ('offset', ctypes.c_long),
        ('freq', ctypes.c_long),
        ('maxerror', ctypes.c_long),
        ('esterror', ctypes.c_long),
        ('status', ctypes.c_int),
        ('rest', ctypes.c_byte * 512),
    )


def examine(asked: Asked) -> list[Finding]:
    """Look at the kernel's own account of its clock."""
    del asked
    start = time.time(), time.monotonic()
    time.sleep(_LOOK)
    gone = time.time() - start[0] - (time.monotonic() - start[1])
    return [_look_at_kernel(), judge_pace(gone)]


def judge_kernel(status: int, max_error_us: int) -> Finding:
    """Judge what adjtimex(2) says.

    Args:
        status: its bits.
        max_error_us: largest error that the kernel admits, microseconds.

    """
    if status & _UNSYNCHRONISED:
        return warn('clock', 'no time server keeps the clock of this machine', _REMEDY)
    error = max_error_us / 1e6
    return ok('clock', f'kept by a time server, at most {error:.3f} s from it')


def judge_pace(gone: float) -> Finding:
    """Judge by how many seconds the clock got ahead of time while it was watched."""
    if abs(gone) <= _TOLERATED:
        return ok('clock pace', 'the clock runs as fast as time does')
    return warn(
        'clock pace',
        f'the clock was moved by {gone:+.3f} s while it was watched',
        'let it settle before the robot is enabled: S13 holds at a jump',
    )


def _look_at_kernel() -> Finding:
    buffer = _Timex()
    try:
        answer = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(buffer))
    except (OSError, AttributeError):
        return skipped('clock', 'this system does not tell whether its clock is synchronised')
    if answer < 0:
        return skipped('clock', 'the kernel does not tell whether its clock is synchronised')
    return judge_kernel(buffer.status, buffer.maxerror)
