# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Remote clients of the real node while it drives its robot: refused, or served if allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('openpi_client')

from digest_policy import HORIZON, IMAGES, STATE
from light_robot import ROBOT, Robot, robot_with
from openpi_client import msgpack_numpy
from openpi_client.websocket_client_policy import WebsocketClientPolicy
from serving import FAILED, TIMEOUT, actions_of
from websockets.sync.client import ClientConnection, connect

from openpi_policy_ros.wire import Dialect

pytestmark = [
    pytest.mark.ros,
    # The stock client keeps its connection for as long as it lives, without a context manager.
    pytest.mark.filterwarnings(r'ignore:connect\(\) must be used:DeprecationWarning'),
]

REFUSED = 'no remote client is served while the robot is enabled'
OBSERVATION: dict[str, Any] = {
    **{key: np.full((40, 50, 3), 7, np.uint8) for key in IMAGES},
    **{key: np.full(1, 0.5, np.float32) for key in STATE},
    'prompt': 'remote',
    'session_id': '3',
}


def over_openpi_path(socket: ClientConnection) -> Any:
    """Return the chunk, or the error."""
    socket.send(msgpack_numpy.packb(OBSERVATION))
    return msgpack_numpy.unpackb(socket.recv(timeout=TIMEOUT))


def is_served(answer: Any) -> bool:
    """Return whether it is the chunk of this observation and no other."""
    actions = actions_of(answer)
    assert actions.shape[0] == HORIZON
    np.testing.assert_array_equal(actions[:, :3], [[7.0, 7.0, len('remote')]] * HORIZON)
    return True


def while_driven(robot: Robot, ask: Callable[[], Any]) -> Any:
    """Return the answer to a call throughout which the robot was driven."""
    count = len(robot.peer.heard('openpi_policy/status'))
    assert robot.peer.status()['state'] == 'ENABLED'
    answer = ask()
    said = robot.peer.heard('openpi_policy/status')[count:]
    assert {pair.value for one in said for pair in one.values if pair.key == 'state'} <= {
        'ENABLED',
        'WAIT',
    }
    return answer


@pytest.mark.parametrize('rule', [None, 'reject_while_enabled', 'allow'])
def test_remote_clients_wait_for_the_robot_unless_they_are_allowed(
    tmp_path: Path, rule: str | None
) -> None:
    safety = {**ROBOT['safety'], **({} if rule is None else {'remote_clients': rule})}
    with robot_with(tmp_path, {'safety': safety}) as robot:
        robot.wait_for('READY')
        host, port = robot.peer.status()['server'].split(':')
        stock = WebsocketClientPolicy(host, int(port))
        url = f'ws://{host}:{port}{Dialect.OPENPI.value}'
        with connect(url, compression=None, max_size=None) as socket:
            socket.recv(timeout=TIMEOUT)
            # What each is refused below comes back on the connection of before.
            for _ in range(2):
                assert is_served(stock.infer(OBSERVATION))
                assert is_served(over_openpi_path(socket))
                robot.drive()
                if rule == 'allow':
                    assert is_served(while_driven(robot, lambda: stock.infer(OBSERVATION)))
                    assert is_served(while_driven(robot, lambda: over_openpi_path(socket)))
                else:
                    with pytest.raises(RuntimeError, match=f'{FAILED}$'):
                        while_driven(robot, lambda: stock.infer(OBSERVATION))
                    assert while_driven(robot, lambda: over_openpi_path(socket)) == {
                        'type': 'error',
                        'message': FAILED,
                    }
                assert robot.enable(False) == (True, 'disabled')
                robot.wait_for('READY')
            assert is_served(stock.infer(OBSERVATION))
            assert is_served(over_openpi_path(socket))
        assert robot.process.text().count(REFUSED) == (0 if rule == 'allow' else 4)
