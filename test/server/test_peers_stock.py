# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The real openpi-client, RoboArena's client and every packer against the real server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np
import pytest
from fakes import EchoPolicy, FailingPolicy, make_spec
from openpi_client import msgpack_numpy as openpi_msgpack
from openpi_client.action_chunk_broker import ActionChunkBroker
from openpi_client.websocket_client_policy import WebsocketClientPolicy
from packers import pack_legacy, pack_with_msgpack_numpy
from serving import FAILED, INVALID, TIMEOUT, Client, Served, serving
from websockets.exceptions import ConnectionClosedOK
from websockets.sync.client import connect

from openpi_policy_ros.errors import InvalidObservation
from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, InferenceResult
from openpi_policy_ros.wire import Dialect

# The stock client keeps its connection for as long as it lives, without a context manager.
pytestmark = pytest.mark.filterwarnings(r'ignore:connect\(\) must be used:DeprecationWarning')

HORIZON = 6
HANDSHAKE = {
    'image_resolution': [224, 224],
    'n_external_cameras': 1,
    'needs_wrist_camera': True,
    'needs_stereo_camera': False,
    'needs_session_id': False,
    'action_space': 'joint_position',
    'action_horizon': HORIZON,
    'action_dim': 3,
    'max_cameras': 3,
}
OBSERVATION = {
    'observation/exterior_image_1_left': np.arange(192, dtype=np.uint8).reshape(8, 8, 3),
    'observation/joint_position': np.linspace(-1, 1, 7),
    'observation/gripper_position': np.array([0.5]),
    'prompt': 'pick up the fork',
}
both = pytest.mark.parametrize('dialect', list(Dialect))


class CountingPolicy(EchoPolicy):
    """Answers call k (from 1) with actions[h, d] = 1000 k + 10 h + d."""

    def __init__(self, **changes: Any) -> None:
        super().__init__(make_spec(HORIZON, 3, **{'handshake': HANDSHAKE, **changes}))
        self.calls = 0

    def answer(self, one: InferenceRequest) -> InferenceResult:
        """Return the chunk of this call."""
        self.calls += 1
        outputs = {}
        for name, shape in self.spec.output_shapes.items():
            grid = np.indices(shape).astype(np.float32)
            weights = [10.0, 1.0][: len(shape)]
            steps = sum(weight * axis for weight, axis in zip(weights, grid, strict=True))
            outputs[name] = np.float32(1000 * self.calls) + np.asarray(steps, np.float32)
        return ActionChunk(outputs, timing_ms={'preprocess': 0.5, 'model': 1.5})


def expected(call: int) -> np.ndarray:
    rows, columns = np.indices((HORIZON, 3))
    return (1000 * call + 10 * rows + columns).astype(np.float32)


def stock_client(served: Served, dialect: Dialect) -> WebsocketClientPolicy:
    """Connect as users do: host and port for /, the whole address and no port for the other."""
    if dialect is Dialect.STOCK:
        return WebsocketClientPolicy(host='127.0.0.1', port=served.port)
    return WebsocketClientPolicy(host=served.url(dialect), port=None)


def close(client: WebsocketClientPolicy) -> None:
    client._ws.close()


def test_stock_client_on_the_stock_path() -> None:
    policy = CountingPolicy()
    with serving(policy) as served:
        client = stock_client(served, Dialect.STOCK)
        assert client.get_server_metadata() == dict(list(HANDSHAKE.items())[:6])
        first, second = client.infer(OBSERVATION), client.infer(OBSERVATION)
        close(client)
    for call, reply in enumerate((first, second), 1):
        assert reply.keys() == {'actions', 'server_timing', 'policy_timing'}
        assert reply['actions'].dtype == np.float32
        np.testing.assert_array_equal(reply['actions'], expected(call))
        assert reply['policy_timing'].keys() == {'infer_ms'}
        assert type(reply['policy_timing']['infer_ms']) is float
        assert all(type(value) is float for value in reply['server_timing'].values())
    assert first['server_timing'].keys() == {'infer_ms'}
    assert second['server_timing'].keys() == {'infer_ms', 'prev_total_ms'}


def test_stock_client_on_the_openpi_path_with_a_whole_address_and_no_port() -> None:
    with serving(CountingPolicy()) as served:
        client = stock_client(served, Dialect.OPENPI)
        assert client.get_server_metadata() == HANDSHAKE
        for call in (1, 2):
            chunk = client.infer(OBSERVATION)
            assert isinstance(chunk, np.ndarray)
            assert chunk.dtype == np.float32
            np.testing.assert_array_equal(chunk, expected(call))
        close(client)


@both
def test_observation_reaches_the_policy_untouched(dialect: Dialect) -> None:
    policy = CountingPolicy()
    with serving(policy) as served:
        client = stock_client(served, dialect)
        client.infer({**OBSERVATION, 'seed': 4, 'session_id': 'a', 'endpoint': 'infer'})
        close(client)
    (request,) = policy.requests
    assert request.seed == 4
    assert request.observation.keys() == OBSERVATION.keys()
    for key, value in OBSERVATION.items():
        np.testing.assert_array_equal(request.observation[key], value)
        if isinstance(value, np.ndarray):
            assert request.observation[key].dtype == value.dtype


@both
def test_action_chunk_broker_executes_a_full_horizon_of_two_chunks(dialect: Dialect) -> None:
    policy = CountingPolicy()
    with serving(policy) as served:
        client = stock_client(served, dialect)
        broker = ActionChunkBroker(client, action_horizon=HORIZON)
        steps = [broker.infer(OBSERVATION) for _ in range(2 * HORIZON)]
        close(client)
    assert policy.calls == 2
    for index, step in enumerate(steps):
        actions = step['actions'] if dialect is Dialect.STOCK else step
        call, row = divmod(index, HORIZON)
        np.testing.assert_array_equal(actions, expected(call + 1)[row])
    if dialect is Dialect.STOCK:
        assert type(steps[0]['policy_timing']['infer_ms']) is float


def test_action_chunk_broker_takes_a_policy_of_several_outputs() -> None:
    shapes = {'actions': (HORIZON, 3), 'values': (HORIZON,), 'bounds': (2, 3)}
    with serving(CountingPolicy(output_shapes=shapes)) as served:
        client = stock_client(served, Dialect.STOCK)
        broker = ActionChunkBroker(client, action_horizon=HORIZON)
        steps = [broker.infer(OBSERVATION) for _ in range(HORIZON)]
        close(client)
        client = stock_client(served, Dialect.OPENPI)
        mapping = client.infer(OBSERVATION)
        close(client)
    for row, step in enumerate(steps):
        np.testing.assert_array_equal(step['actions'], expected(1)[row])
        assert step['values'] == 1000 + 10 * row
        # No step of the chunk: handed through whole, not sliced.
        assert np.shape(step['bounds']) == (2, 3)
    assert {name: value.shape for name, value in mapping.items()} == shapes
    assert {value.dtype for value in mapping.values()} == {np.dtype(np.float32)}


def test_stock_reset_sends_nothing_and_a_new_session_id_starts_an_episode() -> None:
    policy = CountingPolicy()
    with serving(policy) as served:
        client = stock_client(served, Dialect.STOCK)
        for session_id in ('a', 'a', 'b'):
            client.infer({**OBSERVATION, 'session_id': session_id})
            client.reset()
        close(client)
    assert [request.reset for request in policy.requests] == [True, False, True]


def test_stock_client_raises_a_generic_error_and_stays_connected() -> None:
    secret = 'weights at /srv/secret/π0.safetensors'
    wrong = InvalidObservation('state', secret, expected='something else')
    policy = FailingPolicy(RuntimeError(secret), lambda requests: [wrong] * len(requests))
    with serving(policy) as served:
        client = stock_client(served, Dialect.STOCK)
        for _ in range(2):
            with pytest.raises(RuntimeError) as caught:
                client.infer(OBSERVATION)
            assert str(caught.value) == f'Error in inference server:\n{FAILED}'
        with pytest.raises(RuntimeError, match=INVALID):
            client.infer({**OBSERVATION, 'endpoint': 'dance'})
        assert client.infer(OBSERVATION)['actions'].shape == (50, 32)
        close(client)


def test_stock_client_on_the_openpi_path_reads_a_generic_error_map() -> None:
    policy = FailingPolicy(RuntimeError('secret'))
    with serving(policy) as served:
        client = stock_client(served, Dialect.OPENPI)
        assert client.infer(OBSERVATION) == {'type': 'error', 'message': FAILED}
        assert client.infer({'endpoint': 'dance'}) == {'type': 'error', 'message': INVALID}
        assert client.infer(OBSERVATION).shape == (50, 32)
        close(client)


def test_policy_without_a_handshake_serves_stock_clients_only() -> None:
    with serving(CountingPolicy(handshake=None)) as served:
        client = stock_client(served, Dialect.STOCK)
        assert client.get_server_metadata() == {}
        np.testing.assert_array_equal(client.infer(OBSERVATION)['actions'], expected(1))
        close(client)
        with connect(served.url(Dialect.OPENPI), open_timeout=TIMEOUT) as socket:
            assert socket.recv(timeout=TIMEOUT) == (
                '{"type": "error", "error": "Robot policy not available", "code": "unsupported"}'
            )
            with pytest.raises(ConnectionClosedOK):
                socket.recv(timeout=TIMEOUT)


@dataclass
class PolicyServerConfig:
    """The handshake as RoboArena's client reads it: these six keys, and no other."""

    image_resolution: tuple[int, int] | None = None
    n_external_cameras: int = 0
    needs_wrist_camera: bool = False
    needs_stereo_camera: bool = False
    needs_session_id: bool = False
    action_space: str = ''


def test_roboarena_client_from_handshake_to_reset() -> None:
    policy = CountingPolicy()
    with serving(policy) as served, Client(served, Dialect.STOCK) as client:
        config = PolicyServerConfig(**client.handshake)
        assert config == PolicyServerConfig([224, 224], 1, True, False, False, 'joint_position')
        for session_id in ('episode 1', 'episode 1'):
            reply = client.infer(endpoint='infer', session_id=session_id, **OBSERVATION)
            assert isinstance(reply, dict)
            assert reply['actions'].shape == (HORIZON, 3)
        assert client.reset() == 'reset successful'
        client.infer(endpoint='infer', session_id='episode 1', **OBSERVATION)
    assert [request.reset for request in policy.requests] == [True, False, True]


@both
@pytest.mark.parametrize(
    'pack', [openpi_msgpack.packb, pack_with_msgpack_numpy, pack_legacy, msgpack.packb]
)
def test_every_marker_dialect_reaches_the_policy_as_the_same_observation(
    dialect: Dialect, pack: Callable[[Any], bytes]
) -> None:
    sent = dict(OBSERVATION)
    if pack is msgpack.packb:
        # A client without NumPy: lists of numbers are legal, and stay lists.
        sent = {key: np.asarray(value).tolist() for key, value in sent.items()}
    policy = CountingPolicy()
    with serving(policy) as served, Client(served, dialect) as client:
        answer = client.ask(pack(sent))
        assert isinstance(answer, np.ndarray if dialect is Dialect.OPENPI else dict)
    (request,) = policy.requests
    assert request.observation.keys() == sent.keys()
    for key, value in sent.items():
        assert type(request.observation[key]) is type(value)
        np.testing.assert_array_equal(request.observation[key], value)


def test_openpi_reset_reply_is_messagepack() -> None:
    with serving(CountingPolicy()) as served, Client(served, Dialect.OPENPI) as client:
        assert client.reset() == {'status': 'reset successful'}
        assert client.infer(endpoint=b'reset') == {'status': 'reset successful'}
