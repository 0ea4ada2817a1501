# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Take down what was built, last first, whatever of it fails."""

from __future__ import annotations

import logging
from collections.abc import Callable

_log = logging.getLogger('openpi_policy_ros.ros.teardown')


class Teardown:
    """What is to be undone, in the order in which it was built."""

    def __init__(self) -> None:
        self._undo: list[tuple[str, Callable[[], object]]] = []

    def add(self, what: str, undo: Callable[[], object]) -> None:
        """Call ``undo`` in its turn, ``what`` names it in the log."""
        self._undo.append((what, undo))

    def run(self) -> None:
        """Undo everything, last first; one that fails does not keep the others up."""
        while self._undo:
            what, undo = self._undo.pop()
            try:
                undo()
            except Exception:
                _log.exception('%s could not be taken down', what)
