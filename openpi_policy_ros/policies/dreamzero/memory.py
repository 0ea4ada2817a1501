# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How many sessions fit: computed before one is let in, so that a live one never has to go."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from openpi_policy_ros.errors import NoCapacity
from openpi_policy_ros.policies.dreamzero.config import DreamZeroConfig
from openpi_policy_ros.policies.dreamzero.window import BLOCK_FRAMES

GIB, MIB = 2**30, 2**20
KEPT_BACK = 0.05
"""Share of the free memory that is not given to sessions: no allocator can use the last piece."""
REMEDY = (
    'close a session that is not used any more, raise session_memory or max_sessions in the policy '
    'file, or serve from a device with more memory'
)

_MEMINFO = Path('/proc/meminfo')
_CGROUP = Path('/sys/fs/cgroup')


def bytes_per_session(
    config: DreamZeroConfig, attention: int, itemsize: int, *, imagined: bool
) -> int:
    """Return what one session takes at most, in bytes.

    Args:
        config: sizes.
        attention: keys and values of window and cross-attention, both branches
            (``Guidance.bytes_per_session``).
        itemsize: bytes of a number.
        imagined: whether the latents of the window are kept for decoding.

    """
    # A token is a patch of 2 x 2 latents, a latent 8 x 8 pixels of the tiled image.
    latent = 4 * config.dit.frame_seqlen
    frames = BLOCK_FRAMES * 3 * 64 * latent
    conditioning = (config.num_frames - 1) // 4 + 1
    numbers = (config.dit.in_dim - config.dit.out_dim) * conditioning * latent
    if imagined:
        numbers += config.dit.out_dim * config.dit.cached_frames * latent
    return attention + numbers * itemsize + frames


@dataclass(frozen=True)
class Budget:
    """Memory for sessions.

    Attributes:
        total: bytes.
        origin: where the number comes from, for messages.

    """

    total: int
    origin: str


def free_budget(device: torch.device, reserve: int) -> Budget | None:
    """Return what is free on ``device`` now, less ``reserve`` bytes for a call to work in.

    None where this system does not tell how much is free.
    """
    free = free_bytes(device)
    if free is None:
        return None
    total = max(0, int(free * (1.0 - KEPT_BACK)) - reserve)
    where = 'this computer' if device.type == 'cpu' else str(device)
    return Budget(
        total,
        f'{size(free)} free on {where} after loading, less {size(free - total)} to work in',
    )


def free_bytes(device: torch.device) -> int | None:
    """Return the bytes that could be allocated on ``device``, None = unknown.

    On a CPU the least of what the system has available and what the process's control group may
    still take.
    """
    if device.type == 'cuda':
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    known = [amount for amount in (_available(), _group_left()) if amount is not None]
    return min(known, default=None)


def _available() -> int | None:
    try:
        lines = _MEMINFO.read_text(encoding='ascii').splitlines()
    except OSError:
        pages = 'SC_AVPHYS_PAGES'
        return os.sysconf(pages) * os.sysconf('SC_PAGE_SIZE') if pages in os.sysconf_names else None
    found = [line.split()[1] for line in lines if line.startswith('MemAvailable:')]
    return int(found[0]) * 1024 if found else None


def _group_left() -> int | None:
    try:
        limit = (_CGROUP / 'memory.max').read_text(encoding='ascii').strip()
        used = int((_CGROUP / 'memory.current').read_text(encoding='ascii'))
    except (OSError, ValueError):
        return None
    return None if limit == 'max' else max(0, int(limit) - used)


@dataclass(frozen=True)
class Admission:
    """Lets a session in, or says what is missing.

    Attributes:
        per_session: bytes one session takes.
        budget: bytes for all of them; None = unlimited.
        max_sessions: most sessions whatever the memory, None = as many as fit.

    """

    per_session: int
    budget: Budget | None
    max_sessions: int | None = None

    @property
    def capacity(self) -> int | None:
        """Return how many sessions fit, None = nobody limits it."""
        limits = [] if self.max_sessions is None else [self.max_sessions]
        if self.budget is not None:
            limits.append(self.budget.total // self.per_session)
        return min(limits, default=None)

    def check(self, live: int) -> None:
        """Let one more session in beside ``live`` ones.

        Raises:
            NoCapacity: it does not fit, with the sum.

        """
        if self.max_sessions is not None and live >= self.max_sessions:
            raise NoCapacity(
                f'no room for another session: {live} are live, max_sessions is '
                f'{self.max_sessions}',
                expected='one of them to end first',
                remedy=REMEDY,
            )
        if self.budget is not None and (live + 1) * self.per_session > self.budget.total:
            raise NoCapacity(
                f'no memory for another session: it takes {size(self.per_session)}, {live} live '
                f'ones hold {size(live * self.per_session)} of the {size(self.budget.total)} for '
                f'sessions ({self.budget.origin})',
                expected='one of them to end first' if live else 'memory for one',
                remedy=REMEDY,
            )


def size(count: int) -> str:
    """Return a number of bytes in GiB or MiB."""
    if count >= GIB:
        return f'{count / GIB:.2f} GiB'
    return f'{count / MIB:.2f} MiB'
