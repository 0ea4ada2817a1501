# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A server whose every setting, and whose end, a test decides."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fakes import WAIT, EchoPolicy, SlowPolicy
from serving import Client

from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.engine import Engine
from openpi_policy_ros.policies.base import Policy
from openpi_policy_ros.server import ServerThread
from openpi_policy_ros.server.access import KEY_VARIABLE
from openpi_policy_ros.wire import Dialect


class Loopback:
    """A started engine and server, and ways to talk to them."""

    def __init__(
        self, policy: Policy, robot_enabled: Callable[[], bool] | None = None, **settings: Any
    ) -> None:
        config = ServerConfig(**{'port': 0, 'drain_timeout': 10.0, **settings})
        self.policy = policy
        self.engine = Engine(policy, inference_timeout=config.inference_timeout)
        self.engine.start()
        self.server = ServerThread(self.engine, config, robot_enabled=robot_enabled)
        self.port = self.server.start()

    def url(self, dialect: Dialect) -> str:
        """Return the address of one path."""
        return f'ws://127.0.0.1:{self.port}{dialect.value}'

    def client(self, dialect: Dialect = Dialect.OPENPI, **options: Any) -> Client:
        """Return a connected client that has had its greeting."""
        return Client(self, dialect, **options)

    def get(self, path: str) -> tuple[int, str]:
        """Return status and body of a plain HTTP request."""
        try:
            with urllib.request.urlopen(f'http://127.0.0.1:{self.port}{path}', timeout=WAIT) as got:
                return got.status, got.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def close(self) -> None:
        """Stop both, whatever still runs."""
        if isinstance(self.policy, SlowPolicy):
            self.policy.release(1000)
        self.server.stop()
        self.engine.close(WAIT)


@pytest.fixture(autouse=True)
def _no_key_of_the_developers_own(monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)


@pytest.fixture
def loopback() -> Iterator[Callable[..., Loopback]]:
    """Return a starter of servers that are stopped at the end."""
    started: list[Loopback] = []

    def start(policy: Policy | None = None, **settings: Any) -> Loopback:
        started.append(Loopback(EchoPolicy() if policy is None else policy, **settings))
        return started[-1]

    yield start
    for one in started:
        one.close()
