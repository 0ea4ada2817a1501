# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The node leaves cleanly: on SIGINT once and twice, on SIGTERM, and while it still loads."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

pytest.importorskip('rclpy')

from node_process import install_digest_policy, new_domain, start_node

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
