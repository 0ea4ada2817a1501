# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What RViz and Foxglove are told to show is there: the node has each name, with that type."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

pytest.importorskip('rclpy')
pytest.importorskip('visualization_msgs.msg')

from light_robot import ROBOT, robot_with
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from openpi_policy_ros.cli.layout_foxglove import foxglove_layout
from openpi_policy_ros.cli.layout_rviz import rviz_config
from openpi_policy_ros.cli.layout_scene import Scene
from openpi_policy_ros.configuration.robot import load_robot

pytestmark = pytest.mark.ros

IMAGES = ('/one/image_raw', '/two/image_raw/compressed')


def test_all_that_a_layout_names_is_what_the_node_has_and_of_that_type(tmp_path: Path) -> None:
    cameras = {name: dict(camera) for name, camera in ROBOT['cameras'].items()}
    cameras['two'] |= {'topic': 'two/image_raw/compressed', 'transport': 'compressed'}
    joints = {**ROBOT['joints'], 'action_indices': [0, 1]}
    changes = {'cameras': cameras, 'joints': joints}
    with robot_with(tmp_path, changes, autostart=False) as robot:
        node = robot.peer.node
        assert robot.peer.transition('configure')
        scene = Scene(load_robot(str(tmp_path / 'robot.yaml')))
        names = {**topics_of_rviz(rviz_config(scene)), **topics_of_foxglove(foxglove_layout(scene))}
        assert len(names) == 13

        def missing() -> dict[str, set[str]]:
            known: dict[str, set[str]] = {}
            for ask in (
                node.get_publisher_names_and_types_by_node,
                node.get_subscriber_names_and_types_by_node,
                node.get_service_names_and_types_by_node,
            ):
                for name, types in ask('openpi_policy', '/'):
                    known.setdefault(name, set()).update(types)
            return {
                name: known.get(name, set())
                for name, wanted in names.items()
                if wanted not in known.get(name, set())
            }

        try:
            robot.peer.wait_until('every name', lambda: not missing())
        except AssertionError:
            pytest.fail(f'not of the node: {missing()}')


def topics_of_rviz(config: str) -> dict[str, str]:
    """Return topic → type, as the displays subscribe them."""
    types = {
        'Image': 'sensor_msgs/msg/Image',
        'MarkerArray': 'visualization_msgs/msg/MarkerArray',
        'RobotModel': 'std_msgs/msg/String',
    }
    named = {}
    for display in yaml.safe_load(config)['Visualization Manager']['Displays']:
        topic = display.get('Topic') or display.get('Description Topic')
        if topic is not None:
            kind = types[display['Class'].split('/')[1]]
            named[topic['Value']] = (
                'sensor_msgs/msg/CompressedImage'
                if topic['Value'].endswith('/compressed')
                else kind
            )
    return named


def topics_of_foxglove(layout: str) -> dict[str, str]:
    """Return topic or service → type, as the panels use them."""
    named = {'/diagnostics': 'diagnostic_msgs/msg/DiagnosticArray'}
    plotted = {'/openpi_policy/action_chunk': JointTrajectory, '/joint_states': JointState}
    for key, panel in json.loads(layout)['configById'].items():
        kind = key.split('!')[0]
        if kind == 'CallService':
            known = 'SetBool' if 'data' in json.loads(panel['requestPayload']) else 'Trigger'
            named[panel['serviceName']] = f'std_srvs/srv/{known}'
        elif kind == 'Publish':
            named[panel['topicName']] = panel['datatype']
        elif kind == 'RawMessages':
            said = {'status': 'diagnostic_msgs/msg/DiagnosticStatus'}
            topic = panel['topicPath']
            named[topic] = said.get(topic.split('/')[-1], 'std_msgs/msg/String')
        elif kind == 'Plot':
            for line in panel['paths']:
                topic, *fields = re.sub(r'\[[^]]*]', '', line['value']).split('.')
                message = plotted[topic]
                named[topic] = f'{message.__module__.split(".")[0]}/msg/{message.__name__}'
                inner = JointTrajectoryPoint if fields[0] == 'points' else message
                assert fields[-1] in inner.get_fields_and_field_types(), line
        elif kind == '3D':
            named |= dict.fromkeys(panel['topics'], 'visualization_msgs/msg/MarkerArray')
            named[panel['layers']['robot']['topic']] = 'std_msgs/msg/String'
        elif kind not in ('DiagnosticSummary', 'DiagnosticStatusPanel'):
            assert kind == 'Image', kind
            assert panel['imageMode']['imageTopic'] in (
                '/one/image_raw',
                '/two/image_raw/compressed',
            )
    return named
