# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""All checks together: bounded, told as text and JSON, and run once for real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest

from openpi_policy_ros import cli
from openpi_policy_ros.doctor import children, examination
from openpi_policy_ros.doctor.asked import Asked
from openpi_policy_ros.doctor.examination import CHECKS, as_json, as_text, examine
from openpi_policy_ros.doctor.findings import Outcome, fail, failed, ok, skipped, warn

FINDINGS = [ok('a', 'fine'), warn('bb', 'hm', 'mend it'), skipped('c', 'no ROS')]


def test_the_report_has_a_line_for_each_what_to_do_below_and_a_count():
    assert as_text(FINDINGS).splitlines() == [
        'OK       a   fine',
        'WARN     bb  hm',
        '             -> mend it',
        'SKIPPED  c   no ROS',
        '',
        '1 OK, 1 WARN, 0 FAIL, 1 SKIPPED',
    ]


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
    assert (slow.outcome, slow.found) == (Outcome.SKIPPED, 'no answer within 0 s')
    assert raised.outcome is Outcome.FAIL
    assert "KeyError: 'x'" in raised.found
    assert fine.outcome is Outcome.OK


@pytest.mark.parametrize(
    ('code', 'said'),
    [
        ('import time; time.sleep(60)', 'no answer within 1 s'),
        ('import os; os.abort()', 'ended by signal 6'),
        ('raise SystemExit("broken")', 'broken'),
        ('print("[1]")', 'no answer'),
        ('print("text")', 'no answer'),
    ],
)
def test_a_child_without_an_answer_is_a_problem_not_an_exception(code, said):
    assert said in children.run([sys.executable, '-c', code], 1.0)['problem']


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
    assert said.startswith('FAIL     robot file')
    assert 'OK       rest        nobody' in said
    assert cli.main(['doctor', '--robot', 'droid', '--json']) == 0
    assert json.loads(capsys.readouterr().out)['failed'] is False
