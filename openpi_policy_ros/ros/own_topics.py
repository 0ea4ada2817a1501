# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which topics the node itself uses: none of them may be a controller's."""

from __future__ import annotations

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.ros.description import ROBOT_DESCRIPTION
from openpi_policy_ros.ros.sensors import PROMPT

PUBLISHED = {
    '~/action_chunk': 'chunks',
    '~/action_chunk_array': 'chunks',
    '~/planned_path': 'the planned path',
    '~/imagined': 'the imagined future',
    '~/current_prompt': 'the prompt in use',
    '~/status': 'its status',
    '/diagnostics': 'diagnostics',
}
"""Topic → what it is for. Those of rcl itself are there before, and refused by it."""


def own_topics(robot: RobotConfig) -> dict[str, str]:
    """Return every topic of a node with this robot file, as written there → what it is for."""
    heard = {PROMPT: 'the prompt', ROBOT_DESCRIPTION: 'the limits of joints'}
    heard |= {topic: 'joint states' for topic, _ in robot.joints.topics()}
    heard |= {camera.topic: f'camera {name!r}' for name, camera in robot.cameras.items()}
    if robot.safety.interlock_topic:
        heard[robot.safety.interlock_topic] = 'the interlock'
    return {**PUBLISHED, **heard}
