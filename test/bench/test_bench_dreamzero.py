# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy bench --only model`` on a DreamZero checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from openpi_policy_ros.bench.dreamzero import PATIENCE, STAGES, WAYS, _affordable
from openpi_policy_ros.cli import main


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp('bench') / 'dreamzero'
    assert main(['make-checkpoint', '--policy', 'dreamzero', str(directory)]) == 0
    return directory


def test_every_stage_is_timed_with_and_without_each_cache(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = torch.get_num_threads()
    written = tmp_path / 'result.json'
    arguments = ['--rounds', '1', '--threads', '1', '--json', str(written)]
    assert main(['bench', '--only', 'model', '--model', str(checkpoint), *arguments]) == 0
    torch.set_num_threads(before)
    result = json.loads(written.read_text())['model']
    assert result['policy'] == 'dreamzero'
    assert list(result['ways']) == list(WAYS)
    for one in result['ways'].values():
        assert list(one['stages_ms']) == list(STAGES)
        assert one['times']['median'] > 0.0
        assert one['window_times']['median'] > 0.0
    first, later = result['first_call_ms'], result['later_call_ms']
    assert first['clip']['median'] > 0.0
    assert later['clip']['median'] == later['text']['median'] == 0.0
    assert result['ways']['texts in every call']['stages_ms']['text']['median'] > 0.0
    assert result['difference'] < 1e-4
    sessions = result['session_bytes']
    assert sessions['measured'] == sessions['computed'] > 0
    printed = capsys.readouterr().out
    for name in WAYS:
        assert f'| {name} ' in printed


def test_steps_that_the_fixed_mask_does_not_take_are_refused(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ['--only', 'model', '--model', str(checkpoint), '--steps', '4']
    assert main(['bench', *arguments]) == 2
    assert 'num_inference_steps: is 4' in capsys.readouterr().err


def test_a_slow_checkpoint_gets_fewer_rounds_and_says_how_long_they_take(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _affordable(8, 0.5) == 8
    assert capsys.readouterr().err == ''
    assert _affordable(8, PATIENCE / 3.5) == 3
    told = capsys.readouterr().err
    assert '3 of them, not the 8 asked for' in told
    assert 'min' in told
    assert _affordable(8, 10 * PATIENCE) == 1
