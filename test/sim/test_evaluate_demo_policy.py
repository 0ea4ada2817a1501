# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The command that measures the demo checkpoint writes what it measured, and the card of it."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from openpi_policy_ros_sim.demo import FOLDER

SCRIPT = Path(__file__).resolve().parents[2] / 'scripts' / 'evaluate_demo_policy.py'

pytestmark = pytest.mark.skipif(
    not (FOLDER / 'model.safetensors').exists(), reason='no trained checkpoint in sim/'
)


def call(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / 'checkpoint'
    shutil.copytree(FOLDER, folder)
    for name in ('README.md', 'evaluation.json'):
        (folder / name).unlink(missing_ok=True)
    return folder


@pytest.mark.usefixtures('drawing')
def test_it_writes_results_and_a_card(checkpoint: Path, tmp_path: Path) -> None:
    training = tmp_path / 'training'
    training.mkdir()
    settings = {
        'episodes': 30, 'steps': 777, 'batch': 32, 'draws': 4, 'rate': 0.001, 'helper': 0.1,
        'relabel_at': [0.35, 0.6], 'relabel_episodes': 40, 'every': 3, 'seed': 5,
    }  # fmt: skip
    (training / 'settings.json').write_text(json.dumps(settings), encoding='utf-8')
    options = ('--episodes', 1, '--seed', 7, '--max-steps', 8, '--processes', 1)
    told = call('--checkpoint', checkpoint, '--training', training, '--minutes', 61, *options)

    found = json.loads((checkpoint / 'evaluation.json').read_text(encoding='utf-8'))
    weights = (checkpoint / 'model.safetensors').read_bytes()
    assert found['weights_sha256'] == hashlib.sha256(weights).hexdigest()
    # Half a second is not enough for anything.
    assert [(one['condition'], one['seed'], one['success']) for one in found['episodes']] == [
        ('lift', 7, False),
        ('bowl', 7, False),
        ('swapped', 7, False),
    ]
    assert all(one['steps'] == 8 for one in found['episodes'])
    assert found['training'] == {**settings, 'minutes': 61}
    assert found['summary']['swapped']['prompt'] == 'lift the red cube'
    card = (checkpoint / 'README.md').read_text(encoding='utf-8')
    assert told.strip() in card
    for said in ('| 0 of 1 | 0-79 % | - |', 'in 61 minutes', '777 steps', '35 %, 60 % of'):
        assert said in card

    call('--checkpoint', checkpoint, '--card-only', '--minutes', 62)
    assert 'in 62 minutes' in (checkpoint / 'README.md').read_text(encoding='utf-8')
    again = json.loads((checkpoint / 'evaluation.json').read_text(encoding='utf-8'))
    assert again['episodes'] == found['episodes']
