# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The command that measures the demo checkpoint writes what it measured, and the card of it."""

from __future__ import annotations

import hashlib
import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
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


REFUSED = {
    'numbers': (
        ['--episodes', '0', '--processes', '0', '--seed', '-1', '--horizon', '0'],
        ['4 problems', '--episodes: 0, expected 1 or more', '--seed: -1, expected 0 or more'],
    ),
    'trained': (['--seed', '999950'], ['--seed: those from 1000000 on are for training']),
    'results': (['--results', __file__], ['holds no results', 'openpi-policy-sim wrote (--json)']),
    # The processes of the pool would begin again and again.
    'nothing': (['--checkpoint', 'nowhere'], ["'nowhere' is no directory"]),
    'history': (['--training', 'nowhere'], ['nowhere/settings.json']),
    'card': (['--checkpoint', 'nowhere', '--card-only'], ['there is no nowhere/evaluation.json']),
    'horizon': (['--horizon', '11'], ['--horizon: 11, but a chunk has 10 rows']),
}


@pytest.mark.parametrize(('arguments', 'said'), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused_before_the_first_episode(
    arguments: list[str],
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(SCRIPT.parent)
    with pytest.raises(SystemExit) as refusal:
        importlib.import_module(SCRIPT.stem).main(arguments)
    assert refusal.value.code == 2
    told = capsys.readouterr().err
    assert all(each in told for each in said), told


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


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    monkeypatch.syspath_prepend(SCRIPT.parent)
    main = importlib.import_module(SCRIPT.stem).main

    def call_here(*arguments: object) -> None:
        assert main([str(each) for each in arguments]) == 0

    return call_here


def test_the_shipped_card_is_what_its_files_make(
    command: Callable[..., None], tmp_path: Path
) -> None:
    shutil.copytree(FOLDER, tmp_path / 'copy')
    command('--checkpoint', tmp_path / 'copy', '--card-only')
    for name in ('README.md', 'evaluation.json'):
        assert (tmp_path / 'copy' / name).read_bytes() == (FOLDER / name).read_bytes()
    card = (FOLDER / 'README.md').read_text(encoding='utf-8')
    assert 'Cameras are drawn 126×224 here' in card
    assert 'handshake asks for, 72×128 between' in card


def test_the_card_tells_what_came_of_it_over_websocket_and_ros(
    command: Callable[..., None], tmp_path: Path
) -> None:
    folder = tmp_path / 'copy'
    shutil.copytree(FOLDER, folder)
    content = json.loads((folder / 'evaluation.json').read_text(encoding='utf-8'))
    del content['loops']
    (folder / 'evaluation.json').write_text(json.dumps(content), encoding='utf-8')
    files = [tmp_path / 'ws.json', tmp_path / 'ros.json']
    for file, loop in zip(files, ({}, {'loop': 'ros'}), strict=True):
        tasks = ('lift', 'bowl') if loop else ('lift',)
        settings = {'seed': 40, **loop}
        summary = [{'task': task, 'episodes': 30, 'successes': len(loop) + 9} for task in tasks]
        told = {'format': 'openpi_policy_ros_sim.results', 'settings': settings, 'summary': summary}
        file.write_text(json.dumps(told), encoding='utf-8')
    command('--checkpoint', folder, '--card-only')
    assert 'Measured over both' not in (folder / 'README.md').read_text(encoding='utf-8')
    command('--checkpoint', folder, '--card-only', '--results', *files)
    # Once told, it is known.
    command('--checkpoint', folder, '--card-only')
    card = (folder / 'README.md').read_text(encoding='utf-8')
    assert 'WebSocket, `openpi-policy-sim ws` | *lift* | 9 of 30 | 40 to 69 |' in card
    assert 'gates on | *bowl* | 10 of 30 | 40 to 69 |' in card

    # Of other weights it says nothing.
    content = json.loads((folder / 'evaluation.json').read_text(encoding='utf-8'))
    module = sys.modules[SCRIPT.stem]
    options = module._parser().parse_args(['--checkpoint', str(folder)])
    assert module.loops(options, content['weights_sha256']) == content['loops'] != {}
    assert module.loops(options, 'another') == {}
