# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot of the scenarios: three joints that follow trajectories, a wrist and a gripper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judge import Judged

ARM = ('shoulder', 'elbow', 'forearm')
WRIST = ('wrist',)
GRIPPER = ('finger',)
JOINTS = (*ARM, *WRIST, *GRIPPER)
CAMERAS = ('front', 'hand')
HOME = {'shoulder': 0.1, 'elbow': -0.2, 'forearm': 0.3, 'wrist': 0.0, 'finger': 0.0}

LOWEST = {'shoulder': -1.0, 'elbow': -1.1, 'forearm': -1.2, 'wrist': -0.9, 'finger': -0.001}
HIGHEST = {'shoulder': 1.0, 'elbow': 1.1, 'forearm': 1.2, 'wrist': 0.9, 'finger': 0.05}
FASTEST = {'shoulder': 1.0, 'elbow': 1.2, 'forearm': 1.6, 'wrist': 2.0, 'finger': 0.5}
MARGIN = 0.02
SPEED_SCALE = 0.5
RATE = 50.0
"""Control rate, Hz."""
MAX_LOOKAHEAD = 0.3
ACTION_RATE = 20.0
OPEN, CLOSED = 0.0, 0.04
INTERLOCK = 'interlock'
TOPICS = {'arm': 'arm_controller/joint_trajectory', 'wrist': 'wrist/commands', 'hand': 'hand/cmd'}
OWNED = {'arm': ARM, 'wrist': WRIST, 'hand': GRIPPER}

WIRE_IMAGES = {'front': 'image/front', 'hand': 'image/hand'}
WIRE_STATE = 'joints'


def robot_file(**sections: dict[str, Any]) -> dict[str, Any]:
    """Return the robot file; ``sections`` replace keys of its sections, e.g. ``safety``."""
    values: dict[str, Any] = {
        'profile': {
            'key_map': [f'{WIRE_STATE} -> observation.state'],
            'action_space': 'joint_position',
            'action_names': list(JOINTS),
        },
        'camera_names': list(CAMERAS),
        'cameras': {
            name: {'topic': f'{name}/image_raw', 'key': WIRE_IMAGES[name]} for name in CAMERAS
        },
        'joints': {'names': list(JOINTS), 'keys': [WIRE_STATE]},
        'timing': {'action_rate': ACTION_RATE, 'inference_rate': 10.0},
        'output_names': list(TOPICS),
        'outputs': {
            'arm': {
                'type': 'trajectory',
                'topic': TOPICS['arm'],
                'joints': list(ARM),
                'action_indices': [0, 1, 2],
            },
            'wrist': {
                'type': 'array',
                'topic': TOPICS['wrist'],
                'joints': list(WRIST),
                'action_indices': [3],
            },
            'hand': {
                'type': 'array',
                'topic': TOPICS['hand'],
                'joints': list(GRIPPER),
                'action_indices': [4],
                'gripper': True,
                'threshold': 0.5,
                'hysteresis': 0.1,
                'open': OPEN,
                'closed': CLOSED,
            },
        },
        'limits': {
            'position_min': [LOWEST[name] for name in JOINTS],
            'position_max': [HIGHEST[name] for name in JOINTS],
            'velocity': [FASTEST[name] for name in JOINTS],
        },
        'execution': {'control_rate': RATE, 'max_lookahead': MAX_LOOKAHEAD},
        'safety': {
            'position_margin': MARGIN,
            'velocity_scale': SPEED_SCALE,
            'interlock_topic': INTERLOCK,
            # A shared test machine stalls for longer than a robot's own may.
            'interlock_timeout': 0.5,
            'watchdog_periods': 10.0,
        },
    }
    for section, keys in sections.items():
        values[section] = {**values.get(section, {}), **keys}
    return values


def judged_outputs(home: Mapping[str, float] = HOME) -> list[Judged]:
    """Return what each output is judged by, from the same numbers as the robot file.

    Args:
        home: joint → where it is at first.

    """
    return [
        Judged(
            name=name,
            kind='trajectory' if name == 'arm' else 'array',
            joints=joints,
            lower=tuple(LOWEST[one] + _margin(one) for one in joints),
            upper=tuple(HIGHEST[one] - _margin(one) for one in joints),
            speed=tuple(FASTEST[one] * SPEED_SCALE for one in joints),
            home=tuple(home[one] for one in joints),
        )
        for name, joints in OWNED.items()
    ]


def _margin(joint: str) -> float:
    # A gripper closes fully: its range is of the size of the margin.
    return 0.0 if joint in GRIPPER else MARGIN
