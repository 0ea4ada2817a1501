# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A tiny DreamZero in the real node drives the fake robot, and the judge of that finds no fault."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

pytest.importorskip('rclpy')
pytest.importorskip('diffusers')
pytest.importorskip('transformers')

import node_process
from diagnostic_msgs.msg import DiagnosticStatus
from dreaming_robot import ARM, HOME, robot_file
from node_process import (
    JOINTS,
    LATCHED,
    RELIABLE,
    NodeProcess,
    Peer,
    environment,
    new_domain,
    peer_of,
    start_node,
)
from sensor_msgs.msg import Image
from serving import FAILED, Client, Served
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory
from websockets.exceptions import ConnectionClosed

from openpi_policy_ros.client.videos import ROBOARENA
from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.fake_robot.controller_topics import read_trajectory
from openpi_policy_ros.wire import Dialect

# The judge lives beside the robot it was made for.
sys.path.append(str(Path(__file__).resolve().parents[1] / 'fake_robot'))

from judge import NANOSECONDS, Judge, Judged, Record, told

pytestmark = [pytest.mark.ros, pytest.mark.timeout(180)]

HAND = 'gripper_controller/commands'
IMAGINED = 'openpi_policy/imagined'
PAUSE = 'the chunk has been played (open_loop)'
ROWS = 6
QUIET = 0.5
"""Longer than what may still come after a stop, s."""
OTHER = 'open the drawer'


def station() -> dict[str, Any]:
    """Return the shipped robot file with an arm and a gripper, and its dreams shown."""
    file = robot_file({'visual': {'imagined_rate': 10.0}, 'safety': {'remote_clients': 'allow'}})
    file['output_names'] = ['arm', 'hand']
    file['outputs']['hand'] = {
        'type': 'array',
        'topic': HAND,
        'joints': [JOINTS[7]],
        'action_indices': [7],
        'gripper': True,
        'threshold': 0.5,
        'hysteresis': 0.1,
        'open': 0.0,
        'closed': 0.8,
    }
    return file


class Scene:
    """The robot in one process, the node in another, and a witness of all that passes."""

    def __init__(self, peer: Peer, node: NodeProcess) -> None:
        self.peer, self.node = peer, node
        self.records: list[Record] = []
        peer.listen_to_node()
        peer.listen(IMAGINED, Image, RELIABLE)
        for kind, topic, name in (
            (JointTrajectory, ARM, 'arm'),
            (Float64MultiArray, HAND, 'hand'),
        ):
            peer.node.create_subscription(kind, topic, self._command(name), RELIABLE)
        peer.node.create_subscription(
            DiagnosticStatus, 'openpi_policy/status', self._status, LATCHED
        )

    def enable(self, on: bool) -> None:
        """Call ~/enable, which must succeed."""
        self._note(Record('asked', time.time_ns(), value=on))
        answer = self.peer.call('enable', SetBool, SetBool.Request(data=on))
        self._note(Record('answered', time.time_ns(), value=bool(answer.success)))
        assert answer.success, answer.message

    def wait_for(self, state: str) -> None:
        """Wait until the node says a state."""
        self.peer.wait_until(state, lambda: self.peer.status().get('state') == state)

    def pauses(self, count: int) -> None:
        """Wait until so many chunks were played from now on."""
        begin = len(self._said())
        self.peer.wait_until(
            f'{count} pauses', lambda: sum(PAUSE in one for one in self._said()[begin:]) >= count
        )

    def states(self) -> list[str]:
        """Return the states from the first ENABLED on, each once for as long as it lasted."""
        said = [str(one.value) for one in self.records if one.kind == 'status']
        changes = [b for a, b in zip([None, *said], said, strict=False) if a != b]
        return changes[changes.index('ENABLED') :]

    def violations(self, robot: dict[str, Any]) -> str:
        """Return everything that the node did wrong, '' = nothing."""
        config = RobotConfig.model_validate(robot)
        limits, margin = config.limits, config.safety.position_margin
        scale = config.safety.velocity_scale
        outputs = [
            Judged(
                name=name,
                kind=kind,
                joints=tuple(JOINTS[one] for one in which),
                # A gripper closes fully.
                lower=tuple(limits.position_min[one] + (margin if one < 7 else 0) for one in which),
                upper=tuple(limits.position_max[one] - (margin if one < 7 else 0) for one in which),
                speed=tuple(limits.velocity[one] * scale for one in which),
                home=tuple(HOME[one] for one in which),
            )
            for name, kind, which in (('arm', 'trajectory', range(7)), ('hand', 'array', (7,)))
        ]
        judge = Judge(
            outputs,
            round(NANOSECONDS / config.execution.control_rate),
            round(NANOSECONDS * config.execution.max_lookahead),
        )
        return told(judge.violations(self.records), self.records)

    def _said(self) -> list[str]:
        """Return every status text so far, once for each run of equal ones."""
        texts = [message.message for message in self.peer.heard('openpi_policy/status')]
        return [text for i, text in enumerate(texts) if i == 0 or text != texts[i - 1]]

    def _note(self, one: Record) -> None:
        self.records.append(one)

    def _command(self, name: str) -> Any:
        def heard(message: Any, info: Any) -> None:
            value = read_trajectory(message) if name == 'arm' else tuple(message.data)
            self._note(Record('command', _sent(info), name, value))

        return heard

    def _status(self, message: DiagnosticStatus, info: Any) -> None:
        values = {pair.key: pair.value for pair in message.values}
        self._note(Record('status', _sent(info), value=values['state']))


def _sent(info: Any) -> int:
    return int(info['source_timestamp']) or time.time_ns()


@pytest.fixture
def scene(
    tiny_dreamzero: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Scene, dict[str, Any]]]:
    # Its libraries take long to import.
    monkeypatch.setattr(node_process, 'WAIT', 60.0)
    robot = station()
    (tmp_path / 'policy.yaml').write_text(
        'policy: dreamzero\nimagined: true\nmax_sessions: 1\npolicy_server_config: {}\n'
    )
    domain = new_domain()
    (tmp_path / 'fake.yaml').write_text(yaml.safe_dump({'/**': {'ros__parameters': robot}}))
    homes = [f'{joint}={place}' for joint, place in zip(JOINTS, HOME, strict=True)]
    with (tmp_path / 'fake.log').open('w') as log:
        fake = subprocess.Popen(
            [
                *(sys.executable, '-m', 'openpi_policy_ros.fake_robot.main', '--quiet'),
                *('--robot', str(tmp_path / 'fake.yaml'), '--size', '64x36'),
                *(word for home in homes for word in ('--home', home)),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(domain, tmp_path),
        )
    node = start_node(
        tmp_path,
        domain,
        {
            'model': str(tiny_dreamzero),
            'policy': str(tmp_path / 'policy.yaml'),
            'port': 0,
            'default_prompt': 'put the cup on the plate',
        },
        robot=robot,
    )
    try:
        with peer_of(domain) as peer:
            made = Scene(peer, node)
            node.wait_for('active')
            yield made, robot
        node.signal(signal.SIGINT)
        assert node.join() == 0, node.text()
        assert 'Traceback' not in node.text(), node.text()
    finally:
        node.kill()
        fake.terminate()
        fake.wait(node_process.WAIT)


def refused(node: NodeProcess) -> None:
    """Assert that a client from elsewhere is sent away."""
    found = re.search(r'listening on ws://127\.0\.0\.1:(\d+)', node.text())
    assert found, node.text()
    there: Any = Served(int(found.group(1)), None, None)  # type: ignore[arg-type]
    images = {key: np.zeros((20, 36, 3), np.uint8) for key in ROBOARENA}
    state = {
        'observation/joint_position': np.zeros(7, np.float32),
        'observation/gripper_position': np.zeros(1, np.float32),
    }
    with Client(there, Dialect.OPENPI) as client:
        assert client.infer(**images, **state, prompt='go') == client.error(FAILED)
        with pytest.raises(ConnectionClosed) as closed:
            client.receive()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1013
    assert 'no room for another session: 1 are live, max_sessions is 1' in node.text()


def test_it_drives_the_fake_robot_chunk_by_chunk_and_breaks_no_limit(
    scene: tuple[Scene, dict[str, Any]],
) -> None:
    act, robot = scene
    act.wait_for('READY')
    act.enable(True)
    act.pauses(2)
    # There is room for one session, which is the robot's.
    refused(act.node)
    act.pauses(1)
    act.peer.publish_prompt(OTHER)
    act.peer.wait_until(
        'the prompt is in use',
        lambda: act.peer.heard('openpi_policy/current_prompt')[-1].data == OTHER,
    )
    act.pauses(2)
    assert 'the instruction changed' in act.node.text()
    sessions = act.node.text().count('new session')
    assert act.peer.reset().success
    act.pauses(2)
    assert act.node.text().count('new session') == sessions + 1
    act.peer.wait_until('dreams', lambda: len(act.peer.heard(IMAGINED)) >= 8)
    facts = act.peer.status()
    act.enable(False)
    act.wait_for('READY')
    time.sleep(QUIET)
    found = act.violations(robot)
    assert not found, found
    assert set(act.states()[:-1]) == {'ENABLED', 'WAIT'}
    assert (facts['failures'], facts['starved'], facts['holds']) == ('0', '0', '0')
    assert facts['imagined'].startswith('8 frames of 64x32')
    chunks = act.peer.heard('openpi_policy/action_chunk')
    rows = np.array([[point.positions for point in chunk.points] for chunk in chunks])
    assert rows.shape[1:] == (ROWS, 8)
    assert np.isfinite(rows).all()
    commanded = [one for one in act.records if one.kind == 'command' and one.name == 'arm']
    assert len(commanded) > 20
    assert np.ptp([one.value.rows[0][0] for one in commanded]) > 1e-3
    for picture in act.peer.heard(IMAGINED):
        assert (picture.encoding, picture.height, picture.width) == ('rgb8', 32, 64)
