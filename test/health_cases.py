# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Parts of a node that fare well, to be changed in one thing."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from openpi_policy_ros.control.buffers import StreamCount
from openpi_policy_ros.control.health_streams import CameraFacts, JointFacts, Lately
from openpi_policy_ros.control.health_work import (
    ActuationFacts,
    InferenceFacts,
    RecordingFacts,
    ServerFacts,
    Spread,
    Supply,
)
from openpi_policy_ros.control.images import Picture
from openpi_policy_ros.control.machine import State
from openpi_policy_ros.control.tick import Counters


def stream(age: float | None = 0.02, trouble: str = '', received: int = 1000) -> StreamCount:
    """Return what came of a stream; ``age`` in seconds."""
    return StreamCount(received, 3, None if age is None else round(age * 1e9), trouble)


def camera(**changes: Any) -> CameraFacts:
    """Return a camera at 30 Hz, of which 15 are expected."""
    facts: dict[str, Any] = {
        'topic': '/left/one/image_raw',
        'max_age': 0.15,
        'expected_rate': 15.0,
        'count': stream(),
        'lost': 7,
        'rate': 30.0,
        'lately': Lately(150, 0, 0),
        'picture': Picture('rgb8', 640, 480, 921600),
    }
    return CameraFacts(**{**facts, **changes})


def joints(**changes: Any) -> JointFacts:
    """Return two joints at 100 Hz."""
    facts: dict[str, Any] = {
        'topic': '/joint_states',
        'max_age': 0.1,
        'expected_rate': 15.0,
        'counts': {'shoulder': stream(), 'elbow': stream(0.01)},
        'rates': {'shoulder': 100.0, 'elbow': 101.0},
        'lately': Lately(1000, 0),
    }
    return JointFacts(**{**facts, **changes})


def supply(**changes: Any) -> Supply:
    """Return a robot that has a chunk for longer than an inference takes."""
    return Supply(**{'latency': 0.2, 'budget': 1.0, **changes})


def inference(**changes: Any) -> InferenceFacts:
    """Return an engine that answers."""
    facts: dict[str, Any] = {
        'not_ready': '',
        'busy_for': 0.05,
        'timing': Spread(81.0, 80.0, 95.0, 130.0),
        'rate': 10.0,
        'counts': {
            'succeeded': 500,
            'failures': 2,
            'consecutive_failures': 0,
            'invalid_observations': 0,
            'superseded': 0,
            'waiting': 0,
        },
        'supply': supply(),
    }
    return InferenceFacts(**{**facts, **changes})


def failing(times: int) -> InferenceFacts:
    """Return an engine of which so many calls in a row failed."""
    return inference(counts={**inference().counts, 'consecutive_failures': times})


def actuation(
    state: State = State.ENABLED, reason: str = '', driven: int = 250, **lately: int
) -> ActuationFacts:
    """Return outputs of which so much happened in the window."""
    zeros = dict.fromkeys(asdict(Counters()), 0)
    return ActuationFacts(
        state, reason, Counters(chunks=90), 900, driven, {**zeros, 'chunks': 50, **lately}
    )


def serving(**changes: Any) -> ServerFacts:
    """Return a server with one client."""
    counts = dict.fromkeys(
        ('connections', 'requests', 'failures', 'rejected', 'invalid_payloads'), 0
    )
    lately = {**counts, 'requests': 600, **changes.pop('lately', {})}
    facts: dict[str, Any] = {
        'running': True,
        'clients': 1,
        'max_clients': 0,
        'counts': {**counts, 'connections': 3, 'requests': 4000},
        'rate': 10.0,
        'decode': Spread(0.4, 0.5, 0.6, 2.0),
        'encode': Spread(0.1, 0.1, 0.2, 0.3),
    }
    return ServerFacts(lately=lately, **{**facts, **changes})


def recording(**changes: Any) -> RecordingFacts:
    """Return a recording that keeps up."""
    facts: dict[str, Any] = {
        'written': 5000,
        'dropped': 0,
        'size': 10**9,
        'written_lately': 200,
        'dropped_lately': 0,
    }
    return RecordingFacts(**{**facts, **changes})
