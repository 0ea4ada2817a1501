# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where and how the WebSocket server listens."""

from __future__ import annotations

from pydantic import Field

from openpi_policy_ros.configuration.schema import Section


class ServerConfig(Section):
    """Settings of the WebSocket server (openpi-protocol §1, §2, §4)."""

    host: str = Field(
        default='127.0.0.1',
        min_length=1,
        description='Address to bind. 0.0.0.0 lets every machine on the network use the policy.',
    )
    port: int = Field(
        default=8000, ge=0, le=65535, description='TCP port; 0 picks a free one and logs it.'
    )
    idle_timeout: float = Field(
        default=30.0,
        ge=0.0,
        description='Seconds an OpenPI-path connection may wait without a frame; 0 = for ever.',
    )
    root_idle_timeout: float = Field(
        default=0.0,
        ge=0.0,
        description='The same for the stock path "/"; 0 = for ever.',
    )
    inference_timeout: float = Field(
        default=5.0,
        gt=0.0,
        description='Seconds after which a running call turns /readyz to 503; never cuts it.',
    )
    drain_timeout: float = Field(
        default=30.0,
        ge=0.0,
        description='Seconds that calls in flight get to finish when the server stops.',
    )
