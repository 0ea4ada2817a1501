# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which session a request belongs to, when it starts afresh, and what is freed."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest

from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, SessionKey
from openpi_policy_ros.wire import Dialect, Infer, Session, UnsupportedValue, packb

CHUNK = ActionChunk(outputs={'actions': np.zeros((2, 3), np.float32)}, timing_ms={'infer': 1.0})

both = pytest.mark.parametrize('dialect', list(Dialect))


class Client:
    """Drives a Session as the server does and notes what it returned."""

    def __init__(self, dialect: Dialect = Dialect.OPENPI, connection: str = 'c1') -> None:
        self.session = Session(dialect, connection, {})
        self.resets: list[bool] = []
        self.ids: list[str] = []
        self.freed: list[str] = []

    def begin(self, session_id: Any = None) -> InferenceRequest:
        content = {} if session_id is None else {'session_id': session_id}
        command = self.session.decode(packb(content))
        assert isinstance(command, Infer)
        request, freed = self.session.begin(command)
        self.freed += [key.session_id for key in freed]
        self.resets.append(request.reset)
        self.ids.append(request.session.session_id)
        return request

    def infer(self, session_id: Any = None, *, fails: bool = False) -> None:
        request = self.begin(session_id)
        if fails:
            self.session.failed()
        else:
            self.session.succeeded(request, CHUNK, {'infer_ms': 1.0})

    def reset(self) -> None:
        _, freed = self.session.reset()
        self.freed += [key.session_id for key in freed]

    def close(self) -> None:
        self.freed += [key.session_id for key in self.session.close()]


@pytest.fixture(params=list(Dialect))
def client(request: pytest.FixtureRequest) -> Client:
    return Client(request.param)


def test_a_a_resets_once(client: Client) -> None:
    client.infer('a')
    client.infer('a')
    assert client.resets == [True, False]
    assert client.freed == []


def test_a_reset_a_resets_twice(client: Client) -> None:
    client.infer('a')
    client.reset()
    client.infer('a')
    assert client.resets == [True, True]
    assert client.freed == ['a']


def test_a_b_a_resets_each_time(client: Client) -> None:
    for session_id in 'aba':
        client.infer(session_id)
    assert client.resets == [True, True, True]
    assert client.freed == ['a', 'b']


def test_without_an_id_the_session_is_default(client: Client) -> None:
    client.infer()
    client.infer()
    assert client.ids == ['default', 'default']
    assert client.resets == [True, False]


@pytest.mark.parametrize('omitted', [None, '', b'', 0, np.array([0]), np.array('')])
def test_omitted_or_falsy_id_sticks_to_the_current_one(client: Client, omitted: Any) -> None:
    client.infer('a')
    client.infer(omitted)
    assert client.ids == ['a', 'a']
    assert client.resets == [True, False]


def test_after_a_reset_the_session_is_default_again(client: Client) -> None:
    client.infer('a')
    client.reset()
    client.infer()
    assert client.ids == ['a', 'default']
    assert client.resets == [True, True]


def test_naming_the_default_session_is_not_a_change(client: Client) -> None:
    client.infer()
    client.infer('default')
    assert client.resets == [True, False]
    assert client.freed == []


def test_one_id_in_many_spellings_is_one_session(client: Client) -> None:
    for spelling in ('a', b'a', np.array('a'), np.array(['a']), np.array([b'a'])):
        client.infer(spelling)
    assert set(client.ids) == {'a'}
    assert client.resets == [True, False, False, False, False]


def test_a_failed_first_call_is_retried_with_reset(client: Client) -> None:
    client.infer('a', fails=True)
    client.infer('a', fails=True)
    client.infer('a')
    client.infer('a')
    assert client.resets == [True, True, True, False]
    assert client.freed == []


def test_a_failure_later_on_does_not_restart_the_session(client: Client) -> None:
    client.infer('a')
    client.infer('a', fails=True)
    client.infer('a')
    assert client.resets == [True, False, False]


def test_a_failed_first_call_of_another_id_still_leaves_the_old_session(client: Client) -> None:
    client.infer('a')
    client.infer('b', fails=True)
    client.infer('a')
    assert client.resets == [True, True, True]
    assert client.freed == ['a', 'b']


def test_a_refused_frame_changes_nothing(client: Client) -> None:
    client.infer('a')
    client.session.invalid()
    client.infer()
    assert client.ids == ['a', 'a']
    assert client.resets == [True, False]


def test_a_chunk_that_cannot_be_sent_does_not_count_as_success(client: Client) -> None:
    request = client.begin('a')
    unsendable = ActionChunk(
        outputs={'actions': np.zeros((2, 3), np.complex64)}, timing_ms={'infer': 1.0}
    )
    with pytest.raises(UnsupportedValue):
        client.session.succeeded(request, unsendable, {'infer_ms': 1.0})
    client.infer('a')
    assert client.resets == [True, True]


def test_a_success_that_comes_after_a_reset_does_not_count(client: Client) -> None:
    request = client.begin('a')
    client.reset()
    client.session.succeeded(request, CHUNK, {'infer_ms': 1.0})
    client.infer('a')
    assert client.resets == [True, True]


def test_reset_before_any_call_frees_nothing_and_is_answered(client: Client) -> None:
    client.reset()
    client.reset()
    assert client.freed == []
    client.infer('a')
    assert client.resets == [True]


def test_disconnect_frees_the_current_session_once(client: Client) -> None:
    client.infer('a')
    client.infer('b')
    client.close()
    client.close()
    assert client.freed == ['a', 'b']


def test_disconnect_during_the_first_call_frees_its_session(client: Client) -> None:
    client.begin('a')
    client.close()
    assert client.freed == ['a']


def test_disconnect_without_a_call_frees_nothing(client: Client) -> None:
    client.close()
    assert client.freed == []


@both
def test_two_connections_with_one_id_are_two_sessions(dialect: Dialect) -> None:
    first, second = Client(dialect, 'c1'), Client(dialect, 'c2')
    for each in (first, second):
        each.infer('default')
    assert (first.resets, second.resets) == ([True], [True])
    assert first.session.close() == [SessionKey('c1', 'default')]
    second.infer('default')
    assert second.resets == [True, False]
    assert second.session.close() == [SessionKey('c2', 'default')]


def test_request_carries_what_the_frame_said() -> None:
    session = Session(Dialect.OPENPI, 'c7', {})
    content = {'session_id': 'a', 'seed': 5, 'sampling_params': {'num_inference_steps': 3}}
    command = session.decode(packb({**content, 'prompt': 'pick'}))
    assert isinstance(command, Infer)
    request, freed = session.begin(command)
    assert request == InferenceRequest(
        observation={'prompt': 'pick'},
        session=SessionKey('c7', 'a'),
        reset=True,
        seed=5,
        num_inference_steps=3,
    )
    assert freed == []


def test_decoding_in_another_thread_touches_no_state() -> None:
    client = Client()
    client.infer('a')
    before = dict(vars(client.session))
    worker = threading.Thread(target=client.session.decode, args=(packb({'session_id': 'b'}),))
    worker.start()
    worker.join(10)
    assert vars(client.session) == before


def test_wire_needs_neither_sockets_nor_an_event_loop() -> None:
    import subprocess

    code = (
        'import sys, openpi_policy_ros.wire; '
        'sys.exit(str({"asyncio", "websockets", "socket", "rclpy", "torch"} & set(sys.modules)))'
    )
    run = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, timeout=60)
    assert run.stderr.strip() == 'set()'
