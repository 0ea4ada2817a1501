# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every step, setting and order of a checkpoint's processor files is known, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lerobot_files import (
    ACTION,
    CAMERA,
    NORMALIZER,
    POSTPROCESSOR,
    PREPARE_STATE,
    PREPROCESSOR,
    STATE,
    UNNORMALIZER,
    add_step,
    change_steps,
    drop_step,
    find,
    move_step,
    processing,
    rejected,
    set_config,
    set_modes,
    step,
    write_files,
    write_statistics,
)
from policy_checkpoints import rewrite_json

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies.pi0.lerobot_config import read_config
from openpi_policy_ros.policies.pi0.processing import NormalizerStep, Processing, RelativeStep
from openpi_policy_ros.policies.pi0.processors import read_processing
from openpi_policy_ros.policies.problems import Problems

RENAME, BATCH, DEVICE = 'rename_observations_processor', 'to_batch_processor', 'device_processor'
NEWLINE, TOKENIZER = 'pi0_new_line_processor', 'tokenizer_processor'
RELATIVE, RELATIVE_OLD = 'relative_actions_processor', 'delta_actions_processor'
ABSOLUTE = 'absolute_actions_processor'
FILES = [PREPROCESSOR, POSTPROCESSOR]
BEFORE = 'policy_preprocessor_step_6_normalizer_processor.safetensors'
AFTER = 'policy_postprocessor_step_0_unnormalizer_processor.safetensors'
HUB = 'google/paligemma-3b-pt-224'
SETTINGS = {
    RENAME: 'rename_map',
    **dict.fromkeys((BATCH, NEWLINE), ''),
    DEVICE: 'device float_dtype',
    TOKENIZER: 'max_length task_key padding_side padding truncation tokenizer_name',
    RELATIVE: 'enabled exclude_joints action_names',
    NORMALIZER: 'eps features norm_map normalize_observation_keys',
    UNNORMALIZER: 'eps features norm_map normalize_observation_keys',
    PREPARE_STATE: 'max_state_dim task_key include_state_in_prompt',
    ABSOLUTE: 'enabled',
}
ORDER = {
    RELATIVE: [RENAME],
    NORMALIZER: [RENAME, RELATIVE],
    PREPARE_STATE: [RENAME, NORMALIZER],
    TOKENIZER: [NEWLINE, PREPARE_STATE],
}


@pytest.fixture
def pi0(tmp_path: Path) -> Path:
    """Return the files of a π0 checkpoint that normalises nothing."""
    write_files(tmp_path)
    return tmp_path


def set_key(path: Path, name: str, **values: Any) -> None:
    """Set keys of a step itself, beside its config."""
    change_steps(path, lambda steps: find(steps, name).update(values))


def file_with(directory: Path, *names: str) -> Path:
    """Write the files of a checkpoint that has some steps, and return the file they are in."""
    write_files(directory, 'pi05' if PREPARE_STATE in names else 'pi0')
    return directory / (POSTPROCESSOR if {UNNORMALIZER, ABSOLUTE} & {*names} else PREPROCESSOR)


def refused(path: Path, what: str) -> str:
    """Check that a processor file is refused for ``what``, and return what is expected."""
    error = rejected(path.parent)
    assert error.what == f'{path}{what}'
    return error.expected


# What is read


def test_every_step_and_setting_of_a_pi0_checkpoint_is_read(pi0: Path) -> None:
    before, after = pi0 / PREPROCESSOR, pi0 / POSTPROCESSOR
    set_modes(pi0, STATE='MEAN_STD', ACTION='MIN_MAX')
    write_statistics(pi0, {f'{STATE}.mean': [0.0]})
    set_config(before, RENAME, rename_map={'observation.images.top': CAMERA})
    set_config(before, TOKENIZER, max_length=64)
    set_config(before, DEVICE, device='cuda', float_dtype='float32')
    names = ['x', 'y', 'gripper']
    set_config(before, RELATIVE, enabled=True, exclude_joints=['grip'], action_names=names)
    set_config(before, NORMALIZER, eps=1e-6, normalize_observation_keys=[STATE])
    set_config(after, UNNORMALIZER, eps=1)
    set_config(after, ABSOLUTE, enabled=True)
    rewrite_json(pi0 / 'config.json', use_relative_actions=True, norm_stats={'state': 1})
    modes = {'VISUAL': 'IDENTITY', 'STATE': 'MEAN_STD', 'ACTION': 'MIN_MAX'}
    types = {CAMERA: 'VISUAL', STATE: 'STATE', ACTION: 'ACTION'}
    first = [RENAME, BATCH, NEWLINE, TOKENIZER, DEVICE, RELATIVE, NORMALIZER]
    actions = [(file, 'ACTION', 'MIN_MAX') for file in FILES]
    assert processing(pi0) == Processing(
        rename_map={'observation.images.top': CAMERA},
        action_names=tuple(names),
        steps=[*first, UNNORMALIZER, ABSOLUTE, DEVICE],
        modes=[(PREPROCESSOR, 'STATE', 'MEAN_STD'), *actions],
        statistics=[BEFORE, AFTER],
        tokenizer_name=HUB,
        max_length=64,
        preprocessor=True,
        normalizer=NormalizerStep(PREPROCESSOR, modes, 1e-6, types, frozenset([STATE]), BEFORE),
        unnormalizer=NormalizerStep(POSTPROCESSOR, modes, 1.0, {ACTION: 'ACTION'}, None, AFTER),
        relative=RelativeStep(True, ('grip',), tuple(names)),
        absolute=True,
        newline=True,
        config_relative=True,
        norm_stats={'state': 1},
    )


def test_every_step_of_a_pi05_checkpoint_is_read(tmp_path: Path) -> None:
    path = file_with(tmp_path, PREPARE_STATE)
    set_config(path, PREPARE_STATE, max_state_dim=32, include_state_in_prompt=True)
    modes = {'STATE': 'QUANTILES'}
    # What a step leaves out has the default of LeRobot.
    set_key(path, NORMALIZER, config={'norm_map': modes})
    set_key(tmp_path / POSTPROCESSOR, UNNORMALIZER, config={'norm_map': modes})
    set_key(path, RELATIVE, config={})
    change_steps(tmp_path / POSTPROCESSOR, lambda steps: find(steps, ABSOLUTE).pop('config'))
    first = [RENAME, BATCH, RELATIVE, NORMALIZER, PREPARE_STATE, TOKENIZER, DEVICE]
    assert processing(tmp_path) == Processing(
        steps=[*first, UNNORMALIZER, ABSOLUTE, DEVICE],
        modes=[(PREPROCESSOR, 'STATE', 'QUANTILES')],
        tokenizer_name=HUB,
        max_length=200,
        preprocessor=True,
        normalizer=NormalizerStep(PREPROCESSOR, modes, 1e-8),
        unnormalizer=NormalizerStep(POSTPROCESSOR, modes, 1e-8),
        relative=RelativeStep(False, (), None),
        absolute=False,
        config_relative=False,
    )


# LeRobot up to 0.4 had no step for relative actions before it.
@pytest.mark.parametrize('before', [BEFORE.replace('6', '5'), BEFORE, 'stats', None])
@pytest.mark.parametrize('after', [AFTER, '.. of mine', None])
def test_statistics_are_found_by_the_name_that_the_file_says(
    pi0: Path, before: str | None, after: str | None
) -> None:
    write_statistics(pi0, {f'{STATE}.mean': [0.0]}, before=before, after=after)
    names = [name for name in (before, after) if name is not None]
    for name in names:
        # The hub's cache keeps contents elsewhere, and links to them.
        (pi0 / name).rename(pi0 / f'blob of {name}')
        (pi0 / name).symlink_to(f'blob of {name}')
    result = processing(pi0)
    found = [one and one.state_file for one in (result.normalizer, result.unnormalizer)]
    assert found == [before, after]
    assert result.statistics == names


def test_the_old_name_of_the_relative_step_is_known(pi0: Path) -> None:
    set_key(pi0 / PREPROCESSOR, RELATIVE, registry_name=RELATIVE_OLD)
    set_config(pi0 / PREPROCESSOR, RELATIVE_OLD, enabled=True, action_names=['a', 'b'])
    result = processing(pi0)
    assert result.relative == RelativeStep(True, ('gripper',), ('a', 'b'))
    assert RELATIVE_OLD in result.steps


@pytest.mark.parametrize('name', [BATCH, DEVICE])
def test_a_step_that_changes_nothing_may_come_twice(pi0: Path, name: str) -> None:
    before = processing(pi0).steps.count(name)
    for file in (*FILES, *FILES):
        add_step(pi0 / file, step(name))
    assert processing(pi0).steps.count(name) == before + 4


@pytest.mark.parametrize('name', [HUB, '/data/someone/outputs/tokenizer', 'tokenizer', '', None])
def test_the_name_of_a_tokenizer_is_kept_where_it_is_one_of_the_hub(pi0: Path, name: Any) -> None:
    set_config(pi0 / PREPROCESSOR, TOKENIZER, tokenizer_name=name)
    for artifacts in (None, {}, {'vocabulary': 'words'}):
        set_key(pi0 / PREPROCESSOR, TOKENIZER, artifacts=artifacts)
        assert processing(pi0).tokenizer_name == (HUB if name == HUB else None)
    # Saved beside the step: the name is that of a folder.
    set_key(pi0 / PREPROCESSOR, TOKENIZER, artifacts={'tokenizer_name': 'tokenizer'})
    assert processing(pi0).tokenizer_name is None


@pytest.mark.parametrize('artifacts', [1, 1.5, 'tokenizer_name', ['tokenizer_name']])
def test_artifacts_that_are_no_object_refuse(pi0: Path, artifacts: Any) -> None:
    set_key(pi0 / PREPROCESSOR, TOKENIZER, artifacts=artifacts)
    with pytest.raises(CheckpointError, match='artifacts is'):
        processing(pi0)


@pytest.mark.parametrize('length', [1, 10_001, 10**400, True, 2.5], ids=lambda n: str(n)[:8])
def test_a_longest_prompt_that_no_memory_holds_refuses(pi0: Path, length: Any) -> None:
    set_config(pi0 / PREPROCESSOR, TOKENIZER, max_length=length)
    with pytest.raises(CheckpointError, match='max_length is'):
        processing(pi0)


def test_the_longest_prompt_is_what_the_tokenizer_step_says(pi0: Path) -> None:
    set_config(pi0 / PREPROCESSOR, TOKENIZER, max_length=2)
    assert processing(pi0).max_length == 2
    # LeRobot's default, whatever config.json says.
    set_key(pi0 / PREPROCESSOR, TOKENIZER, config={})
    assert processing(pi0).max_length == 512
    drop_step(pi0 / PREPROCESSOR, TOKENIZER)
    assert processing(pi0).max_length is None


@pytest.mark.parametrize('state', [True, False])
@pytest.mark.parametrize('camera', [True, False])
def test_features_that_are_not_normalised_have_no_mode(
    pi0: Path, state: bool, camera: bool
) -> None:
    # One camera that is normalised is enough, and actions are no observation.
    features = json.loads((pi0 / 'config.json').read_text())['input_features']
    features['observation.images.wrist'] = features[CAMERA]
    rewrite_json(pi0 / 'config.json', input_features=features)
    set_modes(pi0, VISUAL='MEAN_STD', STATE='MEAN_STD', ACTION='MEAN_STD')
    only = [STATE] * state + [CAMERA] * camera
    set_config(pi0 / PREPROCESSOR, NORMALIZER, normalize_observation_keys=only)
    set_config(pi0 / POSTPROCESSOR, UNNORMALIZER, normalize_observation_keys=[])
    kinds = ['VISUAL'] * camera + ['STATE'] * state + ['ACTION']
    modes = [(PREPROCESSOR, kind, 'MEAN_STD') for kind in kinds]
    assert processing(pi0).modes == [*modes, (POSTPROCESSOR, 'ACTION', 'MEAN_STD')]
    (pi0 / PREPROCESSOR).unlink()
    (pi0 / POSTPROCESSOR).unlink()
    rewrite_json(pi0 / 'config.json', normalization_mapping={'ACTION': 'MIN_MAX'})
    assert processing(pi0).modes == [('config.json', 'ACTION', 'MIN_MAX')]


# Steps that refuse


@pytest.mark.parametrize(
    ('new', 'name'),
    [
        (step('gripper_flip'), 'gripper_flip'),
        (step('smolvla_new_line_processor'), 'smolvla_new_line_processor'),
        ({'class': 'my.robot.FlipStep', 'config': {}}, 'my.robot.FlipStep'),
        ({'registry_name': [BATCH]}, f'[{BATCH!r}]'),
    ],
)
def test_an_unknown_processor_step_refuses_by_name(pi0: Path, new: Any, name: str) -> None:
    known = ', '.join(sorted({*SETTINGS, RELATIVE_OLD} - {PREPARE_STATE}))
    for file in FILES:
        write_files(pi0)
        add_step(pi0 / file, new)
        assert refused(pi0 / file, f': unknown processor step {name!r}') == f'one of {known}'


def test_a_step_of_the_other_family_refuses(tmp_path: Path) -> None:
    path = tmp_path / PREPROCESSOR
    for family, other, name in (('pi0', 'pi05', PREPARE_STATE), ('pi05', 'pi0', NEWLINE)):
        write_files(tmp_path, family)
        add_step(path, step(name))
        refused(path, f': step {name!r} belongs to {other}, but config.json has type {family}')


@pytest.mark.parametrize('name', [RENAME, NEWLINE, TOKENIZER, RELATIVE, RELATIVE_OLD, NORMALIZER])
def test_a_step_of_the_preprocessor_refuses_in_the_postprocessor(pi0: Path, name: str) -> None:
    add_step(pi0 / POSTPROCESSOR, step(name))
    assert PREPROCESSOR in refused(pi0 / POSTPROCESSOR, f': step {name!r} stands in the wrong file')


@pytest.mark.parametrize('name', [UNNORMALIZER, ABSOLUTE])
def test_a_step_of_the_postprocessor_refuses_in_the_preprocessor(pi0: Path, name: str) -> None:
    add_step(pi0 / PREPROCESSOR, step(name))
    assert POSTPROCESSOR in refused(pi0 / PREPROCESSOR, f': step {name!r} stands in the wrong file')


@pytest.mark.parametrize('name', sorted(SETTINGS.keys() - {BATCH, DEVICE}))
def test_a_step_that_changes_numbers_refuses_to_come_twice(tmp_path: Path, name: str) -> None:
    path = file_with(tmp_path, name)
    change_steps(path, lambda steps: steps.append(find(steps, name)))
    refused(path, f': a second step {name!r}')


def test_the_two_names_of_the_relative_step_are_one_step(pi0: Path) -> None:
    path = pi0 / PREPROCESSOR
    add_step(path, step(RELATIVE_OLD))
    refused(path, f': a second step {RELATIVE_OLD!r}')
    # Alone it stands where the other has to.
    drop_step(path, RELATIVE)
    set_config(path, RELATIVE_OLD, enabled=True)
    refused(path, f': step {RELATIVE!r} comes after {NORMALIZER!r}')


@pytest.mark.parametrize('name', SETTINGS)
def test_a_setting_that_is_not_known_refuses_by_name(tmp_path: Path, name: str) -> None:
    path = file_with(tmp_path, name)
    config = find(json.loads(path.read_text())['steps'], name)['config']
    for setting in {'novel', *' '.join(SETTINGS.values()).split()} - {*SETTINGS[name].split()}:
        set_key(path, name, config={**config, setting: None})
        refused(path, f': step {name!r} has settings that are not known here: {setting} = None')


def test_a_pi05_preprocessor_that_leaves_the_state_out_of_the_text_refuses(tmp_path: Path) -> None:
    path = file_with(tmp_path, PREPARE_STATE)
    for value in (False, None, 1):
        set_config(path, PREPARE_STATE, include_state_in_prompt=value)
        refused(path, f': step {PREPARE_STATE!r} has include_state_in_prompt {value!r}')


def test_a_pi05_preprocessor_without_the_step_for_the_state_refuses(tmp_path: Path) -> None:
    path = file_with(tmp_path, PREPARE_STATE)
    drop_step(path, PREPARE_STATE)
    refused(path, f' has no step {PREPARE_STATE!r}')


@pytest.mark.parametrize('name', [TOKENIZER, PREPARE_STATE])
def test_a_text_that_is_not_the_instruction_refuses(tmp_path: Path, name: str) -> None:
    path = file_with(tmp_path, PREPARE_STATE)
    for key in ('subtask', '', None):
        set_config(path, name, task_key=key)
        refused(path, f': step {name!r} has task_key {key!r}')


@pytest.mark.parametrize('file', FILES)
def test_another_precision_around_the_network_refuses(pi0: Path, file: str) -> None:
    for dtype in ('float32', 'float', None):
        set_config(pi0 / file, DEVICE, float_dtype=dtype)
        processing(pi0)
    for dtype in ('bfloat16', 'float16', 'float64', 32, ''):
        set_config(pi0 / file, DEVICE, float_dtype=dtype)
        refused(pi0 / file, f': step {DEVICE!r} has float_dtype {dtype!r}')


# The order of the steps


@pytest.mark.parametrize('later', ORDER)
def test_an_order_of_steps_that_gives_other_numbers_refuses(tmp_path: Path, later: str) -> None:
    for first in ORDER[later]:
        path = file_with(tmp_path, first, later)
        set_config(path, RENAME, rename_map={'a': 'b'})
        set_config(path, RELATIVE, enabled=True)
        steps = json.loads(path.read_text())['steps']
        rewrite_json(path, steps=[find(steps, first), find(steps, later)])
        assert processing(tmp_path).steps[:2] == [first, later]
        rewrite_json(path, steps=[find(steps, name) for name in (later, DEVICE, first)])
        refused(path, f': step {first!r} comes after {later!r}')


def test_adding_the_state_before_the_robots_units_are_there_refuses(pi0: Path) -> None:
    set_config(pi0 / POSTPROCESSOR, ABSOLUTE, enabled=True)
    processing(pi0)
    move_step(pi0 / POSTPROCESSOR, ABSOLUTE, 0)
    refused(pi0 / POSTPROCESSOR, f': step {UNNORMALIZER!r} comes after {ABSOLUTE!r}')


@pytest.mark.parametrize('name', [RENAME, RELATIVE, ABSOLUTE, BATCH, DEVICE])
@pytest.mark.parametrize('family', ['pi0', 'pi05'])
def test_steps_that_do_nothing_may_stand_anywhere(tmp_path: Path, family: str, name: str) -> None:
    write_files(tmp_path, family)
    for to in (0, 6):
        move_step(tmp_path / (POSTPROCESSOR if name == ABSOLUTE else PREPROCESSOR), name, to)
        processing(tmp_path)


# Files of statistics


@pytest.mark.parametrize('holder', [NORMALIZER, UNNORMALIZER, TOKENIZER])
def test_statistics_outside_of_the_checkpoint_refuse(tmp_path: Path, holder: str) -> None:
    path = file_with(tmp_path / 'checkpoint', holder)
    (path.parent / 'sub').mkdir()
    there = ['../outside', f'{tmp_path}/outside', 'sub/inside', 'sub\\inside', './inside']
    for name in there:
        (path.parent / name).touch()
    for value in (*there, '..', '.', '', 3, True, []):
        set_key(path, holder, state_file=value)
        assert 'beside it' in refused(path, f': state_file is {value!r}')


@pytest.mark.parametrize('holder', [NORMALIZER, UNNORMALIZER, DEVICE])
def test_statistics_that_are_named_and_not_there_refuse(tmp_path: Path, holder: str) -> None:
    path = file_with(tmp_path, holder)
    (tmp_path / 'link').symlink_to(tmp_path / 'blobs' / 'cleared')
    (tmp_path / 'folder').mkdir()
    for name in (BEFORE, 'link', 'folder', 'x' * 300):
        set_key(path, holder, state_file=name)
        expected = refused(path, f' names the statistics {name}, which do not exist')
        assert str(tmp_path / name) in expected


# Files that are damaged


@pytest.mark.parametrize('file', FILES)
def test_a_damaged_processor_file_refuses(pi0: Path, file: str) -> None:
    for steps in (None, 1, {}, 'steps', [1], [step(DEVICE), None]):
        rewrite_json(pi0 / file, steps=steps)
        refused(pi0 / file, f': steps is {steps!r}')
    for content in (b'', b'{', b'{"steps": ["\xff"]}', b'[' * 100_000):
        (pi0 / file).write_bytes(content)
        assert f'{pi0 / file} cannot be read' in rejected(pi0).what
    (pi0 / file).write_text('[]')
    refused(pi0 / file, ' holds a list')


@pytest.mark.parametrize('file', FILES)
def test_a_processor_file_whose_link_leads_nowhere_refuses(pi0: Path, file: str) -> None:
    (pi0 / file).unlink()
    processing(pi0)
    (pi0 / file).symlink_to(pi0 / 'blobs' / 'cleared')
    refused(pi0 / file, ' does not exist')


@pytest.mark.parametrize(
    ('name', 'key', 'bad'),
    [
        (RENAME, 'rename_map', [['a'], 'a', 1, {'a': 1}, {'a': None}]),
        (TOKENIZER, 'max_length', [None, '48', 48.0, True, 1, 0, -48]),
        (TOKENIZER, 'tokenizer_name', [1, [HUB], False]),
        (RELATIVE, 'enabled', [None, 'true', 1, 0]),
        (RELATIVE, 'exclude_joints', ['gripper', {'gripper': 1}, ['gripper', 1]]),
        (RELATIVE, 'action_names', ['gripper', {}, [None], 0, False]),
        (ABSOLUTE, 'enabled', [None, 'false', 1, 0]),
        (NORMALIZER, 'eps', [None, '1e-8', True, 0, -1e-8, float('inf'), float('nan')]),
        (NORMALIZER, 'features', [None, [], {STATE: 'STATE'}, {STATE: {}}, {STATE: {'type': 1}}]),
        (UNNORMALIZER, 'features', ['action', {ACTION: {'type': 'ACTION'}, STATE: None}]),
        (NORMALIZER, 'normalize_observation_keys', [STATE, [1], {}, 0, False]),
    ],
)
def test_a_setting_of_the_wrong_kind_refuses(tmp_path: Path, name: str, key: str, bad: Any) -> None:
    path = file_with(tmp_path, name)
    for value in bad:
        set_config(path, name, **{key: value})
        refused(path, f': {key} is {value!r}')


@pytest.mark.parametrize('name', [NORMALIZER, UNNORMALIZER])
def test_a_normalizer_that_does_not_say_how_refuses(tmp_path: Path, name: str) -> None:
    path = file_with(tmp_path, name)
    for value in (None, ['STATE'], 'MEAN_STD', {'STATE': None}, {'STATE': ['MEAN_STD']}):
        set_key(path, name, config={'norm_map': value} if value else {})
        refused(path, f': norm_map is {value!r}')
    set_config(path, name, norm_map={'STATES': 'IDENTITY'})
    expected = refused(path, ": norm_map has the unknown feature type 'STATES'")
    assert expected == 'only STATE, VISUAL, ENV, ACTION, REWARD, LANGUAGE'


@pytest.mark.parametrize('name', [BATCH, NEWLINE, NORMALIZER, ABSOLUTE])
def test_a_config_that_is_no_object_refuses(tmp_path: Path, name: str) -> None:
    path = file_with(tmp_path, name)
    for config in (None, [], 'x', 0):
        set_key(path, name, config=config)
        refused(path, f': config of step {name!r} is {config!r}')


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    before, after = file_with(tmp_path, PREPARE_STATE), tmp_path / POSTPROCESSOR
    config = read_config(tmp_path)

    def told() -> list[str]:
        problems = Problems()
        assert not read_processing(tmp_path, config, problems).complete
        return [error.what for error in problems.errors]

    set_config(before, RELATIVE, enabled=True)
    move_step(before, RELATIVE, 6)
    drop_step(before, PREPARE_STATE)
    assert told() == [
        f'{before}: step {RELATIVE!r} comes after {NORMALIZER!r}',
        f'{before} has no step {PREPARE_STATE!r}',
    ]
    # Where a step cannot be read, their order is not judged; the other file's is.
    set_config(before, TOKENIZER, max_length=0)
    add_step(before, step('gripper_flip'))
    set_config(after, ABSOLUTE, enabled=True)
    move_step(after, ABSOLUTE, 0)
    (tmp_path / 'config.json').write_text('[]')
    assert told() == [
        f'{tmp_path}/config.json holds a list',
        f'{before}: max_length is 0',
        f"{before}: unknown processor step 'gripper_flip'",
        f'{after}: step {UNNORMALIZER!r} comes after {ABSOLUTE!r}',
    ]
