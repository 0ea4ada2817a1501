# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The keys of a policy file whose policy is ``remote``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from openpi_policy_ros.configuration.schema import Section


class RemoteOptions(Section):
    """A policy file for another server, without its ``policy`` key. All times in seconds."""

    connect_timeout: float = Field(
        default=5.0, gt=0.0, le=600.0, description='Longest one attempt to connect may take.'
    )
    start_timeout: float = Field(
        default=30.0,
        ge=0.0,
        description='How long to keep trying at the start while nothing listens there; 0 = one '
        'attempt.',
    )
    deadline: float = Field(
        default=10.0,
        gt=0.0,
        le=3600.0,
        description='Longest a request may take, connecting again included. Past it the '
        'connection is closed, so that a late answer cannot be taken for the next.',
    )
    session_ids: Literal['forward', 'unique', 'none'] = Field(
        default='forward',
        description="forward = send each client's own session id; unique = prefix it so that no "
        'other process can have the same (for servers that keep sessions by id alone); none = '
        'send none.',
    )
    max_in_flight: int = Field(
        default=4,
        ge=1,
        le=256,
        description='Requests of different clients that may be on their way at once, each on a '
        'connection of its own.',
    )
    api_key_file: str = Field(
        default='', description='File with the API key; empty = look into api_key_env.'
    )
    api_key_env: str = Field(
        default='OPENPI_REMOTE_API_KEY',
        description='Environment variable with the API key; not set = send none.',
    )
    ca_file: str = Field(
        default='',
        description="PEM file of the CA that signed a wss:// server's certificate; empty = the "
        "system's.",
    )
    policy_server_config: dict[str, Any] = Field(
        default_factory=dict,
        description='What the server leaves out of its handshake (action_horizon, action_dim, '
        'action_space, …). A value that differs from what it declares refuses.',
    )
    nested_keys: list[str] = Field(
        default_factory=list,
        description='Prefixes of keys to send nested: with images, the value of images/cam_high '
        "goes as {images: {cam_high: …}}, as openpi's ALOHA policy reads it.",
    )
    optional_cameras: list[str] = Field(
        default_factory=list, description='Camera features whose image may be missing.'
    )
    history_offsets: list[int] = Field(
        default_factory=list,
        description='Which images of each camera the policy there sees, in action steps from the '
        "newest, oldest first ([-23, -16, -8, 0] for DreamZero): the robot's own door then sends "
        'one frame first and so many later. Empty = the newest image alone.',
    )
    warm_up_observation: str = Field(
        default='',
        description='.npz file with one observation (wire key → array), sent once before anything '
        'is served: for servers that compile at their first request. Empty = do not ask.',
    )
    warm_up_timeout: float = Field(
        default=300.0, gt=0.0, le=3600.0, description='Longest that request may take.'
    )

    @field_validator('history_offsets')
    @classmethod
    def _rising_to_the_newest(cls, offsets: list[int]) -> list[int]:
        if offsets and (offsets[-1] != 0 or offsets != sorted(set(offsets))):
            raise ValueError(
                f'expected action steps that rise strictly and end with 0 (the newest image), '
                f'found {offsets}'
            )
        return offsets
