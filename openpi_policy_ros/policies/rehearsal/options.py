# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The keys of a policy file of the rehearsal, and their ranges."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from openpi_policy_ros.configuration.schema import Section

Amplitude = Annotated[float, Field(ge=-10.0, le=10.0)]


class RehearsalOptions(Section):
    """How each column of the actions moves."""

    amplitude: Annotated[float, Field(gt=0.0, le=10.0)] | list[Amplitude] = Field(
        default=0.1,
        description='How far each joint goes from where it was found, to one side and back, rad or '
        'm. One number: columns go to either side by turns, and grippers stay. A list, one number '
        'per column of the actions: its sign is the side, 0 stays.',
    )
    period: float = Field(
        default=4.0, ge=0.5, le=600.0, description='Seconds to the far end and back.'
    )
    horizon: int = Field(
        default=50, ge=2, le=1000, description='Rows of a chunk, before profile.crop_rows.'
    )
    latency: float = Field(
        default=0.0,
        ge=0.0,
        le=10.0,
        description='Seconds that a chunk takes at least, to rehearse a slow policy.',
    )
    policy_server_config: dict[str, Any] = Field(
        default_factory=dict, description='Keys to add to the handshake for OpenPI clients.'
    )
