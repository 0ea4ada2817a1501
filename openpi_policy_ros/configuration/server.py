# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where and how the WebSocket server listens."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from openpi_policy_ros.configuration.paths import FIXED_PATHS
from openpi_policy_ros.configuration.schema import Section

DIALECTS = ('openpi', 'stock')
"""What a path alias may lead to."""

_PATH = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*")
"""The path of a request line (RFC 3986): no query, no fragment, no spaces."""


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
    max_connections: int = Field(
        default=0,
        ge=0,
        description='Robot clients at a time; one more is refused with HTTP 503. 0 = no limit.',
    )
    request_timeout: float = Field(
        default=0.0,
        ge=0.0,
        description='Seconds after which a remote request is answered with an error and its late '
        'result dropped; the call itself is not cut. 0 = never.',
    )
    error_detail: bool = Field(
        default=False,
        description='Send request_id and what was wrong with the request along with the errors of '
        'the OpenPI path.',
    )
    root_reply: Literal['dict', 'array'] = Field(
        default='dict',
        description='Form of replies on the stock path "/": dict = actions and timings, array = '
        'the bare chunk as on the OpenPI path.',
    )
    path_aliases: list[str] = Field(
        default=[],
        description='Further paths, each "/path -> openpi" or "/path -> stock": served like '
        '/v1/realtime/robot/openpi or like /.',
    )
    api_key_file: str = Field(
        default='',
        description='File with one API key per line; everything but /healthz then needs one of '
        'them. Empty = the keys in the environment variable OPENPI_API_KEY; neither = no key '
        'needed.',
    )
    tls_certificate: str = Field(
        default='',
        description='PEM file with the certificate and its chain: serve wss:// and https:// only. '
        'Empty = no TLS.',
    )
    tls_key: str = Field(
        default='',
        description='PEM file with the private key, not encrypted. Empty = it is in the file of '
        'the certificate.',
    )
    event_loop: Literal['asyncio', 'uvloop'] = Field(
        default='asyncio',
        description='What moves the bytes; uvloop (pip install uvloop) does it for less CPU time.',
    )
    heap: Literal['keep', 'system'] = Field(
        default='keep',
        description='keep = hold on to the memory of one frame for the next (glibc), which spares '
        'hundreds of page faults a request; system = give it back each time.',
    )

    @field_validator('path_aliases')
    @classmethod
    def _aliases_are_new_paths(cls, entries: list[str]) -> list[str]:
        seen: set[str] = set()
        for entry in entries:
            path, _ = parse_alias(entry)
            if path in FIXED_PATHS:
                raise ValueError(f'{entry!r}: {path} is served already and keeps its meaning')
            if path in seen:
                raise ValueError(f'{entry!r}: {path} has two meanings; keep one')
            seen.add(path)
        return entries

    @model_validator(mode='after')
    def _key_belongs_to_a_certificate(self) -> ServerConfig:
        if self.tls_key and not self.tls_certificate:
            raise ValueError('tls_key: is set without tls_certificate; TLS needs both')
        return self

    @property
    def aliases(self) -> dict[str, str]:
        """Return path -> 'openpi' or 'stock' of every alias."""
        return dict(parse_alias(entry) for entry in self.path_aliases)


def parse_alias(entry: str) -> tuple[str, str]:
    """Return (path, 'openpi' or 'stock') of one entry of ``path_aliases``.

    Raises:
        ValueError: not of that form; says what is wrong with it.

    """
    path, arrow, dialect = (part.strip() for part in entry.rpartition('->'))
    if not arrow or dialect not in DIALECTS:
        raise ValueError(f'{entry!r}: expected "/path -> openpi" or "/path -> stock"')
    if not _PATH.fullmatch(path):
        raise ValueError(
            f'{entry!r}: {path!r} is no path; expected a slash, then letters, digits or -._~/ '
            '(no query, no spaces)'
        )
    return path, dialect
