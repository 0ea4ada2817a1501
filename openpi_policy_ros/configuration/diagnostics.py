# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""From where on ``/diagnostics`` says WARN and ERROR."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from openpi_policy_ros.configuration.schema import Section

LOWER_IS_WORSE = ('camera_rate', 'joint_rate')
"""Thresholds that warn below, not above."""

_WARN, _ERROR = '_warn', '_error'


def _share(default: float, description: str) -> Any:
    return Field(default=default, ge=0.0, le=1.0, description=description)


def _multiple(default: float, description: str) -> Any:
    return Field(default=default, ge=0.0, le=1000.0, description=description)


def _count(default: float, description: str) -> Any:
    return Field(default=default, ge=0.0, le=1e6, description=description)


class Diagnostics(Section):
    """WARN and ERROR of each status of ``/diagnostics``; may be set while the node runs.

    ``x_warn`` and ``x_error`` with the same value leave out WARN. A share never exceeds 1, so that
    1 switches a level off (0 where lower is worse).
    """

    window: float = Field(
        default=5.0,
        ge=1.0,
        le=60.0,
        description='Seconds over which rates and shares are counted.',
    )
    camera_rate: float = _multiple(
        0.0, 'Images per second expected of each camera, Hz; 0 = timing.action_rate.'
    )
    camera_rate_warn: float = _share(0.8, 'WARN below this share of the expected rate.')
    camera_rate_error: float = _share(0.5, 'ERROR below this share of the expected rate.')
    joint_rate: float = _multiple(
        0.0, 'Positions per second expected of each joint, Hz; 0 = timing.action_rate.'
    )
    joint_rate_warn: float = _share(0.8, 'WARN below this share of the expected rate.')
    joint_rate_error: float = _share(0.5, 'ERROR below this share of the expected rate.')
    age_warn: float = _multiple(
        1.0, 'WARN when the newest image or position is older than so many times its max_age.'
    )
    age_error: float = _multiple(
        3.0, 'ERROR when the newest image or position is older than so many times its max_age.'
    )
    stale_after: float = Field(
        default=5.0,
        gt=0.0,
        le=3600.0,
        description='STALE when the newest image or position is older than this, s.',
    )
    loss_warn: float = _share(0.1, 'WARN above this share of images lost on their way.')
    loss_error: float = _share(0.5, 'ERROR above this share of images lost on their way.')
    refused_warn: float = _share(
        0.05, 'WARN above this share of images or positions that came and cannot be used.'
    )
    refused_error: float = _share(
        0.5, 'ERROR above this share of images or positions that came and cannot be used.'
    )
    latency_warn: float = _multiple(
        0.5,
        'WARN when the p95 of an inference exceeds this share of its budget: the duration of a '
        'chunk, or safety.max_wait where the robot waits for each (open_loop).',
    )
    latency_error: float = _multiple(
        1.0, 'ERROR when the p95 of an inference exceeds this share of its budget.'
    )
    failures_warn: int = Field(
        default=0, ge=0, le=1000000, description='WARN above so many failed inferences in a row.'
    )
    failures_error: int = Field(
        default=2, ge=0, le=1000000, description='ERROR above so many failed inferences in a row.'
    )
    starved_warn: float = _count(
        0.0, 'WARN above so many times in the last minute that driving ran out of actions.'
    )
    starved_error: float = _count(
        10.0, 'ERROR above so many times in the last minute that driving ran out of actions.'
    )
    rejected_warn: float = _share(
        0.05, 'WARN above this share of chunks that were refused or came too late.'
    )
    rejected_error: float = _share(
        0.5, 'ERROR above this share of chunks that were refused or came too late.'
    )
    clamped_warn: float = _share(
        0.05, 'WARN above this share of commands that a position limit changed.'
    )
    clamped_error: float = _share(
        0.5, 'ERROR above this share of commands that a position limit changed.'
    )
    slowed_warn: float = _share(
        0.8, 'WARN above this share of commands that a velocity limit changed.'
    )
    slowed_error: float = _share(
        1.0, 'ERROR above this share of commands that a velocity limit changed; 1 = never.'
    )
    server_failed_warn: float = _share(
        0.05, 'WARN above this share of requests in the last minute that failed or were invalid.'
    )
    server_failed_error: float = _share(
        0.5, 'ERROR above this share of requests in the last minute that failed or were invalid.'
    )
    recording_loss_warn: float = _share(
        0.0, 'WARN above this share of messages that the recording had to drop.'
    )
    recording_loss_error: float = _share(
        0.05, 'ERROR above this share of messages that the recording had to drop.'
    )

    @model_validator(mode='after')
    def _errors_lie_beyond_warnings(self) -> Diagnostics:
        problems = []
        for name in pairs():
            warn, error = self.pair(name)
            lower = name in LOWER_IS_WORSE
            if (error > warn) if lower else (error < warn):
                problems.append(
                    f'{name}{_ERROR} is {error:g} and {name}{_WARN} {warn:g}; expected '
                    f'the error {"at or below" if lower else "at or above"} the warning'
                )
        if problems:
            raise ValueError('; '.join(problems))
        return self

    def pair(self, name: str) -> tuple[float, float]:
        """Return (warn, error) of a threshold."""
        return getattr(self, f'{name}{_WARN}'), getattr(self, f'{name}{_ERROR}')


def pairs() -> list[str]:
    """Return the names of all thresholds: each has ``<name>_warn`` and ``<name>_error``."""
    return [key.removesuffix(_WARN) for key in Diagnostics.model_fields if key.endswith(_WARN)]
