# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Let glibc keep the memory of one frame for the next, instead of giving it back each time.

A frame of images passes through a few buffers of its size: what the socket read, what was
unmasked, what the decoder's views lie in. glibc takes buffers of that size from the kernel one by
one, or cuts its heap back as soon as they are free. The next frame's buffers are then new pages,
and the kernel zeroes each of them on its first touch: hundreds of page faults a request, which
cost more than all the rest of the server (numbers: docs/performance.md).

With these settings the process keeps up to ``KEPT`` bytes of freed memory per thread that serves,
in practice about as much as its largest frames need. Only buffers above ``MAPPED`` go straight
back, so that one 64 MiB frame leaves nothing behind.
"""

from __future__ import annotations

import ctypes
import logging
import platform
import sys

LOG = logging.getLogger('openpi_policy_ros.server')

KEPT = 128 * 1024 * 1024
"""Freed bytes at the end of a heap above which it is cut back; glibc's own: 128 KiB, growing."""
MAPPED = 32 * 1024 * 1024
"""Size from which a buffer gets pages of its own; the most glibc accepts on 64 bits."""
STEP = 4 * 1024 * 1024
"""What a heap grows by beyond the need at hand; pages count only once they are touched."""

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3


def keep_freed_memory() -> bool:
    """Set it for this whole process; return whether it holds. Calling it again changes nothing.

    False where there is no glibc (musl, macOS) or it is a 32-bit one: memory then behaves as the
    system likes.
    """
    if platform.libc_ver()[0] != 'glibc' or sys.maxsize < 2**32:
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    mallopt.argtypes, mallopt.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
    settings = ((_M_MMAP_THRESHOLD, MAPPED), (_M_TRIM_THRESHOLD, KEPT), (_M_TOP_PAD, STEP))
    # 1 = taken. Another allocator in its place may have the function and refuse.
    taken = [mallopt(option, value) == 1 for option, value in settings]
    return all(taken)
