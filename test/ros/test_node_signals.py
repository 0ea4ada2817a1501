# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The node leaves cleanly: on SIGINT once and twice, on SIGTERM, and while it still loads."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip('rclpy')

from node_process import WAIT, environment, install_digest_policy, new_domain, start_node

pytestmark = pytest.mark.ros


@pytest.mark.parametrize(
    'signals',
    [[signal.SIGINT], [signal.SIGINT, signal.SIGINT], [signal.SIGTERM, signal.SIGINT]],
    ids=lambda signals: '+'.join(one.name for one in signals),
)
@pytest.mark.parametrize('while_loading', [False, True])
def test_a_signal_ends_the_node_with_status_0(
    tmp_path: Path, signals: list[signal.Signals], while_loading: bool
) -> None:
    policy, python_path = install_digest_policy(tmp_path)
    process = start_node(
        tmp_path,
        new_domain(),
        {
            'model': 'slow' if while_loading else 'digest',
            'policy': str(policy),
            'robot': 'droid',
            'port': 0,
        },
        python_path=python_path,
    )
    try:
        process.wait_for('loading slow' if while_loading else 'active')
        for number in signals:
            process.signal(number)
            time.sleep(0.05)
        assert process.join() == 0
        log = process.text()
        # Of two signals that are both pending, either may be handled first.
        assert any(f'stopping: {one.name}' in log for one in signals)
        assert 'Traceback' not in log
        assert 'ERROR' not in log
    finally:
        process.kill()


LISTENER = """
import rclpy
from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.qos import DurabilityPolicy, QoSProfile

def show(said):
    print(said.message, flush=True)
    if 'finalized' in said.message:
        raise SystemExit

rclpy.init()
node = rclpy.create_node('listener')
latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
node.create_subscription(DiagnosticStatus, 'openpi_policy/status', show, latched)
rclpy.spin(node)
"""


@pytest.mark.parametrize('stuck', [False, True])
def test_the_node_leaves_when_its_last_status_was_heard_or_cannot_be(
    tmp_path: Path, stuck: bool
) -> None:
    policy, python_path = install_digest_policy(tmp_path)
    domain = new_domain()
    process = start_node(
        tmp_path,
        domain,
        {'model': 'digest', 'policy': str(policy), 'port': 0},
        python_path=python_path,
    )
    heard = tmp_path / 'heard.txt'
    with heard.open('wb') as output:
        listener = subprocess.Popen(
            [sys.executable, '-c', LISTENER], stdout=output, env=environment(domain, tmp_path)
        )
    try:
        deadline = time.monotonic() + WAIT
        while 'READY' not in heard.read_text():
            assert time.monotonic() < deadline, process.text()
            time.sleep(0.02)
        if stuck:
            listener.send_signal(signal.SIGSTOP)
        process.signal(signal.SIGINT)
        assert process.join() == 0
        warned = '~/status: a subscriber has not acknowledged the last one' in process.text()
        if stuck:
            assert warned
        elif not warned:
            assert listener.wait(WAIT) == 0
    finally:
        listener.kill()
        listener.wait(WAIT)
        process.kill()
