# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot that the real node drives, steered by light.

The policy's first two columns are the brightness of two cameras.
"""

from __future__ import annotations

import contextlib
import copy
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from digest_policy import IMAGES, STATE
from node_process import (
    RELIABLE,
    NodeProcess,
    Peer,
    install_digest_policy,
    new_domain,
    peer_of,
    start_node,
)
from std_msgs.msg import Bool, Float64MultiArray
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

ARM, HAND = 'arm_controller/joint_trajectory', 'hand_controller/commands'
TARGET = 0.15
ROBOT: dict[str, Any] = {
    'profile': {'action_space': 'joint_position'},
    'camera_names': ['one', 'two'],
    'cameras': {
        'one': {'topic': 'one/image_raw', 'key': IMAGES[0]},
        'two': {'topic': 'two/image_raw', 'key': IMAGES[1]},
    },
    'joints': {'names': ['shoulder', 'finger'], 'keys': list(STATE)},
    # What a busy machine takes is no matter here: other tests are about times.
    'timing': {'action_rate': 15.0, 'camera_max_age': 1.0, 'joint_max_age': 1.0, 'max_skew': 1.0},
    'safety': {'stale_hold': 5.0, 'watchdog_periods': 25.0, 'max_wait': 10.0},
    'output_names': ['arm', 'hand'],
    'outputs': {
        'arm': {'type': 'trajectory', 'topic': ARM, 'joints': ['shoulder'], 'action_indices': [0]},
        'hand': {'type': 'array', 'topic': HAND, 'joints': ['finger'], 'action_indices': [1]},
    },
    'limits': {
        'position_min': [-2.0, -2.0],
        'position_max': [2.0, 2.0],
        'velocity': [2.0, 2.0],
    },
}


class Robot:
    """Cameras, joints that stay where they are, and controllers that keep what they are told."""

    def __init__(self, peer: Peer, process: NodeProcess) -> None:
        self.peer = peer
        self.process = process
        self.interlock: bool | None = None
        self.blind: set[str] = set()
        self._pixels = np.zeros((40, 50, 3), np.uint8)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._publish, daemon=True)
        peer.listen_to_node()
        peer.listen(ARM, JointTrajectory)
        peer.listen(HAND, Float64MultiArray)
        self._thread.start()

    def close(self) -> None:
        self._ending.set()
        self._thread.join(5.0)

    def shine(self, brightness: float) -> None:
        """Let the mean of both images be so, below 1."""
        pixels = np.zeros((2000, 3), np.uint8)
        pixels[: round(2000 * brightness)] = 1
        self._pixels = pixels.reshape(40, 50, 3)

    def enable(self, on: bool = True) -> tuple[bool, str]:
        answer = self.peer.call('enable', SetBool, SetBool.Request(data=on))
        return answer.success, answer.message

    def wait_for(self, state: str) -> str:
        said = f'{state}:'
        return str(
            self.peer.wait_until(
                state, lambda: self.peer.status_text().startswith((state, said)) and 'yes'
            )
        )

    def commands(self) -> tuple[list[Any], list[Any]]:
        return self.peer.heard(ARM), self.peer.heard(HAND)

    def drive(self) -> None:
        """Enable, and let the light move the robot some way, but not to the end."""
        self.shine(0.0)
        assert self.enable() == (True, 'enabled')
        self.wait_for('ENABLED')
        self.peer.wait_until('commands', lambda: all(self.commands()))
        self.shine(TARGET)
        self.peer.wait_until('motion', lambda: self.peer.heard(HAND)[-1].data[0] > TARGET / 10)

    def check_held(self) -> None:
        """The last message on every output is the hold, and nothing follows."""
        self.peer.wait_until('the hold', lambda: len(self.peer.heard(ARM)[-1].points) == 1)
        self.peer.wait_until('the other', lambda: _same(self.peer.heard(HAND)[-2:]))
        counts = [len(heard) for heard in self.commands()]
        threading.Event().wait(0.2)
        assert [len(heard) for heard in self.commands()] == counts
        arm, hand = (heard[-1] for heard in self.commands())
        (point,) = arm.points
        assert -0.001 <= point.positions[0] <= TARGET + 0.001
        assert -0.001 <= hand.data[0] <= TARGET + 0.001

    def publish_joints(self) -> None:
        """Tell where the joints are; called at 30 Hz."""
        self.peer.publish_joints({'shoulder': 0.0, 'finger': 0.0})

    def _publish(self) -> None:
        while not self._ending.wait(1 / 30):
            for camera in sorted({'one', 'two'} - self.blind):
                self.peer.publish_image(f'{camera}/image_raw', self._pixels)
            self.publish_joints()
            if self.interlock is not None:
                self.peer.publisher('interlock', Bool, RELIABLE).publish(Bool(data=self.interlock))


def _same(arrays: list[Any]) -> bool:
    return len(arrays) == 2 and list(arrays[0].data) == list(arrays[1].data)


@contextlib.contextmanager
def robot_with(
    scratch: Path,
    changes: dict[str, Any] | None = None,
    *,
    kind: type[Robot] = Robot,
    **parameters: Any,
) -> Iterator[Robot]:
    """Start the node with a robot file; ``changes`` replaces whole groups of it, None drops one."""
    policy, python_path = install_digest_policy(scratch)
    domain = new_domain()
    file = {**copy.deepcopy(ROBOT), **(changes or {})}
    process = start_node(
        scratch,
        domain,
        {
            'model': 'digest',
            'policy': str(policy),
            'port': 0,
            'default_prompt': 'go',
            **parameters,
        },
        python_path=python_path,
        robot={name: group for name, group in file.items() if group is not None},
    )
    try:
        with peer_of(domain) as peer:
            robot = kind(peer, process)
            try:
                yield robot
            finally:
                robot.close()
        process.signal(signal.SIGINT)
        assert process.join() == 0
        assert 'Traceback' not in process.text()
    finally:
        process.kill()
