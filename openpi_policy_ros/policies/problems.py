# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Collect what is wrong with a checkpoint, so that loading and inspecting tell it all at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from openpi_policy_ros.errors import PolicyRosError, SeveralErrors


class Problems:
    """What was found wrong so far.

    Attributes:
        errors: in the order they were found.
        unchecked: what could not be looked at because of them.

    """

    def __init__(self) -> None:
        self.errors: list[PolicyRosError] = []
        self.unchecked: list[str] = []

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Collect the error that ends the block, and go on after it."""
        try:
            yield
        except PolicyRosError as error:
            self.add(error)

    def add(self, error: PolicyRosError) -> None:
        """Note an error, once; one that holds several is taken apart."""
        known = {str(other) for other in self.errors}
        for one in error.errors if isinstance(error, SeveralErrors) else (error,):
            if str(one) not in known:
                self.errors.append(one)

    def raise_any(self) -> None:
        """Raise what was collected: one error as it is, several as ``SeveralErrors``."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise SeveralErrors(self.errors)
