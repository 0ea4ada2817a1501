# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Send what the package logs (stdlib ``logging``) to the node's ROS logger, and so to /rosout."""

from __future__ import annotations

import logging

from rclpy.impl.rcutils_logger import RcutilsLogger
from rclpy.logging import LoggingSeverity

ROOT = logging.getLogger('openpi_policy_ros')


class RosHandler(logging.Handler):
    """Hands records to an rclpy logger."""

    def __init__(self, logger: RcutilsLogger) -> None:
        super().__init__()
        self._logger = logger
        self.setFormatter(logging.Formatter('%(message)s'))

    def emit(self, record: logging.LogRecord) -> None:
        """Log one record, with its traceback."""
        try:
            text = self.format(record)
            # rclpy binds a severity to the line that logs: one line each.
            if record.levelno >= logging.CRITICAL:
                self._logger.fatal(text)
            elif record.levelno >= logging.ERROR:
                self._logger.error(text)
            elif record.levelno >= logging.WARNING:
                self._logger.warning(text)
            elif record.levelno >= logging.INFO:
                self._logger.info(text)
            else:
                self._logger.debug(text)
        except Exception:
            self.handleError(record)


def bridge(logger: RcutilsLogger) -> RosHandler:
    """Route the package's log to ``logger`` alone, at its level; undo with ``unbridge``."""
    handler = RosHandler(logger)
    ROOT.addHandler(handler)
    ROOT.propagate = False
    verbose = logger.get_effective_level() <= LoggingSeverity.DEBUG
    ROOT.setLevel(logging.DEBUG if verbose else logging.INFO)
    return handler


def unbridge(handler: RosHandler) -> None:
    """Give the package's log back to ``logging``."""
    ROOT.removeHandler(handler)
    ROOT.propagate = True
