# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The real node draws its chunks once it knows the robot, and says why it does not before."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('visualization_msgs.msg')

from digest_policy import HORIZON
from light_robot import robot_with
from node_process import LATCHED, Peer
from std_msgs.msg import String
from visualization_msgs.msg import Marker, MarkerArray

from openpi_policy_ros.control.kinematics import KinematicTree

pytestmark = pytest.mark.ros

TOPIC = 'openpi_policy/planned_path'
URDF = """<robot name="light">
  <link name="stand"/><link name="column"/><link name="beam"/><link name="hook"/><link name="nail"/>
  <joint name="lift" type="prismatic"><parent link="stand"/><child link="column"/>
    <origin xyz="0.1 0.2 0.3"/><axis xyz="0 0 1"/></joint>
  <joint name="shoulder" type="revolute"><parent link="column"/><child link="beam"/>
    <origin xyz="0 0 0.5" rpy="0.3 0 0"/><axis xyz="0 0 1"/></joint>
  <joint name="end" type="fixed"><parent link="beam"/><child link="hook"/>
    <origin xyz="0.7 0 0"/></joint>
  <joint name="finger" type="prismatic"><parent link="hook"/><child link="nail"/>
    <axis xyz="0 1 0"/></joint>
</robot>"""
TREE = KinematicTree(URDF)


def describe(peer: Peer, urdf: str) -> None:
    peer.publisher('robot_description', String, LATCHED).publish(String(data=urdf))


def wait_for_fact(peer: Peer, text: str) -> None:
    peer.wait_until(text, lambda: text in peer.status().get('planned_path', ''))


def of(message: MarkerArray, namespace: str, kind: int) -> Marker:
    (marker,) = [one for one in message.markers if (one.ns, one.type) == (namespace, kind)]
    return marker


def test_chunks_are_drawn_at_the_tips_once_the_robot_is_known(tmp_path: Path) -> None:
    with robot_with(tmp_path, {'visual': {'frame_prefix': 'left/'}}) as robot:
        peer = robot.peer
        peer.listen(TOPIC, MarkerArray)
        robot.shine(0.0)
        robot.wait_for('READY')
        # Chunks come, but nobody says how the robot is built.
        peer.wait_until('chunks', lambda: len(peer.heard('openpi_policy/action_chunk_array')) > 5)
        wait_for_fact(peer, 'not drawn: nobody has published a URDF on /robot_description yet')
        # One of another robot.
        describe(peer, URDF.replace('shoulder', 'elbow').replace('finger', 'thumb'))
        wait_for_fact(peer, "outputs.arm: the URDF has no joint 'shoulder'")
        # One that does; the lift is not measured.
        describe(peer, URDF)
        wait_for_fact(peer, 'not drawn: the position of lift is not measured')
        assert peer.heard(TOPIC) == []

        height = 0.25
        light = 0.4
        robot.shine(light)
        peer.wait_until(
            'a path',
            lambda: _at_light(peer.heard(TOPIC), height, light),
            repeat=lambda: peer.publish_joints({'lift': height}),
        )
        wait_for_fact(peer, 'hook, nail seen from left/stand')
        message = peer.heard(TOPIC)[-1]
        chunk = np.reshape(peer.heard('openpi_policy/action_chunk_array')[-1].data, (HORIZON, -1))
        for namespace, tip in (('arm: hook', 'hook'), ('hand: nail', 'nail')):
            expected = TREE.chain(tip).poses(
                {'lift': height, 'shoulder': chunk[:, 0], 'finger': chunk[:, 1]}
            )[1]
            for kind in (Marker.LINE_STRIP, Marker.SPHERE_LIST):
                marker = of(message, namespace, kind)
                assert marker.header.frame_id == 'left/stand'
                points = [(point.x, point.y, point.z) for point in marker.points]
                np.testing.assert_allclose(points, expected, atol=1e-6)
        assert of(message, 'state', Marker.TEXT_VIEW_FACING).text == 'READY'
        stamp = of(message, 'arm: hook', Marker.LINE_STRIP).header.stamp
        age = peer.now() - (stamp.sec * 10**9 + stamp.nanosec)
        assert 0 < age < 10 * 10**9

        log = robot.process.text()
        assert len(re.findall(r'\[INFO\].*nobody has published a URDF', log)) == 1
        assert len(re.findall(r"\[WARN\].*no joint 'shoulder'", log)) == 1
        assert len(re.findall(r'\[WARN\].*position of lift', log)) == 1
        # Without the robot's description nothing is drawn any more.
        describe(peer, '<sdf/>')
        wait_for_fact(peer, 'holds a <sdf>, expected <robot>: a URDF')
        peer.forget(TOPIC)
        threading.Event().wait(0.3)
        assert peer.heard(TOPIC) == []
        # Taken down and built anew, it hears the description again, which is latched.
        describe(peer, URDF)
        wait_for_fact(peer, 'hook, nail seen from left/stand')
        assert peer.transition('deactivate')
        assert peer.transition('cleanup')
        _wait_until_gone(peer)
        peer.forget(TOPIC)
        assert peer.transition('configure')
        assert peer.transition('activate')
        peer.wait_until(
            'a path',
            lambda: peer.heard(TOPIC),
            repeat=lambda: peer.publish_joints({'lift': height}),
        )


def test_a_robot_file_may_switch_the_path_off(tmp_path: Path) -> None:
    with robot_with(tmp_path, {'visual': {'planned_path': False}}) as robot:
        robot.wait_for('READY')
        wait_for_fact(robot.peer, 'not drawn: visual.planned_path is false')
        names = dict(robot.peer.node.get_topic_names_and_types())
        assert '/openpi_policy/action_chunk' in names
        assert f'/{TOPIC}' not in names


def _wait_until_gone(peer: Peer) -> None:
    peer.wait_until(
        'the topic is gone', lambda: not peer.node.get_publishers_info_by_topic(f'/{TOPIC}')
    )


def _at_light(heard: list[MarkerArray], height: float, light: float) -> bool:
    """Return whether the newest path belongs to these, so that no older one is judged."""
    if not heard:
        return False
    expected = TREE.chain('nail').poses({'lift': height, 'shoulder': light, 'finger': light})[1]
    point = of(heard[-1], 'hand: nail', Marker.LINE_STRIP).points[-1]
    return bool(np.abs(np.array([point.x, point.y, point.z]) - expected).max() < 0.001)
