# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy robot`` presses a node's buttons, or says why nobody answers.

That it moves a real node is tried with the commands of docs/bring-up.md.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

pytest.importorskip('rclpy')

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from node_process import LATCHED, RELIABLE, Peer, new_domain
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rcl_interfaces.srv import DescribeParameters, ListParameters, SetParameters
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

from openpi_policy_ros.cli import main, robot

pytestmark = pytest.mark.ros

LEFT = ['--namespace', 'left']
KINDS = {'seed': 2, 'safety.velocity_scale': 3, 'default_prompt': 4, 'limits.velocity': 8}
"""Parameters of the node and their types (rcl_interfaces/ParameterType)."""


class Node:
    """Has the services and topics of a node in /left, and notes what is asked of it."""

    def __init__(self, domain: int) -> None:
        self.asked: list[object] = []
        self.peer = Peer(domain)
        node = self.peer.node
        name = '/left/openpi_policy'
        node.create_service(SetBool, f'{name}/enable', self._enable)
        node.create_service(Trigger, f'{name}/hold', self._hold)
        node.create_service(SetParameters, f'{name}/set_parameters', self._set)
        node.create_service(DescribeParameters, f'{name}/describe_parameters', self._describe)
        node.create_service(ListParameters, f'{name}/list_parameters', self._list)
        self.diagnostics = self.peer.publisher('/diagnostics', DiagnosticArray, RELIABLE)
        self.status = status = self.peer.publisher(f'{name}/status', DiagnosticStatus, LATCHED)
        pairs = [KeyValue(key='state', value='READY'), KeyValue(key='chunks', value='7')]
        status.publish(DiagnosticStatus(message='READY', values=pairs))
        echo = self.peer.publisher(f'{name}/current_prompt', String, LATCHED)
        node.create_subscription(String, '/left/prompt', echo.publish, RELIABLE)

    def _enable(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        self.asked.append(request.data)
        response.success = not request.data
        response.message = 'disabled' if response.success else 'refused: S12'
        return response

    def _hold(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self.asked.append('hold')
        response.success, response.message = True, 'HOLD'
        return response

    def _describe(
        self, request: DescribeParameters.Request, response: DescribeParameters.Response
    ) -> DescribeParameters.Response:
        if all(name in KINDS for name in request.names):
            response.descriptors = [ParameterDescriptor(type=KINDS[n]) for n in request.names]
        return response

    def _list(
        self, request: ListParameters.Request, response: ListParameters.Response
    ) -> ListParameters.Response:
        response.result.names = list(KINDS)
        return response

    def tell(self, *parts: tuple[bytes, str, str]) -> None:
        """Publish diagnostics, among those of another node."""
        own = [
            DiagnosticStatus(level=level, name=f'/left/openpi_policy: {name}', message=message)
            for level, name, message in parts
        ]
        other = DiagnosticStatus(level=DiagnosticStatus.ERROR, name='/openpi_policy: status')
        self.diagnostics.publish(DiagnosticArray(status=[other]))
        self.diagnostics.publish(DiagnosticArray(status=[*own, other]))

    def _set(
        self, request: SetParameters.Request, response: SetParameters.Response
    ) -> SetParameters.Response:
        (parameter,) = request.parameters
        value = parameter.value
        kinds = {2: 'integer', 3: 'double', 4: 'string', 8: 'double_array'}
        said = getattr(value, f'{kinds[value.type]}_value')
        self.asked.append((parameter.name, list(said) if value.type == 8 else said))
        good = value.type != 3 or said > 0.0
        response.results = [SetParametersResult(successful=good, reason='' if good else 'above 0')]
        return response


@pytest.fixture
def domain(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> int:
    number = new_domain()
    monkeypatch.setenv('ROS_DOMAIN_ID', str(number))
    monkeypatch.setenv('ROS_LOG_DIR', str(tmp_path))
    return number


@pytest.fixture
def node(domain: int) -> Iterator[Node]:
    made = Node(domain)
    yield made
    made.peer.close()


def test_its_buttons_reach_the_node_and_its_answers_are_told(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, status, said in (
        (['enable'], 1, 'refused: S12'),
        (['disable'], 0, 'disabled'),
        (['hold'], 0, 'HOLD'),
        (['set', 'safety.velocity_scale=0.3'], 0, 'safety.velocity_scale=0.3'),
        (['set', 'safety.velocity_scale=-1.0'], 1, 'refused: above 0'),
        (['prompt', 'pick up: the block'], 0, 'prompt: pick up: the block'),
        (['prompt', 'pick', 'up', 'the', 'block'], 0, 'prompt: pick up the block'),
        (['status'], 0, 'READY'),
        (['status', '--all'], 0, 'READY\n  state: READY\n  chunks: 7'),
    ):
        assert main(['robot', *words, *LEFT]) == status
        assert capsys.readouterr().out.strip() == said
    scale = 'safety.velocity_scale'
    assert node.asked == [True, False, 'hold', (scale, 0.3), (scale, -1.0)]


def test_status_follow_prints_a_line_when_state_or_kind_of_reason_change_but_not_with_ages(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    old = "S1: camera 'cam_1' is {} s old (allowed 0.150 s)"
    said = [
        f'WAIT: {old.format(0.182)}',
        f'WAIT: {old.format(0.21)}',
        f'WAIT: {old.format(1.0)}',
        f'WAIT: {old.format(1.0).replace("cam_1", "cam_2")}',
        f'HOLD: {old.format(1.1)}',
        f'HOLD: {old.format(12)}',
        f'HOLD: {old.format(12).replace("S1", "S2")}',
        'READY',
    ]

    def change() -> None:
        deadline = time.monotonic() + 30.0
        while not node.status.get_subscription_count() and time.monotonic() < deadline:
            time.sleep(0.02)
        for text in said:
            time.sleep(0.3)
            node.status.publish(DiagnosticStatus(message=text))
        time.sleep(1.0)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=change, daemon=True)
    # Whatever another part of the process has made of Ctrl-C: here it ends the command.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        thread.start()
        main(['robot', 'status', '--follow', *LEFT])
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    thread.join()
    lines = capsys.readouterr().out.splitlines()
    # The latched READY of before may have been replaced by the time it is heard.
    assert lines[lines[0] == 'READY' :] == [said[n] for n in (0, 3, 4, 6, 7)]


@pytest.mark.parametrize(
    ('words', 'taken'),
    [
        (['safety.velocity_scale=1'], ('safety.velocity_scale', 1.0)),
        (['safety.velocity_scale', '0.3'], ('safety.velocity_scale', 0.3)),
        (['safety.velocity_scale', '=', '0.3'], ('safety.velocity_scale', 0.3)),
        (['limits.velocity=[1, 2.5]'], ('limits.velocity', [1.0, 2.5])),
        (['seed=1'], ('seed', 1)),
        (['default_prompt=3'], ('default_prompt', '3')),
        (['default_prompt', 'pick', 'x=1', 'up'], ('default_prompt', 'pick x=1 up')),
        (['default_prompt=pick', 'up'], ('default_prompt', 'pick up')),
    ],
)
def test_a_value_gets_the_type_that_its_parameter_is_declared_with(
    node: Node, words: list[str], taken: tuple[str, object]
) -> None:
    assert main(['robot', 'set', *words, *LEFT]) == 0
    assert node.asked == [taken]


def test_what_no_parameter_can_be_is_refused_with_the_nearest_name(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['robot', 'set', 'safety.velocity_scal=0.3', *LEFT]) == 1
    said = capsys.readouterr().out
    for value, why in (
        ('safety.velocity_scale={b: c}', ''),
        (f'seed={2**63}', 'more than 64 bits'),
    ):
        assert main(['robot', 'set', value, *LEFT]) == 2
        text = capsys.readouterr().err
        assert 'expected NAME=VALUE' in text
        assert why in text
    assert 'has no parameter safety.velocity_scal; did you mean safety.velocity_scale?' in said
    assert node.asked == []


@pytest.mark.parametrize(
    ('level', 'status'),
    [
        (DiagnosticStatus.OK, 0),
        (DiagnosticStatus.WARN, 3),
        (DiagnosticStatus.ERROR, 4),
        (DiagnosticStatus.STALE, 4),
    ],
)
def test_diagnostics_are_printed_and_the_worst_makes_the_status(
    node: Node, capsys: pytest.CaptureFixture[str], level: bytes, status: int
) -> None:
    parts = (DiagnosticStatus.OK, 'status', 'READY'), (level, 'camera wrist', 'well, or not')
    timer = node.peer.node.create_timer(0.1, lambda: node.tell(*parts))
    assert main(['robot', 'diagnostics', *LEFT]) == status
    name = {b'\0': 'OK   ', b'\1': 'WARN ', b'\2': 'ERROR', b'\3': 'STALE'}[level]
    assert capsys.readouterr().out == f'OK     READY\n{name}  camera wrist: well, or not\n'
    node.peer.node.destroy_timer(timer)


def test_two_nodes_of_one_name_are_commanded_by_nobody_but_held(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    twins = [
        rclpy.create_node('openpi_policy', context=node.peer.context, namespace='/left')
        for _ in range(2)
    ]
    timer = node.peer.node.create_timer(0.1, lambda: node.tell((b'\0', 'status', 'READY')))
    for words in (
        ['enable'],
        ['set', 'seed=1'],
        ['prompt', 'x'],
        ['status'],
        ['diagnostics'],
    ):
        assert main(['robot', *words, *LEFT]) == 1, words
        said = capsys.readouterr()
        assert '2 nodes are named /left/openpi_policy' in said.err
        assert 'emergency stop' in said.err
        assert said.out == ''
    assert node.asked == []
    # What makes the robot safer is never kept from it.
    for words in (['hold'], ['disable']):
        assert main(['robot', *words, *LEFT]) == 1
        assert 'Ctrl-C in the terminal of each' in capsys.readouterr().err
    # Asked again where the answer got lost.
    assert [*dict.fromkeys(node.asked)] == ['hold', False]
    twins.pop().destroy_node()
    deadline = time.monotonic() + 20.0
    while main(['robot', 'status', *LEFT]) != 0:
        assert time.monotonic() < deadline
    node.peer.node.destroy_timer(timer)
    twins.pop().destroy_node()


def test_where_nobody_answers_it_says_who_is_there(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['robot', 'status', '--timeout', '1.5']) == 2
    text = capsys.readouterr().err
    assert 'no status on /openpi_policy/status within 1.5 s' in text
    assert '/left/openpi_policy: give its --namespace' in text


def test_where_nobody_is_it_names_the_domain(
    domain: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['robot', 'reset', '--timeout', '0.2']) == 2
    text = capsys.readouterr().err
    assert 'no service /openpi_policy/reset within 0.2 s' in text
    assert f'ROS_DOMAIN_ID={domain}' in text


def test_what_it_asks_for_itself_is_no_node(
    domain: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['robot', 'enable', '--timeout', '0.5']) == 2
    assert f'there is no openpi_policy in this domain (ROS_DOMAIN_ID={domain})' in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize('namespace', ['1st', '/left arm', '/left-arm/'])
def test_a_namespace_that_ros_cannot_have_is_refused(
    namespace: str, domain: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['robot', 'enable', '--namespace', namespace]) == 2
    assert f'--namespace {namespace!r}: ' in capsys.readouterr().err


@pytest.mark.parametrize(
    ('words', 'why'),
    [
        (['prompt'], 'prompt; expected a text after prompt'),
        (['hold', 'still'], 'hold still; expected hold alone'),
        (['set', 'safety.velocity_scale'], 'expected NAME=VALUE'),
        (['set', '=3'], 'expected NAME=VALUE'),
    ],
)
def test_words_that_mean_nothing_are_refused(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['robot', *words]) == 2
    assert why in capsys.readouterr().err


def test_without_ros_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, 'rclpy', None)
    assert main(['robot', 'status']) == 2
    text = capsys.readouterr().err
    assert 'needs ROS 2' in text
    assert 'scripts/env.sh' in text


def test_a_hold_whose_answer_gets_lost_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robot, 'AGAIN', 0.05)
    answer = Trigger.Response(success=True, message='HOLD')
    sent: list[Future[Trigger.Response]] = []

    def call(request: Trigger.Request) -> Future[Trigger.Response]:
        sent.append(Future())
        if len(sent) == 2:
            sent[-1].set_result(answer)
        return sent[-1]

    client = SimpleNamespace(wait_for_service=lambda seconds: True, call_async=call)
    operator = robot.Operator(
        SimpleNamespace(spin_once=lambda node, timeout_sec: time.sleep(0.01)),
        SimpleNamespace(create_client=lambda kind, name: client),
        'left',
        timeout=5.0,
        interrupted=lambda: False,
    )
    assert operator.press('hold') == 0
    assert len(sent) == 2
