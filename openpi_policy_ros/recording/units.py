# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Name the units of a recording's numbers as far as its robot file tells them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from openpi_policy_ros.control.chunk import JOINT_SPACES

OWN = 'policy units'
"""Of an action of which nothing is known but that the policy understands it."""

POSITION, VELOCITY = 'rad or m', 'rad/s or m/s'
"""Of what ROS tells or is told: it does not say which joint turns and which one slides."""

_DEGREES = {POSITION: 'deg', VELOCITY: 'deg/s'}


def action_units(header: Mapping[str, Any]) -> dict[str, str]:
    """Return action → unit of one of its numbers, and of differences between two.

    An action that is a joint's number times a scale is told in the joint's unit: with the scale −25
    one of the action is −0.04 of it.

    Args:
        header: what ``~/recording`` says.

    """
    policy, config = header['policy'], header['robot']['config']
    quantity = JOINT_SPACES.get(policy['action_space'])
    if config is None or quantity is None:
        return dict.fromkeys(policy['action_names'], OWN)
    velocity = quantity == 'velocities'
    joints = config['joints']
    scales = (joints.get('velocity_scale') if velocity else []) or joints['scale']
    known = dict(zip(joints['names'], scales or [1.0] * len(joints['names']), strict=False))
    unit = VELOCITY if velocity else POSITION
    columns = {column: known.get(joint, 1.0) for joint, column in _columns(config)}
    return {
        name: _scaled(unit, columns[column]) if column in columns else OWN
        for column, name in enumerate(policy['action_names'])
    }


def motion_unit(header: Mapping[str, Any]) -> str:
    """Return the unit of what is measured, commanded and planned of the joints."""
    if JOINT_SPACES.get(header['policy']['action_space']) != 'velocities':
        return POSITION
    return f'measured: {POSITION}; commanded and chunks: {VELOCITY}'


def _columns(config: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield (joint, column) of every joint that an action moves."""
    joints = config['joints']
    yield from zip(joints['names'], joints['action_indices'], strict=False)
    for name in config.get('output_names', []):
        output = config['outputs'][name]
        yield from zip(output['joints'], output['action_indices'], strict=True)


def _scaled(unit: str, scale: float) -> str:
    if scale == 1.0:
        return unit
    if math.isclose(scale, math.degrees(1.0), rel_tol=1e-4):
        return _DEGREES[unit]
    return f'{1.0 / scale:.4g} {unit}'
