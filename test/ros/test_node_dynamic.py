# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which parameters a running node takes, what they do at once, and why it refuses the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')

from light_robot import HAND, ROBOT, TARGET, Robot, robot_with
from node_process import RELIABLE, Peer
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.parameter import Parameter
from std_msgs.msg import String

pytestmark = pytest.mark.ros

PROMPT = 'openpi_policy/current_prompt'
NUMBERS = 'openpi_policy/action_chunk_array'
SEED, LENGTH = 3, 2
"""Columns of the digest: the seed, and the length of the prompt."""


def set_together(peer: Peer, **values: Any) -> tuple[bool, str]:
    """Set parameters atomically; ``__`` stands for a dot."""
    request = SetParametersAtomically.Request()
    request.parameters = [
        Parameter(name.replace('__', '.'), value=value).to_parameter_msg()
        for name, value in values.items()
    ]
    result = peer.call('set_parameters_atomically', SetParametersAtomically, request).result
    return result.successful, result.reason


def wait_for_prompt(robot: Robot, text: str) -> None:
    robot.peer.wait_until(text, lambda: robot.peer.heard(PROMPT)[-1:] and said(robot) == text)


def said(robot: Robot) -> str:
    return str(robot.peer.heard(PROMPT)[-1].data)


def column(robot: Robot, index: int) -> float:
    """Return a number of the newest chunk's first row."""
    return float(robot.peer.heard(NUMBERS)[-1].data[index])


def test_a_running_node_takes_what_is_safe_and_refuses_the_rest(tmp_path: Path) -> None:
    with robot_with(tmp_path, seed=7) as robot:
        peer = robot.peer
        robot.shine(0.0)
        peer.wait_until('a chunk', lambda: peer.heard(NUMBERS))

        # Of several that are set together all count, or none.
        done, why = set_together(peer, seed=9, device='cuda')
        assert not done
        assert why == (
            'device: takes effect when the node is configured; run deactivate and cleanup first, '
            'or restart the node with it'
        )
        done, why = set_together(peer, seed=9, safety__velocity_scale=2.0)
        assert not done
        assert 'velocity_scale' in why
        assert peer.get_parameters('seed', 'safety.velocity_scale') == [7, 0.5]
        done, why = set_together(peer, seed=9, diagnostics__age_warn=5.0)
        assert not done, 'below the warning lies the error, at 3'
        assert 'age_error is 3 and age_warn 5' in why
        assert column(robot, SEED) == 7.0
        assert set_together(peer, seed=9, diagnostics__age_warn=2.0) == (True, '')
        peer.wait_until('the seed', lambda: column(robot, SEED) == 9.0)
        assert 'seed is 9 from now on' in robot.process.text()
        assert set_together(peer, seed=-1) == (True, '')
        peer.wait_until('no seed', lambda: column(robot, SEED) == -1.0)

        # A parameter replaces the prompt until another comes on its topic.
        wait_for_prompt(robot, 'go')
        assert set_together(peer, default_prompt='tidy up') == (True, '')
        wait_for_prompt(robot, 'tidy up')
        peer.wait_until('the prompt', lambda: column(robot, LENGTH) == len('tidy up'))
        peer.publisher('prompt', String, RELIABLE)
        peer.wait_matched('prompt')
        peer.publish_prompt('stay')
        wait_for_prompt(robot, 'stay')
        peer.wait_until('the other', lambda: column(robot, LENGTH) == len('stay'))
        peer.wait_until('the status', lambda: peer.status().get('prompt') == 'stay')

        # How far apart inferences are then is a test of the door alone.
        assert set_together(peer, timing__inference_rate=50.0) == (True, '')
        peer.forget(NUMBERS)
        peer.wait_until('chunks', lambda: peer.heard(NUMBERS))


def steps(robot: Robot) -> np.ndarray:
    """Return how far the newest commands go, each from the one before it."""
    return np.diff([message.data[0] for message in robot.peer.heard(HAND)[-12:]])


def goes_at(robot: Robot, scale: float) -> bool:
    """Return whether the newest commands use so much of 2 rad/s, none of them more."""
    # For 20 ms each, less where the last one was late.
    most = scale * 2.0 * 0.02
    newest = steps(robot)
    return len(newest) == 11 and bool(
        newest.min() > 0.0 and newest.max() <= most + 1e-9 and newest.mean() > 0.5 * most
    )


def test_a_lower_velocity_scale_slows_a_robot_that_moves(tmp_path: Path) -> None:
    # So slow that on no machine it is there before it was slowed down.
    safety = {**ROBOT['safety'], 'velocity_scale': 0.005}
    with robot_with(tmp_path, {'safety': safety}) as robot:
        peer = robot.peer
        robot.wait_for('READY')
        peer.wait_until('chunks', lambda: peer.heard(NUMBERS))
        robot.shine(0.0)
        assert robot.enable() == (True, 'enabled')
        robot.shine(TARGET)
        peer.wait_until('motion', lambda: goes_at(robot, 0.005))
        assert set_together(peer, safety__velocity_scale=0.001) == (True, '')
        peer.wait_until('slower motion', lambda: goes_at(robot, 0.001))
        assert peer.heard(HAND)[-1].data[0] < TARGET
        robot.wait_for('ENABLED')
        assert set_together(peer, safety__velocity_scale=1.0, execution__blend_steps=0) == (
            True,
            '',
        )
        peer.wait_until('there', lambda: peer.heard(HAND)[-1].data[0] > TARGET - 0.001)
        robot.wait_for('ENABLED')

        # What was set holds also after the node was configured anew.
        assert peer.transition('deactivate')
        assert peer.transition('cleanup')
        assert peer.set_parameter('device', 'cpu').successful, 'open to everything again'
        assert peer.transition('configure')
        assert peer.get_parameters('safety.velocity_scale', 'execution.blend_steps') == [1.0, 0]
