# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What recording costs can be measured with one command."""

from __future__ import annotations

import re

import pytest

pytest.importorskip('rosbags')

from openpi_policy_ros.bench.recording import measure, report


def test_the_cost_of_recording_is_measured_for_both_kinds_of_picture() -> None:
    result = measure(seconds=1)
    assert result['inferences'] == 15
    for kind in ('smooth', 'noise'):
        one = result[kind]
        assert one['dropped'] == 0
        assert one['worker_us'] > 0.0
        # Three images of 224 x 224 x 3 at 15 Hz, and a little beside.
        assert one['in_mb_s'] == pytest.approx(15 * 3 * 224 * 224 * 3 / 1e6, rel=0.1)
    # Noise cannot be shrunk, anything else can.
    assert result['noise']['disk_mb_s'] > 0.9 * result['noise']['in_mb_s']
    assert result['smooth']['disk_mb_s'] < 0.8 * result['smooth']['in_mb_s']
    text = report(result)
    assert re.search(r'^smooth +\d', text, re.MULTILINE)
    assert re.search(r'^noise +\d', text, re.MULTILINE)
