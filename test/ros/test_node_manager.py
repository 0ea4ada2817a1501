# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A lifecycle manager leads the node through its states, with nothing but the standard services."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')

from lifecycle_msgs.msg import State, Transition, TransitionEvent
from lifecycle_msgs.srv import ChangeState, GetState
from light_robot import ROBOT
from node_process import (
    WAIT,
    NodeProcess,
    Peer,
    install_digest_policy,
    new_domain,
    peer_of,
    start_node,
)

pytestmark = pytest.mark.ros

EVENTS = 'openpi_policy/transition_event'
CHUNKS = 'openpi_policy/action_chunk_array'
GOALS = {
    Transition.TRANSITION_CONFIGURE: State.PRIMARY_STATE_INACTIVE,
    Transition.TRANSITION_ACTIVATE: State.PRIMARY_STATE_ACTIVE,
    Transition.TRANSITION_DEACTIVATE: State.PRIMARY_STATE_INACTIVE,
    Transition.TRANSITION_CLEANUP: State.PRIMARY_STATE_UNCONFIGURED,
    Transition.TRANSITION_INACTIVE_SHUTDOWN: State.PRIMARY_STATE_FINALIZED,
}


class Manager:
    """Asks for transitions by number and checks the state after each, as nav2's manager does."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        peer.listen(EVENTS, TransitionEvent)
        peer.listen_to_node()
        peer.wait_until('the node', lambda: peer.node.count_publishers(f'/{EVENTS}'))

    def bring(self, transition: int) -> bool:
        """Ask for a transition; return whether the node says it is where that leads."""
        done = self._peer.call('change_state', ChangeState, change(transition)).success
        return bool(done) and self.state() == GOALS[transition]

    def state(self) -> int:
        answer = self._peer.call('get_state', GetState, GetState.Request())
        return int(answer.current_state.id)

    def events(self, count: int) -> list[str]:
        """Return so many transitions that the node told, and forget them."""
        peer = self._peer
        peer.wait_until(f'{count} events', lambda: len(peer.heard(EVENTS)) >= count)
        told = [f'{one.start_state.label} > {one.goal_state.label}' for one in peer.heard(EVENTS)]
        peer.forget(EVENTS)
        return told


def change(transition: int) -> Any:
    request = ChangeState.Request()
    request.transition.id = transition
    return request


@pytest.fixture
def scene(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Peer, NodeProcess]]:
    """Return a peer beside a node of which each test says the parameters."""
    policy, python_path = install_digest_policy(tmp_path)
    domain = new_domain()
    process = start_node(
        tmp_path,
        domain,
        {'policy': str(policy), 'port': 0, 'default_prompt': 'go', **request.param},
        python_path=python_path,
        robot=ROBOT,
    )
    try:
        with peer_of(domain) as peer:
            yield peer, process
        process.signal(signal.SIGINT)
        assert process.join() == 0
        assert 'Traceback' not in process.text()
    finally:
        process.kill()


def see(peer: Peer) -> None:
    for camera in ('one', 'two'):
        peer.publish_image(f'{camera}/image_raw', np.zeros((48, 64, 3), np.uint8))
    peer.publish_joints({'shoulder': 0.0, 'finger': 0.0})


CONFIGURED = ['unconfigured > configuring', 'configuring > inactive']
ACTIVATED = ['inactive > activating', 'activating > active']
DEACTIVATED = ['active > deactivating', 'deactivating > inactive']
CLEANED = ['inactive > cleaningup', 'cleaningup > unconfigured']
REFUSED = ['unconfigured > configuring', 'configuring > unconfigured']


@pytest.mark.parametrize('scene', [{'model': 'broken', 'autostart': False}], indirect=True)
def test_a_manager_leads_the_node_through_every_transition(
    scene: tuple[Peer, NodeProcess],
) -> None:
    peer, _ = scene
    manager = Manager(peer)
    configure, activate = Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE
    deactivate, clean_up = Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_CLEANUP

    # What cannot be configured stays as it is, says why, and can be configured once it is mended.
    assert manager.state() == State.PRIMARY_STATE_UNCONFIGURED
    assert not manager.bring(configure)
    peer.wait_until('why', lambda: 'configure refused: broken has no' in peer.status_text())
    assert manager.state() == State.PRIMARY_STATE_UNCONFIGURED
    assert manager.events(2) == REFUSED
    assert peer.set_parameter('model', 'digest').successful
    with socket.create_server(('127.0.0.1', 0)) as taken:
        assert peer.set_parameter('port', taken.getsockname()[1]).successful
        assert not manager.bring(configure)
        peer.wait_until('why', lambda: 'the port is in use' in peer.status_text())
    assert manager.events(2) == REFUSED
    assert peer.set_parameter('port', 0).successful

    assert manager.bring(configure)
    assert manager.bring(activate)
    peer.wait_until('a chunk', lambda: peer.heard(CHUNKS), lambda: see(peer))
    for _ in range(2):
        assert manager.bring(deactivate)
        assert manager.bring(activate)
    assert manager.bring(deactivate)
    assert manager.bring(clean_up)
    assert manager.events(14) == [
        *CONFIGURED,
        *ACTIVATED,
        *(DEACTIVATED + ACTIVATED) * 2,
        *DEACTIVATED,
        *CLEANED,
    ]

    assert manager.bring(configure)
    assert manager.bring(activate)
    peer.forget(CHUNKS)
    peer.wait_until('a chunk again', lambda: peer.heard(CHUNKS), lambda: see(peer))
    assert manager.bring(deactivate)
    assert manager.bring(Transition.TRANSITION_INACTIVE_SHUTDOWN)
    assert manager.events(8)[-2:] == ['inactive > shuttingdown', 'shuttingdown > finalized']
    peer.wait_until('the end', lambda: peer.status_text().startswith('INIT: finalized'))


@pytest.mark.parametrize('scene', [{'model': 'digest'}], indirect=True)
def test_a_manager_beside_autostart_is_refused_and_disturbs_nothing(
    scene: tuple[Peer, NodeProcess],
) -> None:
    peer, process = scene
    manager = Manager(peer)
    log = process.wait_for('active')
    assert 'starting by itself; under a lifecycle manager set autostart:=false' in log
    peer.wait_until('a chunk', lambda: peer.heard(CHUNKS), lambda: see(peer))
    peer.forget(EVENTS)
    for transition in (Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE):
        assert not manager.bring(transition)
        assert manager.state() == State.PRIMARY_STATE_ACTIVE
    peer.forget(CHUNKS)
    peer.wait_until('chunks still', lambda: len(peer.heard(CHUNKS)) > 3, lambda: see(peer))
    assert peer.status_text() == 'READY'
    assert peer.heard(EVENTS) == []
    # It can go on from there.
    assert manager.bring(Transition.TRANSITION_DEACTIVATE)
    assert manager.bring(Transition.TRANSITION_ACTIVATE)


@pytest.mark.parametrize('scene', [{'model': 'slow', 'autostart': False}], indirect=True)
def test_the_state_can_be_asked_and_parameters_read_while_a_model_loads(
    scene: tuple[Peer, NodeProcess],
) -> None:
    peer, process = scene
    manager = Manager(peer)
    client = peer.node.create_client(ChangeState, 'openpi_policy/change_state')
    assert client.wait_for_service(WAIT)
    asked = client.call_async(change(Transition.TRANSITION_CONFIGURE))
    process.wait_for('loading slow')
    begun = time.monotonic()
    assert manager.state() == State.TRANSITION_STATE_CONFIGURING
    assert peer.get_parameters('model') == ['slow']
    answer = peer.set_parameter('model', 'digest')
    assert not answer.successful
    assert 'takes effect when the node is configured' in answer.reason
    assert peer.set_parameter('seed', 3).successful
    assert not asked.done(), f'loaded within {time.monotonic() - begun} s, so this shows nothing'
