# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy robot`` presses a node's buttons, or says why nobody answers.

That it moves a real node is tried with the commands of docs/bring-up.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

pytest.importorskip('rclpy')

import rclpy
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from node_process import LATCHED, RELIABLE, Peer, new_domain
from rcl_interfaces.msg import SetParametersResult
from rcl_interfaces.srv import SetParameters
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger

from openpi_policy_ros.cli import main

pytestmark = pytest.mark.ros

LEFT = ['--namespace', 'left']


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
        status = self.peer.publisher(f'{name}/status', DiagnosticStatus, LATCHED)
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

    def _set(
        self, request: SetParameters.Request, response: SetParameters.Response
    ) -> SetParameters.Response:
        (parameter,) = request.parameters
        self.asked.append((parameter.name, parameter.value.double_value))
        good = parameter.value.double_value > 0.0
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
        (['status'], 0, 'READY'),
        (['status', '--all'], 0, 'READY\n  state: READY\n  chunks: 7'),
    ):
        assert main(['robot', *words, *LEFT]) == status
        assert capsys.readouterr().out.strip() == said
    scale = 'safety.velocity_scale'
    assert node.asked == [True, False, 'hold', (scale, 0.3), (scale, -1.0)]


def test_an_answer_that_may_be_another_nodes_is_refused(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    # Only one of two that share a name gets the question: not always the one that moves the robot.
    context = node.peer.context
    twins = [
        rclpy.create_node('openpi_policy', namespace='/left', context=context) for _ in range(2)
    ]
    try:
        assert main(['robot', 'hold', *LEFT]) == 2
    finally:
        twins.pop().destroy_node()
    assert '2 nodes are called /left/openpi_policy' in capsys.readouterr().err
    node.peer.wait_until(
        'one has left', lambda: node.peer.node.get_node_names().count('openpi_policy') == 1
    )
    assert main(['robot', 'hold', *LEFT]) == 0
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
        (['set', 'a={b: c}'], 'expected NAME=VALUE'),
        (['set', f'seed={2**63}'], 'has more than 64 bits; expected NAME=VALUE'),
        (['set', f'a=[1, {-(2**63) - 1}]'], 'has more than 64 bits; expected NAME=VALUE'),
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
