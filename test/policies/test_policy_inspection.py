# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Inspecting finds what loading refuses, all of it, and reads no weight."""

from __future__ import annotations

import json
import logging
import math
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from policy_checkpoints import rewrite_json, rewrite_weights

from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.errors import PolicyRosError, SeveralErrors
from openpi_policy_ros.policies import registry
from openpi_policy_ros.policies.inspection import inspect_model
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.policies.registry import PolicyPlugin


def refusals(model: Path, policy: str | None = None, robot: str | None = None) -> list[str]:
    """Return the texts of everything that loading refuses."""
    profile = load_robot(robot).profile if robot is not None else None
    try:
        load_policy(str(model), policy=policy, profile=profile)
    except SeveralErrors as error:
        return [str(one) for one in error.errors]
    except PolicyRosError as error:
        return [str(error)]
    return []


def add_step(directory: Path, file: str, **step: Any) -> None:
    path = directory / f'policy_{file}processor.json'
    values = json.loads(path.read_text())
    values['steps'].append({'config': {}, **step})
    path.write_text(json.dumps(values))


def damage_everything(directory: Path) -> None:
    """Break the weights, both processor files and the tokenizer."""
    rewrite_weights(directory, lambda weights: weights.pop('model.state_proj.bias'))
    add_step(directory, 'pre', registry_name='gripper_flip')
    add_step(directory, 'pre', **{'class': 'my.CropStep'})
    add_step(
        directory, 'post', registry_name='absolute_actions_processor', config={'enabled': True}
    )
    (directory / 'tokenizer' / 'tokenizer.json').write_text('{')


def damage_config(directory: Path) -> None:
    rewrite_json(
        directory / 'config.json', dtype='float16', use_peft=True, n_obs_steps=2, chunk_size=0
    )


def keep_pointer(directory: Path) -> None:
    (directory / 'model.safetensors').write_bytes(b'version https://git-lfs.github.com/spec/v1\n')


def normalise(directory: Path) -> None:
    for name in ('pre', 'post'):
        (directory / f'policy_{name}processor.json').unlink()
    rewrite_json(directory / 'config.json', normalization_mapping={'STATE': 'MEAN_STD'})


def drop_tokenizer(directory: Path) -> None:
    shutil.rmtree(directory / 'tokenizer')


def drop_config(directory: Path) -> None:
    (directory / 'config.json').unlink()


def break_config(directory: Path) -> None:
    (directory / 'config.json').write_text('{')


def drop_weights(directory: Path) -> None:
    (directory / 'model.safetensors').unlink()


def shard(directory: Path) -> None:
    drop_weights(directory)
    (directory / 'model.safetensors.index.json').write_text('{"weight_map": {}}')


@pytest.mark.parametrize(
    ('damage', 'count'),
    [
        (lambda directory: None, 0),
        (damage_everything, 5),
        (damage_config, 4),
        (keep_pointer, 1),
        (normalise, 1),
        (drop_tokenizer, 1),
        (drop_config, 1),
        (break_config, 1),
        (drop_weights, 1),
        (shard, 1),
    ],
)
@pytest.mark.parametrize('policy', [None, 'pi0'])
def test_inspecting_tells_exactly_what_loading_refuses(
    copy: Path,
    damage: Callable[[Path], None],
    count: int,
    policy: str | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_CACHE', str(tmp_path / 'cache'))
    damage(copy)
    inspection = inspect_model(str(copy), policy=policy)
    assert [str(error) for error in inspection.errors] == refusals(copy, policy)
    assert len(inspection.errors) == count
    assert inspection.served == (count == 0)


def test_files_that_do_not_fit_the_checkpoint_are_all_told(small: Path, tmp_path: Path) -> None:
    policy, robot = tmp_path / 'mine.yaml', tmp_path / 'arm.yaml'
    policy.write_text('policy: pi0\nchunk_size: 16\nimage_key_map: {front: nowhere}\n')
    robot.write_text('/**: {ros__parameters: {profile: {crop_columns: 40}}}\n')
    inspection = inspect_model(str(small), policy=str(policy), robot=str(robot))
    texts = [str(error) for error in inspection.errors]
    assert texts == refusals(small, str(policy), str(robot))
    assert [('chunk_size' in text, 'nowhere' in text) for text in texts] == [
        (True, False),
        (False, True),
    ]
    # Without features there is no reply to check a crop or a handshake against.
    assert inspection.unchecked == ('handshake',)


def test_a_broken_policy_file_does_not_hide_broken_weights(copy: Path, tmp_path: Path) -> None:
    policy = tmp_path / 'mine.yaml'
    policy.write_text('policy: pi0\nchunksize: 50\n')
    rewrite_weights(copy, lambda weights: weights.pop('model.state_proj.bias'))
    inspection = inspect_model(str(copy), policy=str(policy))
    told = [str(error) for error in inspection.errors]
    assert told == refusals(copy, str(policy))
    assert "did you mean 'chunk_size'" in told[0]
    assert 'state_proj.bias' in told[1]
    assert inspection.unchecked == ('processors', 'observation', 'handshake', 'tokenizer')


def test_a_broken_robot_file_is_told_with_the_rest(copy: Path) -> None:
    (copy / 'model.safetensors').unlink()
    inspection = inspect_model(str(copy), robot='driod')
    assert "did you mean 'droid'" in str(inspection.errors[0])
    assert 'holds no weights' in str(inspection.errors[1])
    assert inspection.unchecked == ('robot',)


def test_the_facts_are_those_of_the_loaded_policy(small: Path) -> None:
    inspection = inspect_model(str(small), policy='pi0', robot='droid')
    policy = load_policy(str(small), policy='pi0', profile=load_robot('droid').profile)
    report = inspection.report
    assert report is not None
    assert report.spec is not None
    # Only the digest needs the weights themselves.
    assert report.spec.weights_hash == ''
    for name in ('handshake', 'cameras', 'state', 'horizon', 'action_dim', 'action_names'):
        assert getattr(report.spec, name) == getattr(policy.spec, name)
    served = sum(p.numel() for p in policy.model.parameters())  # type: ignore[attr-defined]
    assert report.served_parameters == served
    assert report.chunk == (50, 32)
    assert report.steps == 10
    assert report.normalisation == {}
    assert report.processors is not None
    assert report.processors[0] == 'rename_observations_processor'
    (file,) = inspection.weights
    assert file.tensors == 108
    assert file.parameters == {'F32': 427632}


def test_a_model_of_full_size_is_told_from_its_header_alone(golden: Path, tmp_path: Path) -> None:
    header: dict[str, Any] = {}
    end = 0
    for name, entry in json.loads((golden / 'full_size_tensors.json').read_text()).items():
        for layer in range(entry['layers'] or 1):
            size = 4 * math.prod(entry['shape'])
            header[name.replace('*', str(layer))] = {
                'dtype': 'F32',
                'shape': entry['shape'],
                'data_offsets': [end, end + size],
            }
            end += size
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    with (tmp_path / 'model.safetensors').open('wb') as file:
        file.write(struct.pack('<Q', len(text)) + text)
        # A hole: 16 GB that no disk holds. Whoever read them would not be done within the timeout.
        file.truncate(8 + len(text) + end)
    for name in ('config.json', 'tokenizer'):
        (tmp_path / name).symlink_to(golden / name)
    inspection = inspect_model(str(tmp_path))
    assert inspection.errors == ()
    (weights,) = inspection.weights
    assert weights.size > 16e9
    assert weights.tensors == 778
    assert 4.02e9 < weights.parameters['F32'] < 4.04e9
    assert inspection.report is not None
    assert inspection.report.served_parameters is not None
    assert 3.12e9 < inspection.report.served_parameters < 3.14e9


def test_warnings_are_collected_and_not_logged(
    copy: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.WARNING)
    rewrite_json(copy / 'config.json', new_knob=3)
    (warning,) = inspect_model(str(copy)).warnings
    assert 'new_knob' in warning
    assert caplog.records == []
    assert capfd.readouterr() == ('', '')


def test_a_policy_that_cannot_be_asked_before_it_is_loaded_says_so(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = PolicyPlugin(load=lambda request: None)  # type: ignore[arg-type, return-value]
    monkeypatch.setattr(registry, 'find_by_model_type', lambda kind: ('other', plugin))
    inspection = inspect_model(str(small))
    assert not inspection.served
    (error,) = inspection.errors
    assert 'openpi-policy check' in error.remedy
