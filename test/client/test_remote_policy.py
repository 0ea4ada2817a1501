# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``policy: remote`` behind engine and server: a chain of two, and what goes wrong in it."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fakes import EchoPolicy, FailingPolicy, StatefulPolicy, make_spec, request
from scripted import CHUNK, HANDSHAKE, Line, Scripted, good
from serving import FAILED, Client, Served, eventually, serving

from openpi_policy_ros.client import TimedOut, Unreachable
from openpi_policy_ros.client.remote import PLUGIN, RemotePolicy, nested
from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.engine import Engine, Lane
from openpi_policy_ros.errors import (
    ConfigurationError,
    InvalidObservation,
    InvalidOutput,
)
from openpi_policy_ros.policies import registry
from openpi_policy_ros.policies.base import ActionChunk
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.policies.registry import LoadRequest
from openpi_policy_ros.server import ServerThread
from openpi_policy_ros.wire import Dialect
from openpi_policy_ros.wire.peer import PeerError, RequestFailed

both = pytest.mark.parametrize('dialect', list(Dialect))
T = 10.0
SIZES = {'action_horizon': 50, 'action_dim': 32}


@pytest.fixture
def remote() -> Iterator[Any]:
    """Return a maker of remote policies that are closed in the end."""
    with contextlib.ExitStack() as stack:

        def make(url: str, profile: Any = None, **options: Any) -> RemotePolicy:
            options = {'start_timeout': 0.0, 'deadline': T, **options}
            policy = PLUGIN.load(LoadRequest(url, options=options, profile=profile))
            assert isinstance(policy, RemotePolicy)
            stack.callback(policy.close)
            return policy

        yield make


@contextlib.contextmanager
def chained(far: Served, dialect: Dialect, **options: Any) -> Iterator[Served]:
    """Serve the policy that is ``far``."""
    options = {'start_timeout': 0.0, 'deadline': T, **options}
    policy = PLUGIN.load(LoadRequest(far.url(dialect), options=options))
    with serving(policy) as near:
        yield near


def only(results: list[Any]) -> Any:
    (result,) = results
    return result


def test_it_is_registered_and_found_by_a_models_address(remote) -> None:
    assert registry.find('remote') is PLUGIN
    far = EchoPolicy(make_spec(4, 3, handshake={'action_horizon': 4, 'action_dim': 3}))
    with serving(far) as served:
        url = served.url(Dialect.OPENPI)
        for policy in (None, 'remote'):
            loaded = load_policy(url, policy=policy)
            assert loaded.spec.name == 'remote'
            assert loaded.spec.model == url
            assert (loaded.spec.horizon, loaded.spec.action_dim) == (4, 3)
            assert loaded.spec.weights_hash == ''
            assert loaded.spec.max_in_flight == 4
            loaded.close()


@pytest.mark.parametrize(
    ('model', 'says'),
    [
        ('http://box:8000/', 'write ws://box:8000/'),
        ('ws://box/', 'names no port'),
        ('tcp://box:1', 'not a WebSocket address'),
    ],
)
def test_a_wrong_address_is_refused_by_name(model: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        load_policy(model)


def test_files_that_do_not_belong_together_are_refused(tmp_path) -> None:
    with pytest.raises(ConfigurationError, match='not a WebSocket address'):
        load_policy(str(tmp_path), policy='remote')
    with pytest.raises(ConfigurationError, match=r"'ws://127.* is an address.*use policy 'remote'"):
        load_policy('ws://127.0.0.1:9/', policy='pi0')
    file = tmp_path / 'mine.yaml'
    file.write_text('policy: remote\ndeadlien: 3.0\n')
    with pytest.raises(ConfigurationError, match="did you mean 'deadline'"):
        load_policy('ws://127.0.0.1:9/', policy=str(file))


def test_a_server_that_is_not_there_refuses_the_start(remote) -> None:
    with pytest.raises(Unreachable, match='nothing listens'):
        remote('ws://127.0.0.1:9/')


def test_the_start_waits_for_a_server_that_starts_too(remote) -> None:
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
    loaded = []
    url = f'ws://127.0.0.1:{port}/v1/realtime/robot/openpi'
    thread = threading.Thread(target=lambda: loaded.append(remote(url, start_timeout=T)))
    thread.start()
    with Scripted(good, port=port):
        thread.join(T)
        assert loaded[0].spec.horizon == 4


def test_a_server_that_does_not_fit_the_robot_refuses_the_start(remote) -> None:
    with Scripted(good) as far, pytest.raises(ConfigurationError, match=r'is 4 .* wants 10 rows'):
        remote(far.url(), load_robot('droid').profile)


@both
def test_two_servers_in_a_chain_answer_as_one(dialect: Dialect) -> None:
    policy = StatefulPolicy(make_spec(stateful=True, handshake=SIZES))
    image = np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8)
    observation = {'observation/image': image, 'nested': {'state': np.arange(3.0)}, 'prompt': 'go'}
    with serving(policy) as far:
        with Client(far, dialect) as direct:
            expected = direct.actions(**observation, seed=5)
        options = {'policy_server_config': SIZES} if dialect is Dialect.STOCK else {}
        with chained(far, dialect, **options) as near:
            for door in Dialect:
                with Client(near, door) as client:
                    np.testing.assert_array_equal(client.actions(**observation, seed=5), expected)
        seen = policy.requests[-1]
    assert seen.observation.keys() == observation.keys()
    np.testing.assert_array_equal(seen.observation['observation/image'], image)
    np.testing.assert_array_equal(seen.observation['nested']['state'], np.arange(3.0))
    assert (seen.seed, seen.reset) == (5, True)


def test_sessions_of_a_chain_are_the_clients_own() -> None:
    policy = StatefulPolicy(make_spec(stateful=True, handshake={**SIZES, 'needs_session_id': True}))
    with (
        serving(policy) as far,
        chained(far, Dialect.OPENPI) as near,
        Client(near, Dialect.OPENPI) as one,
        Client(near, Dialect.OPENPI) as two,
    ):
        counts = [one.actions()[0, 0], one.actions()[0, 0], two.actions()[0, 0]]
        one.reset()
        counts.append(one.actions()[0, 0])
        counts.append(one.actions(session_id='b')[0, 0])
        counts.append(one.actions(session_id='b')[0, 0])
        assert counts == [1, 2, 1, 1, 1, 2]
        assert ('b', True) in policy.flags
        two.close()
        one.close()
        eventually(lambda: not policy.live, 'the far sessions are freed')
        eventually(lambda: far.server.stats().clients == 0, 'the far connections are closed')


def test_closing_a_session_that_is_over_leaves_the_next_one_alone(remote) -> None:
    with Scripted(good) as far:
        near = remote(far.url())
        old, new = request(session_id='a', reset=True), request(session_id='b', reset=True)
        near.infer([old])
        near.infer([new])
        near.close_session(old.session)
        near.infer([request(session_id='b')])
        near.close_session(request('nobody').session)
    # One connection for the handshake at the start, one for the client.
    assert len(far.lines) == 2
    assert [r.get('endpoint') for r in far.heard] == ['infer', 'reset', 'infer', 'infer']


def test_the_far_handshake_is_passed_on() -> None:
    handshake = {**SIZES, 'image_resolution': [180, 320], 'needs_session_id': True}
    with (
        serving(EchoPolicy(make_spec(handshake=handshake))) as far,
        chained(far, Dialect.OPENPI) as near,
        Client(near, Dialect.OPENPI) as client,
    ):
        assert client.handshake == handshake
        assert near.engine.spec.stateful


def test_a_restarted_server_is_come_back_to_with_a_session_begun_afresh(remote, caplog) -> None:
    policy = StatefulPolicy(make_spec(stateful=True, handshake=SIZES))
    with serving(policy) as far:
        near = remote(far.url(Dialect.OPENPI))
        first = only(near.infer([request(reset=True)]))
        assert only(near.infer([request()])).actions[0, 0] == 2.0
    again = StatefulPolicy(make_spec(stateful=True, handshake=SIZES))
    engine = Engine(again)
    engine.start()
    server = ServerThread(engine, ServerConfig(port=far.port))
    server.start()
    try:
        chunk = only(near.infer([request()]))
    finally:
        server.stop()
        engine.close()
    assert first.actions[0, 0] == chunk.actions[0, 0] == 1.0
    assert again.flags == [('default', True)]
    assert 'began the session afresh' in caplog.text


def test_an_idle_close_of_the_far_side_is_normal(caplog) -> None:
    caplog.set_level(logging.INFO, 'openpi_policy_ros.client')
    policy = EchoPolicy(make_spec(handshake=SIZES))
    with (
        serving(policy, idle_timeout=0.15) as far,
        chained(far, Dialect.OPENPI) as near,
        Client(near, Dialect.STOCK) as client,
    ):
        client.actions()
        eventually(lambda: far.server.stats().clients == 0, 'the idle close')
        caplog.clear()
        client.actions()
        assert near.server.stats().failures == 0
    levels = {r.levelno for r in caplog.records if r.name == 'openpi_policy_ros.client'}
    assert not levels & {logging.WARNING, logging.ERROR}


def test_a_server_that_became_another_is_not_used(remote) -> None:
    def other(line: Line) -> None:
        line.greet({**HANDSHAKE, 'action_dim': 7}).serve(np.zeros((4, 7), np.float32))

    with Scripted(good, good, other) as far:
        near = remote(far.url())
        assert isinstance(only(near.infer([request(reset=True)])), ActionChunk)
        near.close_session(request().session)
        with pytest.raises(PeerError, match='action_dim: 3 -> 7'):
            near.infer([request(reset=True)])


@pytest.mark.parametrize(
    ('reply', 'says'),
    [
        (CHUNK[:3], r'shape \[3, 3\]; expected numbers of shape \[4, 3\]'),
        (CHUNK[None], r'shape \[1, 4, 3\]'),
        (CHUNK.astype('U4'), 'dtype <U4'),
        (np.where(CHUNK == 5, np.nan, CHUNK), '1 values that are not finite'),
        (np.where(CHUNK == 5, 1e300, CHUNK.astype(float)), '1 values that are not finite'),
    ],
)
def test_what_is_no_chunk_never_passes(remote, reply: Any, says: str) -> None:
    with Scripted(lambda line: line.greet().serve(reply)) as far:
        near = remote(far.url())
        with pytest.raises(InvalidOutput, match=says):
            near.infer([request(reset=True)])


@pytest.mark.parametrize('dtype', [np.float64, np.float32, np.int64])
def test_numbers_of_any_type_become_float32(remote, dtype: Any) -> None:
    with Scripted(lambda line: line.greet().serve({'actions': CHUNK.astype(dtype)})) as far:
        chunk = only(remote(far.url()).infer([request(reset=True)]))
    assert chunk.actions.dtype == np.float32
    np.testing.assert_array_equal(chunk.actions, CHUNK)


def test_a_larger_chunk_is_cut_to_the_robot(remote) -> None:
    profile = load_robot('droid').profile
    big = np.arange(16 * 32, dtype=np.float32).reshape(16, 32)
    handshake = {'action_horizon': 16, 'action_dim': 32}
    with Scripted(lambda line: line.greet(handshake).serve(big)) as far:
        near = remote(far.url(), profile)
        chunk = only(near.infer([request(reset=True)]))
    assert near.spec.output_shapes == {'actions': (10, 8)}
    np.testing.assert_array_equal(chunk.actions, big[:10, :8])
    assert chunk.actions.flags.c_contiguous


def test_errors_of_the_far_side_do_not_leak_to_our_clients(caplog) -> None:
    secret = 'KeyError at /srv/secret.py'
    script = [RuntimeError(secret)] * 2

    def traced(line: Line) -> None:
        line.greet(SIZES)
        while True:
            line.hear()
            line.socket.send(f'Traceback (most recent call last):\n  File "x"\n{secret}\n')

    with (
        serving(FailingPolicy(*script, spec=make_spec(handshake=SIZES))) as far,
        chained(far, Dialect.OPENPI) as near,
        Client(near, Dialect.OPENPI) as client,
    ):
        assert client.infer() == client.error(FAILED)
        assert client.infer() == client.error(FAILED)
        assert client.actions().shape == (50, 32)
    with Scripted(traced) as far:
        policy = PLUGIN.load(LoadRequest(far.url(), options={'start_timeout': 0.0}))
        with (
            serving(policy, error_detail=True) as near,
            Client(near, Dialect.OPENPI) as client,
        ):
            answer = client.infer()
            assert answer['message'] == FAILED
            assert 'secret' not in str(answer)
            assert str(far.port) not in str(answer)
    assert secret in caplog.text


def test_an_observation_the_far_side_refuses_is_the_observations_fault(remote, caplog) -> None:
    def picky(line: Line) -> None:
        line.greet()
        while True:
            line.hear()
            line.say({'type': 'error', 'message': 'Invalid request payload', 'detail': 'no image'})

    with Scripted(picky) as far:
        near = remote(far.url())
        for _ in range(3):
            refused = only(near.infer([request(reset=True)]))
            assert isinstance(refused, InvalidObservation)
    assert 'no image' not in str(refused)
    assert caplog.text.count('no image') == 1
    unsendable = request(observation={'x': np.zeros(1, np.complex64)})
    with Scripted(good) as far:
        refused = only(remote(far.url()).infer([unsendable]))
        assert isinstance(refused, InvalidObservation)
        assert 'complex64' in str(refused)


def test_a_failed_first_call_is_tried_again_with_a_reset(remote) -> None:
    def fails_once(line: Line) -> None:
        line.greet().hear()
        line.say({'type': 'error', 'message': 'Internal inference error'})
        line.serve()

    with Scripted(good, fails_once) as far:
        near = remote(far.url())
        with pytest.raises(RequestFailed):
            near.infer([request(reset=True)])
        assert isinstance(only(near.infer([request(reset=True)])), ActionChunk)
        assert isinstance(only(near.infer([request()])), ActionChunk)
    assert [r.get('endpoint') for r in far.heard] == ['infer', 'reset', 'infer', 'infer']


def test_a_late_answer_fails_the_request_and_is_never_the_next_ones(remote) -> None:
    def late(line: Line) -> None:
        line.greet().hear()
        line.hear()

    with Scripted(good, late, good) as far:
        near = remote(far.url(), deadline=0.2)
        with pytest.raises(TimedOut):
            near.infer([request(reset=True)])
        np.testing.assert_array_equal(only(near.infer([request(reset=True)])).actions, CHUNK)
        assert len(far.lines) == 3


@pytest.mark.parametrize(
    ('mode', 'needs', 'session', 'sent'),
    [
        ('forward', False, 'default', None),
        ('forward', False, 'ep 1', 'ep 1'),
        ('forward', True, 'default', 'default'),
        ('none', True, 'ep 1', None),
    ],
)
def test_session_ids_go_as_told(remote, mode, needs, session, sent) -> None:
    handshake = {**HANDSHAKE, 'needs_session_id': needs}
    with Scripted(lambda line: line.greet(handshake).serve()) as far:
        near = remote(far.url(), session_ids=mode)
        near.infer([request(session_id=session, reset=True)])
    assert far.heard[0].get('session_id') == sent


def test_unique_session_ids_are_no_other_processs(remote) -> None:
    with Scripted(good) as far:
        for _ in range(2):
            near = remote(far.url(), session_ids='unique')
            near.infer([request('c1', 'ep', reset=True)])
            near.infer([request('c2', 'ep', reset=True)])
            near.infer([request('c2', 'ep')])
    ids = [r['session_id'] for r in far.heard]
    assert len(set(ids)) == 4
    assert all(name.endswith('/ep') for name in ids)


def test_requests_of_different_clients_are_on_their_way_at_once(remote) -> None:
    together = threading.Barrier(2)

    def waits(line: Line) -> None:
        line.greet().hear()
        together.wait(T)
        line.say(CHUNK)
        line.hear()

    with Scripted(good, good, waits) as far:
        engine = Engine(remote(far.url(), max_in_flight=2))
        engine.start()
        futures = [engine.submit(request(f'c{k}', reset=True), Lane.REMOTE) for k in range(2)]
        for future in futures:
            np.testing.assert_array_equal(future.result(T).actions, CHUNK)
        engine.close()


def test_a_recorded_observation_warms_the_far_side_up(remote, tmp_path) -> None:
    file = tmp_path / 'obs.npz'
    np.savez(file, **{'observation/state': np.arange(3.0), 'prompt': np.array('go')})
    with Scripted(good) as far:
        near = remote(far.url(), warm_up_observation=str(file))
        near.warm_up()
        (sent,) = far.heard
        assert sent['prompt'] == 'go'
        np.testing.assert_array_equal(sent['observation/state'], np.arange(3.0))
        remote(far.url()).warm_up()
        assert len(far.heard) == 1
    with pytest.raises(ConfigurationError, match='does not exist'):
        remote(far.url(), warm_up_observation=str(tmp_path / 'none.npz'))
    (tmp_path / 'x.npz').write_bytes(b'PK\x03\x04nonsense')
    with pytest.raises(ConfigurationError, match=r'x\.npz'):
        remote(far.url(), warm_up_observation=str(tmp_path / 'x.npz'))


def test_flat_keys_are_nested_for_a_server_that_wants_them_so() -> None:
    flat = {'images/cam_high': 1, 'images/cam_low': 2, 'observation/state': 3, 'prompt': 'x'}
    assert nested(flat, []) is flat
    assert nested(flat, ['images']) == {
        'images': {'cam_high': 1, 'cam_low': 2},
        'observation/state': 3,
        'prompt': 'x',
    }
    beside = {'images': {'a': 1}, 'images/b': 2}
    assert nested(beside, ['images']) == {'images': {'a': 1, 'b': 2}}
    assert beside == {'images': {'a': 1}, 'images/b': 2}
    with pytest.raises(InvalidObservation, match='images'):
        nested({'images': 5, 'images/b': 2}, ['images'])


def test_the_engine_and_ros_see_times_of_both_sides(remote) -> None:
    with Scripted(
        lambda line: line.greet().serve({'actions': CHUNK, 'policy_timing': {'infer_ms': 7.0}})
    ) as far:
        engine = Engine(remote(far.url()))
        engine.start()
        chunk = engine.submit(request(reset=True), Lane.ROBOT).result(T)
        engine.close()
    assert chunk.timing_ms['policy.infer_ms'] == 7.0
    assert 0.0 < chunk.timing_ms['round_trip'] <= chunk.timing_ms['infer']
