# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Details in errors, further paths, and the form of replies on the stock path."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import EchoPolicy, FailingPolicy, SlowPolicy, make_spec
from openpi_client import msgpack_numpy
from openpi_client.websocket_client_policy import WebsocketClientPolicy
from serving import FAILED, INVALID
from websockets.sync.client import connect

from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.errors import ConfigurationError, InvalidObservation, InvalidOutput
from openpi_policy_ros.wire import Dialect, Session

WRONG = InvalidObservation('state', 'has 3 values', expected='8', remedy='send all joints')
SECRET = ValueError('/secret/path')


def test_details_are_sent_only_where_asked_for(loopback):
    with loopback(FailingPolicy(lambda _: [WRONG], SECRET)).client() as client:
        assert client.infer() == {'type': 'error', 'message': FAILED}
        assert client.infer() == {'type': 'error', 'message': FAILED}
        assert client.ask(b'\xc1') == {'type': 'error', 'message': INVALID}


def test_with_details_errors_name_the_request_and_what_was_wrong_with_it(loopback, caplog):
    output = InvalidOutput('/secret/path gave NaN')
    policy = FailingPolicy(lambda _: [WRONG], SECRET, output)
    with loopback(policy, error_detail=True).client() as client:
        assert client.infer() == {
            'type': 'error',
            'message': FAILED,
            'request_id': 'c1-1',
            'detail': 'state: has 3 values; expected 8; send all joints',
        }
        # What is not the client's fault is for the operator, who finds it under the id.
        for number in (2, 3):
            assert client.infer() == {
                'type': 'error',
                'message': FAILED,
                'request_id': f'c1-{number}',
            }
        invalid = client.ask(msgpack_numpy.packb({'seed': 'seven'}))
        assert (invalid['message'], invalid['request_id']) == (INVALID, 'c1-4')
        assert "seed is 'seven'" in invalid['detail']
        assert client.actions(value=1.0)[0, 0] == 1.0
    for number in (1, 2, 3, 4):
        assert f'req=c1-{number}: ' in caplog.text


def test_details_stay_off_the_stock_path(loopback):
    with loopback(FailingPolicy(lambda _: [WRONG]), error_detail=True).client(
        Dialect.STOCK
    ) as client:
        assert client.infer() == FAILED
        assert client.ask(b'\xc1') == INVALID


def test_a_decoder_that_fails_unexpectedly_tells_no_exception_text(loopback, monkeypatch):
    def broken(frame: bytes | str) -> object:
        raise SECRET

    with loopback(error_detail=True).client() as client:
        monkeypatch.setattr(Session, 'decode', staticmethod(broken))
        assert client.infer() == {'type': 'error', 'message': INVALID, 'request_id': 'c1-1'}


def test_a_detail_is_one_line_of_bounded_length_whatever_it_quotes(loopback):
    error = InvalidObservation('pro\nmpt', '\ud800\x00' + 'x' * 10_000)
    policy = FailingPolicy(lambda _: [error])
    with loopback(policy, error_detail=True).client() as client:
        detail = client.infer()['detail']
        assert detail.startswith('pro\\x0ampt: \\xd800\\x00xxx')
        assert len(detail) < 2100
        assert client.actions(value=1.0)[0, 0] == 1.0


def test_a_timeout_is_told_in_detail(loopback):
    policy = SlowPolicy()
    with loopback(policy, error_detail=True, request_timeout=0.2).client() as client:
        answer = client.infer(value=1.0)
        policy.release()
    assert answer['detail'] == 'no answer within the request timeout of 0.2 s'


def test_aliases_are_served_like_the_path_they_stand_for(loopback):
    served = loopback(path_aliases=['/robot/a -> openpi', '/b->stock'], root_reply='dict')
    address = f'ws://127.0.0.1:{served.port}'
    openpi = WebsocketClientPolicy(f'{address}/robot/a?robot=7')
    assert openpi.get_server_metadata()['action_horizon'] == 50
    assert openpi.infer({'value': 1.0})[0, 0] == 1.0
    assert openpi.infer({'endpoint': 'reset'}) == {'status': 'reset successful'}
    stock = WebsocketClientPolicy(f'{address}/b')
    assert 'action_horizon' not in stock.get_server_metadata()
    assert stock.infer({'value': 2.0})['actions'][0, 0] == 2.0
    for client in (openpi, stock):
        client._ws.close()
    status, body = served.get('/robot/b')
    assert status == 404
    assert '/robot/a' in body
    assert '/b ' in body
    for dialect in Dialect:
        with served.client(dialect) as client:
            assert client.actions(value=3.0)[0, 0] == 3.0


def test_an_alias_idles_like_the_path_it_stands_for(loopback):
    served = loopback(path_aliases=['/a -> openpi', '/b -> stock'], idle_timeout=0.2)
    address = f'ws://127.0.0.1:{served.port}'
    with connect(f'{address}/a') as openpi, connect(f'{address}/b') as stock:
        openpi.recv(timeout=5)
        stock.recv(timeout=5)
        with pytest.raises(Exception, match='1000'):
            openpi.recv(timeout=5)
        with pytest.raises(TimeoutError):
            stock.recv(timeout=0.3)


@pytest.mark.parametrize(
    ('entry', 'said'),
    [
        ('/healthz -> openpi', '/healthz is served already'),
        ('/readyz -> stock', '/readyz is served already'),
        ('/ -> openpi', '/ is served already'),
        ('/v1/realtime/robot/openpi -> stock', 'is served already'),
        ('/a -> vllm', 'expected "/path -> openpi" or "/path -> stock"'),
        ('/a', 'expected "/path -> openpi"'),
        ('-> openpi', "'' is no path"),
        ('a -> openpi', "'a' is no path"),
        ('/a?b=1 -> openpi', "'/a?b=1' is no path"),
        ('/a b -> openpi', "'/a b' is no path"),
        ('/a\n -> openpi\n/b -> openpi', 'is no path'),
        ('/twice -> stock', '/twice has two meanings'),
    ],
)
def test_an_alias_that_cannot_be_is_refused_with_the_reason(entry, said):
    with pytest.raises(ConfigurationError) as refused:
        validate(ServerConfig, {'path_aliases': ['/twice -> openpi', entry]}, 'arguments')
    assert 'path_aliases: ' in str(refused.value)
    assert said in str(refused.value)


def test_the_stock_path_can_be_made_to_reply_with_bare_arrays(loopback):
    served = loopback(root_reply='array')
    client = WebsocketClientPolicy('127.0.0.1', served.port)
    chunk = client.infer({'value': 2.0})
    assert isinstance(chunk, np.ndarray)
    assert chunk[0, 0] == 2.0
    # All else stays as the clients of that path know it.
    client._ws.send(msgpack_numpy.packb({'endpoint': 'reset'}))
    assert client._ws.recv() == 'reset successful'
    with pytest.raises(RuntimeError, match=INVALID):
        client.infer({'seed': 'seven'})
    client._ws.close()


def test_several_outputs_are_a_mapping_of_arrays_also_there(loopback):
    shapes = {'actions': (50, 32), 'future': (4, 8, 8)}
    served = loopback(EchoPolicy(make_spec(output_shapes=shapes)), root_reply='array')
    with served.client(Dialect.STOCK) as client:
        reply = client.infer(value=1.0)
        assert {name: array.shape for name, array in reply.items()} == shapes


def test_a_key_without_a_certificate_is_refused():
    with pytest.raises(ConfigurationError, match='tls_key: is set without tls_certificate'):
        validate(ServerConfig, {'tls_key': '/k.pem'}, 'arguments')
