# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot of three cameras whose node runs the dreaming policy; it does what it is told."""

from __future__ import annotations

import contextlib
import copy
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from node_process import JOINTS, RELIABLE, NodeProcess, Peer, install_policy, new_domain, peer_of
from node_process import start_node as start
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from openpi_policy_ros.configuration.robot import load_robot

TEST = Path(__file__).resolve().parents[1]
ARM = 'arm_controller/joint_trajectory'
RATE = 15.0
HOME = [0.0, -0.5, 0.0, -2.2, 0.0, 1.6, 0.8, 0.0]
TOPICS = ('exterior_0/image_raw', 'exterior_1/image_raw', 'wrist/image_raw')


def robot_file(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the shipped robot file with an arm; ``changes`` replace keys of its groups."""
    file: dict[str, Any] = copy.deepcopy(
        load_robot('roboarena_dreamzero').model_dump(exclude_defaults=True)
    )
    file['output_names'] = ['arm']
    file['outputs'] = {
        'arm': {
            'type': 'trajectory',
            'topic': ARM,
            'joints': JOINTS[:7],
            'action_indices': [*range(7)],
        }
    }
    # What a busy machine takes is no matter here.
    file['timing'] |= {'camera_max_age': 5.0, 'joint_max_age': 5.0, 'max_skew': 5.0}
    file['safety'] |= {'stale_hold': 10.0, 'watchdog_periods': 100.0}
    for group, values in (changes or {}).items():
        file[group] = {**file.get(group, {}), **values}
    return file


class Robot:
    """Three cameras whose every frame tells its number, and joints that follow at once."""

    def __init__(self, peer: Peer, process: NodeProcess) -> None:
        self.peer = peer
        self.process = process
        self.states: list[str] = []
        self._frame = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._publish, daemon=True)
        peer.listen_to_node()
        peer.listen(ARM, JointTrajectory, RELIABLE)
        self._thread.start()

    def close(self) -> None:
        self._ending.set()
        self._thread.join(5.0)

    def enable(self, on: bool = True) -> None:
        answer = self.peer.call('enable', SetBool, SetBool.Request(data=on))
        assert answer.success, answer.message

    def wait_for(self, state: str) -> None:
        self.peer.wait_until(
            state, lambda: self.peer.status_text().startswith((state, f'{state}:')) or None
        )

    def said(self) -> list[str]:
        """Return every status text so far, once for each run of equal ones."""
        texts = [message.message for message in self.peer.heard('openpi_policy/status')]
        return [text for i, text in enumerate(texts) if i == 0 or text != texts[i - 1]]

    def _positions(self) -> list[float]:
        told = self.peer.heard(ARM)
        return [*told[-1].points[-1].positions, HOME[7]] if told else HOME

    def _publish(self) -> None:
        while not self._ending.wait(1.0 / RATE):
            self._frame += 1
            pixels = np.full((12, 16, 3), self._frame % 256, np.uint8)
            stamp = self.peer.now()
            for topic in TOPICS:
                self.peer.publish_image(topic, pixels, stamp_ns=stamp)
            self.peer.publish_joints(
                dict(zip(JOINTS, self._positions(), strict=True)), stamp_ns=stamp
            )


@contextlib.contextmanager
def dreaming_robot(
    scratch: Path,
    model: str = 'dreaming',
    changes: dict[str, Any] | None = None,
    **parameters: Any,
) -> Iterator[Robot]:
    """Start the node with the dreaming policy; ``model`` holds its numbers."""
    policy, python_path = install_policy(scratch, 'dreaming', TEST)
    domain = new_domain()
    process = start(
        scratch,
        domain,
        {
            'model': model,
            'policy': str(policy),
            'port': 0,
            'default_prompt': 'go',
            **parameters,
        },
        python_path=python_path,
        robot=robot_file(changes),
    )
    try:
        with peer_of(domain) as peer:
            robot = Robot(peer, process)
            try:
                process.wait_for('active')
                yield robot
            finally:
                robot.close()
        process.signal(signal.SIGINT)
        assert process.join() == 0, process.text()
        assert 'Traceback' not in process.text(), process.text()
    finally:
        process.kill()
