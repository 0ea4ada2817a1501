# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""All checks together: bounded, told as text and JSON, and run once for real."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from openpi_policy_ros import cli
from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.doctor import children, examination, graph, ports
from openpi_policy_ros.doctor.asked import Asked
from openpi_policy_ros.doctor.examination import CHECKS, as_json, as_text, examine
from openpi_policy_ros.doctor.findings import Outcome, fail, failed, not_made, ok, skipped, warn

FINDINGS = [ok('a', 'fine'), warn('bb', 'hm', 'mend it'), skipped('c', 'no ROS')]


def test_the_report_has_a_line_for_each_what_to_do_below_and_a_count():
    assert as_text(FINDINGS).splitlines() == [
        'OK        a   fine',
        'WARN      bb  hm',
        '              -> mend it',
        'SKIPPED   c   no ROS',
        '',
        '1 OK, 1 WARN, 0 FAIL, 1 SKIPPED, 0 not made',
    ]


def test_what_could_not_be_looked_at_is_counted_and_fails_where_it_was_asked_for():
    findings = [ok('a', 'fine'), not_made('camera front', 'no answer within 14 s')]
    assert as_text(findings).splitlines()[1:] == [
        'not made  camera front  no answer within 14 s',
        '                        -> ask again when the machine has less to do',
        '',
        '1 OK, 0 WARN, 0 FAIL, 0 SKIPPED, 1 not made',
    ]
    assert not failed(findings)
    assert failed(findings, ['camera front'])
    assert as_json(findings, ['camera front'])['failed'] is True


def test_where_the_graph_does_not_answer_every_part_of_the_robot_is_named(monkeypatch, capsys):
    slow = {'problem': 'no answer within 14 s', 'slow': True}
    monkeypatch.setattr(graph, 'look', lambda asked: slow)
    checks = [(name, check) for name, check in CHECKS if name == 'graph']
    monkeypatch.setattr(examination, 'examine', lambda asked: examine(asked, checks))
    assert cli.main(['doctor', '--robot', 'so101', '--port', '0']) == 1
    said = capsys.readouterr().out
    for check in ('nodes', 'camera front', 'camera wrist', 'joint_states', 'output arm'):
        assert f'not made  {check}' in said
    assert said.strip().endswith('0 FAIL, 0 SKIPPED, 6 not made')
    assert cli.main(['doctor', '--port', '0']) == 0
    assert capsys.readouterr().out.strip().endswith('0 FAIL, 0 SKIPPED, 1 not made')


def test_a_port_that_our_own_node_has_is_well():
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        port = taken.getsockname()[1]
        asked = Asked(server=ServerConfig(host='127.0.0.1', port=port))
        own, *rest = ports.examine(asked, f'127.0.0.1:{port}')
        (other,) = ports.examine(asked, f'127.0.0.1:{port + 1}')
    assert own.outcome is Outcome.OK
    assert 'is taken by the node that runs already' in own.found
    assert {one.outcome for one in rest} == {Outcome.OK}
    assert other.outcome is Outcome.FAIL


def test_only_a_failure_fails():
    assert not failed(FINDINGS)
    assert failed([*FINDINGS, fail('d', 'no', 'do')])
    assert as_json(FINDINGS)['failed'] is False
    assert as_json(FINDINGS)['findings'][1] == {
        'check': 'bb',
        'outcome': 'WARN',
        'found': 'hm',
        'remedy': 'mend it',
    }


def test_a_check_that_hangs_is_left_out_and_one_that_raises_is_told():
    release = threading.Event()

    def hang(_: Asked) -> list:
        release.wait(60.0)
        return []

    def wrong(_: Asked) -> list:
        raise KeyError('x')

    checks = (('slow', hang), ('wrong', wrong), ('fine', lambda _: [ok('fine', 'yes')]))
    slow, raised, fine = examine(Asked(), checks, limit=0.5)
    release.set()
    assert (slow.outcome, slow.found) == (Outcome.NOT_MADE, 'no answer within 0 s')
    assert raised.outcome is Outcome.FAIL
    assert "KeyError: 'x'" in raised.found
    assert fine.outcome is Outcome.OK


def test_a_child_that_takes_too_long_is_a_problem_that_says_so():
    code = 'import time; time.sleep(600)'
    answer = children.run([sys.executable, '-c', code], 0.5)
    assert answer == {'problem': 'no answer within 0 s', 'slow': True}


@pytest.mark.parametrize(
    ('code', 'said'),
    [
        ('import os; os.abort()', 'ended by signal 6'),
        ('raise SystemExit("broken")', 'broken'),
        ('print("[1]")', 'no answer'),
        ('print("text")', 'no answer'),
    ],
)
def test_a_child_without_an_answer_is_a_problem_not_an_exception(code, said):
    # On a busy machine a child may take seconds to begin.
    answer = children.run([sys.executable, '-c', code], 60.0)
    assert said in answer['problem']
    assert 'slow' not in answer


def test_a_program_that_is_not_there_is_a_problem_too():
    assert 'cannot be run' in children.run(['/nowhere/python'], 1.0)['problem']


def test_the_command_answers_here_within_its_bound():
    # The doctor's own domain: what other tests have on the graph is no matter.
    environment = {**os.environ, 'ROS_DOMAIN_ID': str(60 + os.getpid() % 40)}
    command = [sys.executable, '-m', 'openpi_policy_ros.cli', 'doctor', '--json', '--port', '0']
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    answer = json.loads(done.stdout)
    assert done.returncode == int(answer['failed']), done.stderr
    told = {one['check']: one for one in answer['findings']}
    assert told['python']['outcome'] == 'OK'
    assert told['packages']['outcome'] == 'OK'
    assert told['model']['outcome'] == 'SKIPPED'
    assert all(one['remedy'] for one in told.values() if one['outcome'] in ('WARN', 'FAIL'))
    assert len(told) > len(CHECKS)


def test_a_robot_file_that_is_wrong_makes_the_status_1(monkeypatch, capsys):
    monkeypatch.setattr(examination, 'examine', lambda asked: [ok('rest', asked.robot_name)])
    assert cli.main(['doctor', '--robot', 'nobody']) == 1
    said = capsys.readouterr().out
    assert said.startswith('FAIL      robot file')
    assert 'OK        rest        nobody' in said
    assert cli.main(['doctor', '--robot', 'droid', '--json']) == 0
    assert json.loads(capsys.readouterr().out)['failed'] is False
