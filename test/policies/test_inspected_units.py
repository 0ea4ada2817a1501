# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What inspecting says of the numbers is what is done with them, not what some file declares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from policy_checkpoints import rewrite_json

from openpi_policy_ros.cli import main
from openpi_policy_ros.configuration.robot import Profile
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.policies.pi0.make_checkpoint import make_checkpoint
from openpi_policy_ros.policies.registry import CheckpointOptions

Z_SCORE = {'mean': [0.0] * 32, 'std': [1.0] * 32}
RANGE = {'mode': 'min_max', 'min': [0.0] * 32, 'max': [1.0] * 32}


def told(model: Path, policy: Path | None, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    words = ['inspect', str(model), '--json', *(['--policy', str(policy)] if policy else [])]
    main(words)
    policy_part: dict[str, Any] = json.loads(capsys.readouterr().out)['policy']
    return policy_part


def policy_file(path: Path, **values: Any) -> Path:
    path.write_text(yaml.safe_dump({'policy': 'pi0', **values}))
    return path


def test_statistics_of_the_policy_file_are_told_where_the_checkpoint_declares_none(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = policy_file(tmp_path / 'mine.yaml', norm_stats={'state': Z_SCORE, 'action': RANGE})
    inspected = told(small, path, capsys)
    assert inspected['normalisation'] == {'STATE': 'MEAN_STD', 'ACTION': 'MIN_MAX'}
    assert inspected['statistics'] == ['mine.yaml: norm_stats']
    assert inspected['state_exact'] is True


def test_an_overridden_normalisation_is_told_as_none(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ('policy_preprocessor.json', 'policy_postprocessor.json'):
        (copy / name).unlink()
    rewrite_json(
        copy / 'config.json', normalization_mapping={'STATE': 'MEAN_STD', 'ACTION': 'MEAN_STD'}
    )
    path = policy_file(tmp_path / 'mine.yaml', normalization='identity')
    inspected = told(copy, path, capsys)
    assert (inspected['normalisation'], inspected['statistics']) == ({}, [])
    assert inspected['state_exact'] is False


def test_the_files_of_a_fine_tune_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_checkpoint(tmp_path / 'made', 'small', 0, CheckpointOptions(normalization='mean_std'))
    inspected = told(tmp_path / 'made', None, capsys)
    assert inspected['normalisation'] == {'STATE': 'MEAN_STD', 'ACTION': 'MEAN_STD'}
    assert inspected['statistics'] == [
        'policy_postprocessor_step_0_unnormalizer_processor.safetensors',
        'policy_preprocessor_step_6_normalizer_processor.safetensors',
    ]


def test_what_hangs_on_something_refused_is_not_told(
    converted: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    # Without a robot file nobody says which actions are differences.
    assert main(['inspect', str(converted['pi0'])]) == 1
    out = capsys.readouterr().out
    assert 'profile.delta_mask' in out
    assert 'at most 8' not in out
    assert 'exactly' not in out
    inspected = told(converted['pi0'], None, capsys)
    assert (inspected['state_exact'], inspected['antialias']) == (None, None)


def test_a_length_of_text_is_compared_with_the_one_that_counts(copy: Path, tmp_path: Path) -> None:
    path = copy / 'policy_preprocessor.json'
    values = json.loads(path.read_text())
    for step in values['steps']:
        if step['registry_name'] == 'tokenizer_processor':
            step['config']['max_length'] = 64
    path.write_text(json.dumps(values))
    mine = policy_file(tmp_path / 'mine.yaml', tokenizer_max_length=64, policy_server_config={})
    load_policy(str(copy), policy=str(mine)).close()
    policy_file(mine, tokenizer_max_length=48, policy_server_config={})
    with pytest.raises(ConfigurationError, match='is 48 here, but 64 in the checkpoint'):
        load_policy(str(copy), policy=str(mine))


@pytest.mark.parametrize('relative', [False, True])
def test_a_robot_file_that_contradicts_a_lerobot_checkpoint_is_refused(
    tmp_path: Path, relative: bool
) -> None:
    options = CheckpointOptions(relative=relative, state_dim=3, action_dim=3)
    make_checkpoint(tmp_path / 'made', 'small', 0, options)

    def load(*mask: bool) -> None:
        profile = Profile(delta_mask=list(mask), action_space='joint_position')
        load_policy(str(tmp_path / 'made'), profile=profile).close()

    # The last column is made as a gripper, which is excluded.
    load(relative, relative, False)
    with pytest.raises(ConfigurationError, match='but the files of this checkpoint say'):
        load(relative, relative, True)
    with pytest.raises(ConfigurationError, match='remove the line'):
        load(not relative)
