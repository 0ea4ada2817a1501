# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Log lines that a hostile or broken client can neither forge nor multiply without bound."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

LOG = logging.getLogger('openpi_policy_ros.server')

MAX_LINE = 2000
"""Characters of one line's text; client-controlled names end up in it."""

_QUOTED_HEADER = re.compile(r'invalid HTTP header.*', re.DOTALL)

SECRET_HEADERS = ('authorization', 'proxy-authorization', 'cookie')

_CONTROL = re.compile(r'[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')


def one_line(text: str) -> str:
    """Return ``text`` without line breaks, control characters or what UTF-8 does not know.

    At most ``MAX_LINE`` long.
    """
    if len(text) > MAX_LINE:
        text = f'{text[:MAX_LINE]}… ({len(text)} characters)'
    return _CONTROL.sub(lambda match: f'\\x{ord(match.group()):02x}', text)


class LogBudget:
    """How many lines may still be written: a bucket of ``burst`` that refills steadily."""

    def __init__(
        self, burst: int, per_second: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._burst = burst
        self._per_second = per_second
        self._clock = clock
        self._tokens = float(burst)
        self._filled = clock()
        self._left_out = 0

    def spend(self) -> int | None:
        """Take one line out.

        Return how many were refused since the last one granted, or None if this one is refused.
        """
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._per_second)
        self._filled = now
        if self._tokens < 1.0:
            self._left_out += 1
            return None
        self._tokens -= 1.0
        left_out, self._left_out = self._left_out, 0
        return left_out

    def refund(self, left_out: int) -> None:
        """Undo a ``spend`` that returned ``left_out``: another budget refused the line."""
        self._tokens += 1.0
        self._left_out += left_out


class BoundedLog:
    """Writes to the server's logger within its own budget and that of its parents."""

    def __init__(self, budget: LogBudget, parent: BoundedLog | None = None) -> None:
        self._budgets: list[LogBudget] = [budget, *(parent._budgets if parent else [])]

    def write(self, level: int, text: str, error: BaseException | None = None) -> None:
        """Write one line, with the traceback of ``error`` if given; or leave it out and count."""
        if not LOG.isEnabledFor(level):
            return
        granted: list[tuple[LogBudget, int]] = []
        for budget in self._budgets:
            left_out = budget.spend()
            if left_out is None:
                for earlier, count in granted:
                    earlier.refund(count)
                return
            granted.append((budget, left_out))
        left_out = sum(count for _, count in granted)
        note = f' ({left_out} lines before this one left out)' if left_out else ''
        LOG.log(level, '%s%s', one_line(text), note, exc_info=error)


def _without_keys(args: tuple[object, ...]) -> tuple[object, ...]:
    """Return the arguments of a debug line without what may be an API key."""
    if args and str(args[0]).lower() in SECRET_HEADERS:
        return (args[0], *('(not logged)' for _ in args[1:]))
    # The path of a request line; its query is where some put a key.
    return tuple(
        one.partition('?')[0] if isinstance(one, str) and one.startswith('/') else one
        for one in args
    )


if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    # Not subscriptable before Python 3.11.
    _Adapter = logging.LoggerAdapter


class WebsocketsLogger(_Adapter):
    """Gives the websockets library its say within the same bounds.

    Its routine lines repeat ours, so they are debug output; what it calls an error (a port
    scanner's garbage instead of a handshake, with a traceback) is one warning line.
    """

    def __init__(self, log: BoundedLog) -> None:
        super().__init__(logging.getLogger('openpi_policy_ros.server.websockets'), {})
        self._bounded = log

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Pass debug on, drop routine, bound the rest."""
        if level <= logging.DEBUG:
            # A traceback from the HTTP parser ends with the header it did not like.
            kwargs.pop('exc_info', None)
            super().log(level, msg, *_without_keys(args), **kwargs)
        elif level > logging.INFO:
            text = str(msg) % args if args else str(msg)
            error = kwargs.get('exc_info')
            if error is True:
                error = sys.exc_info()[1]
            if isinstance(error, BaseException):
                # Some versions quote the header they do not like, which may hold an API key.
                text = f'{text}: {_QUOTED_HEADER.sub("invalid HTTP header", repr(error))}'
            self._bounded.write(logging.WARNING, f'websockets: {text}')
