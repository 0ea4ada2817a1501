# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy make-checkpoint``: arguments and refusals; the content is the policy's."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpi_policy_ros.cli import main
from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies import registry
from openpi_policy_ros.policies.registry import PolicyPlugin


@pytest.fixture
def made(monkeypatch) -> list[tuple[Path, str, int]]:
    """Register one plugin that notes what it is asked for; return the notes."""
    notes: list[tuple[Path, str, int]] = []

    def make(directory: Path, size: str, seed: int) -> None:
        if seed == 13:
            raise CheckpointError('seed 13', expected='a lucky one')
        notes.append((directory, size, seed))
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
    assert made == [(target, 'small', 0)]
    out = capsys.readouterr().out
    assert f'wrote {target} (2.5 MB)' in out
    assert f'openpi-policy serve --model {target}' in out


def test_size_and_seed_are_passed_on(made, tmp_path):
    assert main(['make-checkpoint', str(tmp_path), '--size', 'medium', '--seed', '7']) == 0
    assert made == [(tmp_path, 'medium', 7)]


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
