# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The command that trains the demo checkpoint refuses what it could only fail at later."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('mujoco')

SCRIPTS = Path(__file__).resolve().parents[2] / 'scripts'
SMALL = ('--episodes', '1', '--steps', '3')


@pytest.fixture
def refusal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return what calls the command, which has to refuse, and returns what it says."""
    monkeypatch.syspath_prepend(SCRIPTS)
    script = importlib.import_module('train_demo_policy')

    def made_nothing(*_: object, **__: object) -> None:
        raise AssertionError('it went on')

    monkeypatch.setattr(script, 'write_demonstrations', made_nothing)

    def call(*arguments: object) -> str:
        with pytest.raises(SystemExit) as refused:
            script.main([str(each) for each in arguments])
        assert refused.value.code == 2
        return capsys.readouterr().err

    return call


@pytest.mark.parametrize(
    ('option', 'value', 'said'),
    [
        ('--episodes', '0', '--episodes: at least 1'),
        ('--relabel-episodes', '0', '--relabel-episodes: at least 1'),
        ('--batch', '7', '--batch: a multiple of 2'),
        ('--rate', 'nan', '--rate: more than 0'),
        ('--helper', '-1', '--helper: at least 0'),
        ('--seed', '-1', '--seed: at least 0'),
        ('--relabel-at', '1.5', '--relabel-at: shares between 0 and 1 that rise'),
    ],
)
def test_numbers_that_cannot_be_are_refused(
    refusal: Any, tmp_path: Path, option: str, value: str, said: str
) -> None:
    assert said in refusal(tmp_path / 'new', option, value)
    assert not (tmp_path / 'new').exists()


def test_other_settings_than_those_it_was_begun_with_are_named(
    refusal: Any, tmp_path: Path
) -> None:
    (tmp_path / 'settings.json').write_text('{"steps": 4, "episodes": 1}', encoding='utf-8')
    told = refusal(tmp_path, *SMALL)
    assert 'steps: 4, not 3' in told
    assert 'episodes: ' not in told.replace('relabel_episodes', '')


def test_a_checkpoint_of_somebody_else_is_not_written_over(refusal: Any, tmp_path: Path) -> None:
    (tmp_path / 'checkpoint').mkdir()
    assert 'holds a checkpoint, but no settings.json' in refusal(tmp_path, *SMALL)
    assert [each.name for each in tmp_path.iterdir()] == ['checkpoint']


def test_a_file_that_a_stop_left_half_written_is_named(refusal: Any, tmp_path: Path) -> None:
    (tmp_path / 'settings.json').write_text('{"steps": ', encoding='utf-8')
    assert f'{tmp_path}/settings.json is damaged' in refusal(tmp_path, *SMALL)


def test_a_folder_that_cannot_be_made_is_named(refusal: Any) -> None:
    assert '/dev/null' in refusal('/dev/null/training', *SMALL)
