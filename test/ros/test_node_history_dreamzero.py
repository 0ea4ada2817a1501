# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A tiny DreamZero drives a robot of three cameras through the real node, and shows its dreams."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('diffusers')
pytest.importorskip('transformers')

import node_process
from dreaming_robot import ARM, dreaming_robot
from node_process import RELIABLE
from sensor_msgs.msg import Image

from openpi_policy_ros import cli
from openpi_policy_ros.configuration.robot import load_robot

pytestmark = pytest.mark.ros

PAUSE = 'WAIT: the chunk has been played (open_loop); waiting for the next'
IMAGINED = 'openpi_policy/imagined'


def test_a_tiny_dreamzero_plays_chunk_after_chunk_within_the_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its libraries take long to import.
    monkeypatch.setattr(node_process, 'WAIT', 90.0)
    checkpoint = tmp_path / 'checkpoint'
    assert cli.main(['make-checkpoint', '--policy', 'dreamzero', str(checkpoint)]) == 0
    policy = tmp_path / 'policy.yaml'
    policy.write_text('policy: dreamzero\nimagined: true\n')
    with dreaming_robot(
        tmp_path, str(checkpoint), {'visual': {'imagined_rate': 10.0}}, policy=str(policy)
    ) as robot:
        robot.wait_for('READY')
        robot.peer.listen(IMAGINED, Image, RELIABLE)
        robot.enable()
        robot.peer.wait_until('pauses', lambda: robot.said().count(PAUSE) >= 4)
        robot.peer.wait_until('dreams', lambda: len(robot.peer.heard(IMAGINED)) >= 8)
        said = robot.said()
        session = robot.process.text().count('new session')
        robot.enable(False)
        robot.peer.reset()
        assert robot.process.text().count('new session') == session + 1
        robot.wait_for('READY')
        commands = robot.peer.heard(ARM)
        (picture, *_) = robot.peer.heard(IMAGINED)
    assert not [text for text in said if text.startswith('HOLD')]
    rows = np.array([point.positions for message in commands for point in message.points])
    limits = load_robot('roboarena_dreamzero').limits
    assert np.isfinite(rows).all()
    assert rows.shape[1] == 7
    assert (rows >= np.array(limits.position_min)[:7]).all()
    assert (rows <= np.array(limits.position_max)[:7]).all()
    # Wrist above, the two others below: twice as wide as high.
    assert (picture.encoding, picture.width) == ('rgb8', 2 * picture.height)
