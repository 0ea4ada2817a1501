# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Check a robot file against the loaded policy, before anything listens or moves."""

from __future__ import annotations

from openpi_policy_ros.configuration.names import close_name
from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.axes import axes_problems
from openpi_policy_ros.control.chunk import why_no_trajectory
from openpi_policy_ros.control.joints import JointMap
from openpi_policy_ros.policies.base import PolicySpec


def robot_problems(robot: RobotConfig, spec: PolicySpec) -> list[str]:
    """Return everything in which this robot's sensors and outputs do not fit the policy.

    A robot without cameras and joints has no door to the policy and no problem.
    """
    if not robot.camera_names and not robot.joints.names:
        return []
    return [
        *_camera_problems(robot, spec),
        *_state_problems(robot, spec),
        *_action(robot, spec),
        *axes_problems(robot, spec),
    ]


def _camera_problems(robot: RobotConfig, spec: PolicySpec) -> list[str]:
    read = [key for camera in spec.cameras for key in camera.wire_keys]
    carried = {camera.key for camera in robot.cameras.values()}
    problems = [
        f'cameras.{name}.key: the policy reads no image called {camera.key!r}'
        + close_name(camera.key, read)
        for name, camera in robot.cameras.items()
        if camera.key not in read
    ]
    for slot in spec.cameras:
        if slot.required and carried.isdisjoint(slot.wire_keys):
            problems.append(
                f'cameras: none carries {" or ".join(map(repr, slot.wire_keys))}, which the policy '
                f'requires for {slot.feature}; add a camera with that key, or list {slot.feature} '
                'in profile.optional_cameras'
            )
    return problems


def _state_problems(robot: RobotConfig, spec: PolicySpec) -> list[str]:
    read = spec.state.wire_keys
    carried = dict.fromkeys(key for key in robot.joints.keys if key)
    problems = [
        f'joints.keys: the policy reads no state called {key!r}{close_name(key, read)}'
        for key in carried
        if key not in read
    ]
    # Keys of the key map are concatenated, so each must come; unmapped ones are alternatives.
    mapped = {key for key, _ in robot.profile.pairs()}
    problems += [
        f'joints.keys: no joint carries {key!r}, which profile.key_map maps to the state'
        for key in read
        if key in mapped and key not in carried
    ]
    return problems


def _action(robot: RobotConfig, spec: PolicySpec) -> list[str]:
    problems = [
        f'joints.action_indices: {name} takes column {column}, but the policy has '
        f'{spec.action_dim} (0..{spec.action_dim - 1})'
        for name, column in JointMap(robot.joints).commanded
        if column >= spec.action_dim
    ]
    if robot.timing.action_rate is None and not why_no_trajectory(robot, spec):
        problems.append(
            'timing.action_rate: required with joints.action_indices, to time the actions '
            "(the rate of the policy's training data, e.g. 15.0 for DROID)"
        )
    elif robot.timing.action_rate is None and robot.camera_names and spec.history_offsets:
        problems.append(
            'timing.action_rate: required, as the policy looks back at images of '
            f'{-spec.history_offsets[0]} action steps ago; write the rate of its training data '
            '(e.g. 15.0 for DROID)'
        )
    return problems
