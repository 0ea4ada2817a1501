# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Serve in the foreground until the process is told to end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.engine import Engine
from openpi_policy_ros.server.exposure import Exposure
from openpi_policy_ros.server.log import LOG
from openpi_policy_ros.server.thread import ServerThread

INTERRUPTED = 128 + signal.SIGINT


def serve_until_signal(
    engine: Engine,
    config: ServerConfig,
    on_listening: Callable[[int], None] | None = None,
    exposure: Exposure | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain and return. Main thread only.

    A second SIGINT ends the process at once, with status 130.

    Args:
        engine: started; not closed here.
        config: where and how to listen.
        on_listening: called with the bound port once clients can connect.
        exposure: see ``ServerThread``.

    Raises:
        ConfigurationError: see ``ServerThread.start``.
        RuntimeError: the server's thread ended by itself (the log says why).

    """
    server = ServerThread(engine, config, exposure)
    stop = threading.Event()

    def handle(number: int, _: FrameType | None) -> None:
        # No logging in here: it may have interrupted just that.
        if stop.is_set() and number == signal.SIGINT:
            os._exit(INTERRUPTED)
        stop.set()

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        port = server.start()
        if on_listening is not None:
            on_listening(port)
        while not stop.wait(1.0):
            if not server.running:
                raise RuntimeError('the server ended by itself; see the log')
        LOG.info('told to end: finishing what is in flight; Ctrl-C ends at once')
        server.stop()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
