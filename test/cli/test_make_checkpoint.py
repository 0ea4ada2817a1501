# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy make-checkpoint``: arguments and refusals; the content is the policy's."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from openpi_policy_ros.cli import main
from openpi_policy_ros.cli import make_checkpoint as cli_make_checkpoint
from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies import registry
from openpi_policy_ros.policies.registry import CheckpointOptions, PolicyPlugin

PLAIN = CheckpointOptions()


@pytest.fixture
def made(monkeypatch) -> list[tuple[Path, str, int, CheckpointOptions]]:
    """Register one plugin that notes what it is asked for; return the notes."""
    notes: list[tuple[Path, str, int, CheckpointOptions]] = []

    def make(directory: Path, size: str, seed: int, options: CheckpointOptions) -> None:
        if seed == 13:
            raise CheckpointError('seed 13', expected='a lucky one')
        directory.mkdir(parents=True, exist_ok=True)
        notes.append((directory, size, seed, options))
        (directory / 'model.safetensors').write_bytes(b'x' * 2_500_000)

    def load(_: object) -> None:
        raise AssertionError('not asked for')

    plugins = {
        'pi0': PolicyPlugin(load=load, make_checkpoint=make, checkpoint_sizes=('small', 'medium')),
        'other': PolicyPlugin(load=load),
    }
    monkeypatch.setattr(registry, 'find', plugins.__getitem__)
    return notes


def test_the_smallest_pi0_is_the_default_and_what_to_do_next_is_told(made, tmp_path, capsys):
    target = tmp_path / 'new' / 'folder'
    assert main(['make-checkpoint', str(target)]) == 0
    assert made == [(target, 'small', 0, PLAIN)]
    out = capsys.readouterr().out
    assert f'wrote {target} (2.5 MB)' in out
    assert f'openpi-policy serve --model {target}' in out


def test_size_and_seed_are_passed_on(made, tmp_path):
    assert main(['make-checkpoint', str(tmp_path), '--size', 'medium', '--seed', '7']) == 0
    assert made == [(tmp_path, 'medium', 7, PLAIN)]


def test_an_openpi_checkpoint_is_told_to_need_a_robot_file(made, tmp_path, capsys):
    assert main(['make-checkpoint', str(tmp_path), '--layout', 'openpi']) == 0
    assert f'openpi-policy serve --model {tmp_path} --robot droid' in capsys.readouterr().out


def test_what_the_files_shall_say_is_passed_on(made, tmp_path):
    arguments = '--layout lerobot-0.4 --normalization min_max --relative --shards 3 --state-dim 14'
    more = '--action-dim 7 --dtype bfloat16 --cameras front wrist'
    assert main(['make-checkpoint', str(tmp_path), *arguments.split(), *more.split()]) == 0
    ((_, _, _, options),) = made
    assert options == CheckpointOptions(
        layout='lerobot-0.4',
        normalization='min_max',
        relative=True,
        shards=3,
        state_dim=14,
        action_dim=7,
        dtype='bfloat16',
        cameras=('front', 'wrist'),
    )


EXAMPLES = [
    example
    for example in cli_make_checkpoint.EXAMPLES.replace('\\\n', ' ').splitlines()
    if example.startswith('  openpi-policy') and 'medium' not in example
]


def test_there_are_examples():
    assert len(EXAMPLES) == 6


@pytest.mark.parametrize('example', EXAMPLES)
def test_the_examples_in_the_help_do_what_they_show(tmp_path, capsys, example):
    program, *arguments = shlex.split(example.replace('/tmp', str(tmp_path)))
    assert program == 'openpi-policy'
    assert main(arguments) == 0
    (directory,) = tmp_path.iterdir()
    assert f'wrote {directory}' in capsys.readouterr().out
    assert list(directory.glob('model*.safetensors'))


def test_a_real_refusal_leaves_no_directory_behind(tmp_path, capsys):
    target = tmp_path / 'new'
    arguments = ['--layout', 'openpi', '--normalization', 'min_max', '--relative']
    assert main(['make-checkpoint', str(target), *arguments]) == 2
    told = capsys.readouterr().err
    assert 'openpi normalises pi0 by mean_std' in told
    assert 'profile.delta_mask' in told
    assert not target.exists()


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['{full}'], 'is not empty, and nothing is overwritten'),
        (['{full}/file'], 'is a file; give a directory'),
        (['{full}/file/below'], 'Not a directory'),
        (['{empty}', '--size', 'huge'], "'huge' is unknown, expected small or medium"),
        (['{empty}', '--policy', 'other'], 'other cannot make checkpoints'),
        (['{empty}', '--seed', '13'], 'seed 13; expected a lucky one'),
    ],
)
def test_refusals_are_one_message_and_leave_the_disk_alone(
    made, tmp_path, capsys, arguments, message
):
    full, empty = tmp_path / 'full', tmp_path / 'empty'
    full.mkdir()
    (full / 'file').write_text('mine')
    filled = [argument.format(full=full, empty=empty) for argument in arguments]
    assert main(['make-checkpoint', *filled]) == 2
    told = capsys.readouterr()
    assert message in told.err
    assert told.err.startswith('openpi-policy make-checkpoint: ')
    assert told.out == ''
    assert made == []
    assert (full / 'file').read_text() == 'mine'
