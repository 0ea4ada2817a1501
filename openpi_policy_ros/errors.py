# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Errors that name what failed, what was expected and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence


class PolicyRosError(Exception):
    """Base of every error this package raises on purpose.

    ``what`` names the failing thing and its value, ``expected`` says what would have been right,
    ``remedy`` says what the user can do. All three are for logs and terminals of the operator,
    never for a remote client (openpi-protocol: no exception text leaves the server); but what is
    wrong with a client's own request is told where ``error_detail`` allows it.
    """

    def __init__(self, what: str, *, expected: str = '', remedy: str = '') -> None:
        self.what = what
        self.expected = expected
        self.remedy = remedy
        parts = [what]
        if expected:
            parts.append(f'expected {expected}')
        if remedy:
            parts.append(remedy)
        super().__init__('; '.join(parts))


class ConfigurationError(PolicyRosError):
    """A file, parameter or argument is wrong; the process refuses to start.

    ``problems`` holds every single problem found, so that a user mends them in one go.
    """

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        head = f'{source}: {len(problems)} problem' + ('s' if len(problems) != 1 else '')
        super().__init__('\n  - '.join([head, *problems]))


class CheckpointError(PolicyRosError):
    """A checkpoint cannot be served as it is; loading refuses instead of guessing."""


class SeveralErrors(PolicyRosError):
    """More than one thing is wrong; ``errors`` holds each, so that a user mends them in one go."""

    def __init__(self, errors: Sequence[PolicyRosError]) -> None:
        self.errors = tuple(errors)
        texts = [str(error).replace('\n', '\n  ') for error in errors]
        super().__init__('\n* '.join([f'{len(texts)} errors', *texts]))


class InvalidObservation(PolicyRosError):
    """One request's observation is wrong; the next request is served.

    ``field`` is the wire key or feature that was wrong.
    """

    def __init__(self, field: str, what: str, *, expected: str = '', remedy: str = '') -> None:
        self.field = field
        super().__init__(f'{field}: {what}', expected=expected, remedy=remedy)


class InvalidOutput(PolicyRosError):
    """A policy returned a chunk that must not leave the engine (NaN, Inf, wrong shape)."""


class NoCapacity(PolicyRosError):
    """A stateful policy has no memory for another session; those it has go on.

    Raised by ``Policy.infer`` at a session's first call (``reset=True``), with the sum in its text:
    what a session needs, what there is, who has it.
    """


class PolicyLost(PolicyRosError):
    """A policy can never answer again: a part of it, on another device or in another process, died.

    Raised by ``Policy.infer`` for every call from then on; only a restart helps.
    """
