# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Who is on the graph: the sensors and controllers that a robot file names, stamps, clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openpi_policy_ros.configuration.robot import Camera, RobotConfig, Timing
from openpi_policy_ros.control.delivery import Account, Sender, explain
from openpi_policy_ros.doctor import children
from openpi_policy_ros.doctor.asked import Asked
from openpi_policy_ros.doctor.findings import (
    Finding,
    Outcome,
    fail,
    not_made,
    ok,
    skipped,
    warn,
)

PATIENCE = 14.0
"""Seconds for all of it."""
NODES, CLOCK, JOINTS, INTERLOCK = 'nodes', 'simulated time', 'joint_states', 'interlock'
_WANTED = {
    'trajectory': 'trajectory_msgs/msg/JointTrajectory',
    'array': 'std_msgs/msg/Float64MultiArray',
}


def look(asked: Asked) -> dict[str, Any]:
    """Return what a process of its own hears, or its problem."""
    robot = asked.robot_name if asked.robot is not None else ''
    return children.ask('openpi_policy_ros.doctor.graph_node', [robot, asked.namespace], PATIENCE)


def judge(asked: Asked, seen: Mapping[str, Any]) -> list[Finding]:
    """Judge what was heard, or that nothing could be."""
    if 'no_rclpy' in seen:
        return [skipped(NODES, seen['no_rclpy'])]
    if 'problem' in seen:
        remedy = 'see what is said of ROS and of the DDS round trip'
        found = children.unanswered(NODES, 'the graph cannot be looked at', seen, remedy)
        if found.outcome is not Outcome.NOT_MADE:
            return [found]
        return [found, *(not_made(check, 'see nodes') for check in robot_checks(asked.robot))]
    findings = [judge_nodes(seen['nodes'], asked.namespace), *judge_clock(seen)]
    if asked.robot is None:
        why = 'no --robot was named, so it is not known which topics to look at'
        return [*findings, skipped('robot on the graph', why)]
    return [*findings, *judge_robot(asked.robot, seen)]


def robot_checks(robot: RobotConfig | None) -> list[str]:
    """Return what is looked at of a robot, as the findings name it; [] = there is none."""
    if robot is None:
        return []
    return [
        *(f'camera {name}' for name in robot.camera_names),
        *([JOINTS] if robot.joints.names else []),
        *([INTERLOCK] if robot.safety.interlock_topic else []),
        *(f'output {name}' for name in robot.output_names),
    ]


def judge_nodes(nodes: Sequence[str], namespace: str) -> Finding:
    """Judge who is there."""
    name = f'{"/" + namespace.strip("/") if namespace.strip("/") else ""}/openpi_policy'
    text = f'{len(nodes)} nodes: {", ".join(nodes)}' if nodes else 'nobody else is on the graph'
    if nodes.count(name) > 1:
        remedy = 'stop one, or give each robot a namespace (namespace:=left)'
        return fail(NODES, f'{name} is there {nodes.count(name)} times', remedy)
    if not nodes:
        remedy = (
            'start the drivers; if they run, compare ROS_DOMAIN_ID and RMW_IMPLEMENTATION with '
            'theirs'
        )
        return warn(NODES, text, remedy)
    return ok(NODES, text)


def judge_clock(seen: Mapping[str, Any]) -> list[Finding]:
    """Judge /clock against the node's use_sim_time."""
    there, wanted = seen['clock'] is not None, seen['sim_time']
    if wanted and not there:
        text = 'use_sim_time is true, but nobody publishes /clock: the node stands still'
        return [fail(CLOCK, text, 'start the simulator or bag player, or use_sim_time:=false')]
    if there and wanted is False:
        text = '/clock is published, but use_sim_time of the node is false'
        return [
            warn(CLOCK, text, 'restart it with use_sim_time:=true if the sensors are simulated')
        ]
    if there:
        return [ok(CLOCK, '/clock is published')]
    return []


def judge_robot(robot: RobotConfig, seen: Mapping[str, Any]) -> list[Finding]:
    """Judge cameras, joints, interlock and controllers."""
    findings = [
        judge_camera(name, robot.cameras[name], robot.timing, seen['cameras'][name], seen)
        for name in robot.camera_names
    ]
    if robot.joints.names:
        findings.append(judge_joints(robot, seen['joints'], seen))
    if robot.safety.interlock_topic:
        findings.append(judge_interlock(robot, seen['interlock']))
    findings += [
        judge_output(name, robot.outputs[name].type, seen['outputs'][name])
        for name in robot.output_names
    ]
    return findings


def judge_camera(
    name: str, camera: Camera, timing: Timing, one: Mapping[str, Any], seen: Mapping[str, Any]
) -> Finding:
    """Judge one camera by who publishes it and what came."""
    check = f'camera {name}'
    senders = [Sender(*sender) for sender in one['senders']]
    account = Account(one['count'], 0, silent=one['count'] == 0)
    why = explain(name, camera, one['topic'], senders, account, seen['remedy'])
    if why:
        found, _, remedy = why.partition('; ')
        return fail(check, found, remedy or 'see that the driver sends')
    if one['refusal']:
        found, _, remedy = one['refusal'].partition('; ')
        return fail(check, found, remedy)
    nodes = ', '.join(sorted({sender.node for sender in senders}))
    text = f'{nodes} sends {one["size"]} on {one["topic"]}, {one["rate"]:.0f} Hz'
    max_age = camera.max_age or timing.camera_max_age
    return _judge_stamps(check, text, one, seen, timing, max_age, 'timing.camera_max_age')


def judge_joints(robot: RobotConfig, one: Mapping[str, Any], seen: Mapping[str, Any]) -> Finding:
    """Judge joint_states by the names and stamps that came."""
    if not one['count']:
        who = ', '.join(sender[0] for sender in one['senders'])
        text = (
            f'{who} publishes {one["topic"]}, but nothing comes'
            if who
            else (f'nobody publishes {one["topic"]}')
        )
        return fail(
            JOINTS, text, 'start joint_state_broadcaster, or correct namespace and remapping'
        )
    missing = [name for name in robot.joints.names if name not in one['names']]
    if missing:
        there = ', '.join(one['names'])
        return fail(
            JOINTS,
            f'{", ".join(missing)} never came; there are {there}',
            'correct joints.names, or start the driver that publishes them',
        )
    rate = one['rate']
    text = f'all {len(robot.joints.names)} joints on {one["topic"]}, {rate:.0f} Hz'
    max_age = robot.timing.joint_max_age
    return _judge_stamps(JOINTS, text, one, seen, robot.timing, max_age, 'timing.joint_max_age')


def judge_interlock(robot: RobotConfig, rate: float) -> Finding:
    """Judge how often a second the interlock was heard."""
    topic, check = robot.safety.interlock_topic, INTERLOCK
    if not rate:
        text = f'nobody was heard on {topic}: ~/enable is refused with S12'
        return fail(check, text, 'start what publishes it, reliable, true again and again')
    least = 1.0 / robot.safety.interlock_timeout
    text = f'{topic}, {rate:.0f} Hz'
    if rate < least:
        remedy = 'publish it more often, or raise safety.interlock_timeout'
        return warn(check, f'{text}; safety.interlock_timeout needs {least:.0f} Hz or more', remedy)
    return ok(check, text)


def judge_output(name: str, kind: str, one: Mapping[str, Any]) -> Finding:
    """Judge whether a controller takes what an output sends."""
    check, topic = f'output {name}', one['topic']
    takers = one['takers']
    if not takers:
        return fail(
            check,
            f'nobody takes commands on {topic}',
            f'load and activate its controller (`ros2 control list_controllers`), or correct '
            f'outputs.{name}.topic',
        )
    wanted = _WANTED.get(kind)
    others = [f'{node} ({found})' for node, found in takers if wanted and found != wanted]
    if others:
        text = f'{", ".join(others)} takes another type on {topic}, expected {wanted}'
        return fail(check, text, f'correct outputs.{name}.type or topic')
    return ok(check, f'{", ".join(sorted({node for node, _ in takers}))} takes it on {topic}')


def _judge_stamps(
    check: str,
    text: str,
    one: Mapping[str, Any],
    seen: Mapping[str, Any],
    timing: Timing,
    max_age: float,
    key: str,
) -> Finding:
    """Judge the age that messages had on arrival, by the clock that they go by."""
    if one['unstamped'] and not timing.allow_unstamped:
        found = f'{text}, but with stamp 0, which is refused'
        return fail(check, found, 'stamp in the driver, or set timing.allow_unstamped: true')
    if one['oldest'] is None:
        return ok(check, text)
    shift = 0.0
    if seen['clock'] is not None and abs(one['newest']) > 1.0:
        # They go by simulated time.
        shift = seen['now'] - seen['clock']
    newest, oldest = one['newest'] - shift, one['oldest'] - shift
    if newest < -timing.future_tolerance:
        found = f'{text}, stamped {-newest:.3f} s in the future: clocks not synchronised'
        return fail(check, found, 'run chrony on both machines')
    if oldest > max_age:
        found = f'{text}, up to {oldest:.3f} s old on arrival (allowed {max_age:g} s)'
        return warn(check, found, f'see what delays it or how it is stamped, or raise {key}')
    return ok(check, f'{text}, at most {oldest:.3f} s old on arrival')
