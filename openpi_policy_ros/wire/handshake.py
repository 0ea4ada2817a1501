# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The first frame of a connection: what the policy declares, as far as the client can take it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ROBOARENA_KEYS = (
    'image_resolution',
    'n_external_cameras',
    'needs_wrist_camera',
    'needs_stereo_camera',
    'needs_session_id',
    'action_space',
)
"""All keys RoboArena's client knows; it raises TypeError on any other."""


@dataclass(frozen=True)
class Greeting:
    """The frame to send first, and whether the connection ends with it."""

    frame: bytes | str
    close: bool = False


def roboarena_keys(handshake: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of RoboArena's keys that are declared; none is invented."""
    return {key: handshake[key] for key in ROBOARENA_KEYS if key in handshake}


def advertises_rtc(handshake: Mapping[str, Any] | None) -> bool:
    """Return whether clients were invited to send what is left of their last chunk."""
    return isinstance(handshake, Mapping) and handshake.get('rtc') is True
