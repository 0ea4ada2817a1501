# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The measurement of /diagnostics runs and prints its table."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest


def test_what_a_message_costs_is_printed_beside_the_machine() -> None:
    pytest.importorskip('rclpy')
    environment = {
        'AMENT_PREFIX_PATH': sys.prefix,
        **os.environ,
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'OFF',
        'OMP_NUM_THREADS': '1',
    }
    done = subprocess.run(
        [sys.executable, '-m', 'openpi_policy_ros.bench.diagnostics', '--count', '5'],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60.0,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert 'numpy' in done.stdout
    (row,) = re.findall(r'^\| one message of /diagnostics \|(.*)\|$', done.stdout, re.M)
    times = [float(cell) for cell in row.split('|')]
    assert times == sorted(times)
    assert times[0] > 0.0
