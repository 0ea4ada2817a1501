# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Let a short, regular thread go before all others of the machine, where that is permitted."""

from __future__ import annotations

import os

PRIORITY = 10
"""Of 1..99 (SCHED_FIFO): before every normal thread, behind drivers that know better."""


def go_first() -> str:
    """Give the calling thread a real-time priority; return why it has none, '' = it has.

    The control tick waits for a core far longer than it takes (docs/performance.md): this is what
    shortens the wait. Linux only; needs root, ``rtprio`` in /etc/security/limits.conf, or
    CAP_SYS_NICE, which containers lack unless they are given it.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except AttributeError:
        return 'this system knows no SCHED_FIFO'
    except OSError as error:
        return (
            f'not permitted ({error.strerror}); grant rtprio in /etc/security/limits.conf, or '
            'start the container with --cap-add=SYS_NICE'
        )
    return ''
