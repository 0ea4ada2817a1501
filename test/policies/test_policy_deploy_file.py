# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A whole vLLM-Omni deploy file serves as a policy file; what it says beyond that is named."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openpi_policy_ros.configuration.deploy_file import read_deploy_file
from openpi_policy_ros.configuration.policy_file import load_policy_file
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.loading import load_policy

DEPLOY = """\
pipeline: pi0
dtype: float32
async_chunk: false
stages:
  - stage_id: 0
    model_class_name: Pi0Pipeline
    devices: "0"
    model_config:
      chunk_size: 50
      num_inference_steps: 4
      max_action_dim: 32
      max_state_dim: 32
      image_resolution: [224, 224]
      tokenizer_max_length: 48
      max_cameras: 3
      image_feature_keys:
        - observation.images.base_0_rgb
        - observation.images.left_wrist_0_rgb
        - observation.images.right_wrist_0_rgb
      image_key_map: {}
      norm_stats: {}
      paligemma_variant: gemma_2b
      action_expert_variant: gemma_300m
      num_inference_step: 7
      attention_backend: flash
      policy_server_config: {image_resolution: [224, 224], action_horizon: 50, action_dim: 32}
    parallel_config: {tensor_parallel_size: 1, cfg_parallel_size: 2}
    cache_backend: step_cache
    cache_config: {step_cache_dit_enabled: true, velocity_sim_thresholds: [0.95, 0.93]}
"""
Edit = Callable[[dict[str, Any]], Any]


@pytest.fixture
def deploy(tmp_path: Path) -> Callable[[Edit], str]:
    """Return a writer of the file above with one edit."""

    def write(edit: Edit) -> str:
        values = yaml.safe_load(DEPLOY)
        edit(values)
        path = tmp_path / 'serve.yaml'
        path.write_text(yaml.safe_dump(values))
        return str(path)

    return write


def stage(values: dict[str, Any]) -> dict[str, Any]:
    return values['stages'][0]


def config(values: dict[str, Any]) -> dict[str, Any]:
    return values['stages'][0]['model_config']


def test_a_whole_deploy_file_serves_and_one_line_names_all_that_does_not_count(
    small: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / 'anything.yaml'
    path.write_text(DEPLOY)
    caplog.set_level(logging.INFO)
    spec = load_policy(str(small), policy=str(path)).spec
    assert spec.name == 'pi0'
    assert spec.handshake == {
        'image_resolution': [224, 224],
        'action_horizon': 50,
        'action_dim': 32,
    }
    lines = [text for text in caplog.messages if 'ignored' in text]
    assert lines == [
        f'{path}: deploy file; ignored: async_chunk, stages[0].devices, stages[0].parallel_config, '
        'stages[0].cache_backend, stages[0].cache_config, '
        "stages[0].model_config.num_inference_step (did you mean 'num_inference_steps'?), "
        'stages[0].model_config.attention_backend'
    ]


def test_its_options_are_those_of_the_same_block_in_a_policy_file(
    deploy: Callable[[Edit], str], tmp_path: Path
) -> None:
    file = load_policy_file(deploy(lambda values: None))
    pasted = tmp_path / 'pi0.yaml'
    pasted.write_text(yaml.safe_dump({**config(yaml.safe_load(DEPLOY)), 'dtype': 'float32'}))
    own = load_policy_file(str(pasted))
    assert (file.policy, dict(file.options)) == (own.policy, dict(own.options))
    assert (file.is_deploy_file, own.is_deploy_file) == (True, False)


def test_the_same_unknown_key_refuses_in_a_file_of_our_own(small: Path, tmp_path: Path) -> None:
    pasted = tmp_path / 'pi0.yaml'
    pasted.write_text(yaml.safe_dump(config(yaml.safe_load(DEPLOY))))
    with pytest.raises(ConfigurationError) as caught:
        load_policy(str(small), policy=str(pasted))
    second, first = sorted(caught.value.problems)
    assert first == "num_inference_step: unknown key; did you mean 'num_inference_steps'?"
    assert second.startswith('attention_backend: unknown key; ')


def test_nothing_is_logged_where_everything_counts(
    small: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / 'serve.yaml'
    path.write_text('pipeline: pi0\nstages: [{stage_id: 0, model_config: {chunk_size: 50}}]\n')
    assert load_policy(str(small), policy=str(path)).spec.handshake is None
    assert not any('ignored' in text for text in caplog.messages)


@pytest.mark.parametrize(
    ('edit', 'policy', 'named_by'),
    [
        (lambda v: None, 'pi0', 'pipeline'),
        (lambda v: v.pop('pipeline'), 'pi0', 'stages[0].model_class_name'),
        (lambda v: stage(v).pop('model_class_name'), 'pi0', 'pipeline'),
        (
            lambda v: (
                v.update(pipeline='dream_zero'),
                stage(v).update(model_class_name='DreamZeroPipeline'),
            ),
            'dream_zero',
            'pipeline',
        ),
    ],
)
def test_pipeline_or_class_name_chooses_the_policy(
    deploy: Callable[[Edit], str], edit: Edit, policy: str, named_by: str
) -> None:
    file = load_policy_file(deploy(edit))
    assert (file.policy, file.named_by) == (policy, named_by)


@pytest.mark.parametrize(
    ('edit', 'dtype'),
    [
        (lambda v: None, 'float32'),
        (lambda v: v.pop('dtype'), None),
        (lambda v: v.update(dtype='auto'), None),
        (lambda v: (v.pop('dtype'), config(v).update(dtype='bfloat16')), 'bfloat16'),
        (lambda v: (v.update(dtype='auto'), config(v).update(dtype='bfloat16')), 'bfloat16'),
        (lambda v: config(v).update(dtype='float32'), 'float32'),
    ],
)
def test_dtype_may_stand_at_any_level(
    deploy: Callable[[Edit], str], edit: Edit, dtype: str | None
) -> None:
    assert load_policy_file(deploy(edit)).options.get('dtype') == dtype


@pytest.mark.parametrize(
    ('edit', 'problems'),
    [
        (
            lambda v: v['stages'].append({'stage_id': 1, 'model_class_name': 'Thinker'}),
            ['stages: has 2 stages (Pi0Pipeline, Thinker), but one model is served here'],
        ),
        (lambda v: v.update(stages=[]), ['stages: has 0 stages (none), but one model']),
        (lambda v: v.update(stages=None), ['stages: expected a list of one stage, found None']),
        (lambda v: v.update(stages=['pi0']), ["stages: expected a list of one stage, found ['pi0"]),
        (lambda v: v.pop('stages'), ['stages: missing, but pipeline marks a deploy file']),
        (
            lambda v: v.update(pipeline='dreamzero'),
            [
                "pipeline is 'dreamzero', but stages[0].model_class_name is 'Pi0Pipeline'; both "
                'must name the same model'
            ],
        ),
        (
            lambda v: (v.pop('pipeline'), stage(v).pop('model_class_name')),
            ['neither pipeline nor stages[0].model_class_name says which model this is'],
        ),
        (
            lambda v: config(v).update(dtype='bfloat16'),
            ["dtype is 'float32', but stages[0].model_config.dtype is 'bfloat16'; leave one"],
        ),
        (
            lambda v: stage(v).update(dtype='bfloat16'),
            ["dtype is 'float32', but stages[0].dtype is 'bfloat16'; leave one of them"],
        ),
        (
            lambda v: (v.update(pipeline=0, dtype=32), stage(v).update(model_config=[1])),
            [
                'pipeline: expected a name, found 0',
                'stages[0].model_config: expected a mapping, found [1]',
                'dtype: expected a name, found 32',
            ],
        ),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(
    deploy: Callable[[Edit], str], edit: Edit, problems: list[str]
) -> None:
    path = deploy(edit)
    with pytest.raises(ConfigurationError) as caught:
        load_policy_file(path)
    assert caught.value.source == path
    assert len(caught.value.problems) == len(problems)
    for found, expected in zip(caught.value.problems, problems, strict=True):
        assert found.startswith(expected)


@pytest.mark.parametrize(
    ('edit', 'problem'),
    [
        (
            lambda v: (v.update(pipeline='pi00'), stage(v).pop('model_class_name')),
            "pipeline: 'pi00' is not registered, did you mean 'pi0'?",
        ),
        (
            lambda v: (v.pop('pipeline'), stage(v).update(model_class_name='QwenImagePipeline')),
            "stages[0].model_class_name: 'qwenimage' is not registered",
        ),
        (lambda v: v.update(dtype='half'), "dtype: expected float32 or bfloat16, found 'half'"),
        (lambda v: config(v).update(chunk_size=16), 'chunk_size is 16 here, but 50 in the check'),
        (
            lambda v: config(v).update(norm_stats={'state': {'mean': [0.0]}}),
            'norm_stats.state: mode mean_std needs mean and std, found mean',
        ),
    ],
)
def test_what_the_checkpoint_or_the_registry_contradicts_is_refused_by_name(
    small: Path, deploy: Callable[[Edit], str], edit: Edit, problem: str
) -> None:
    path = deploy(edit)
    with pytest.raises(ConfigurationError) as caught:
        load_policy(str(small), policy=path)
    assert caught.value.source == path
    assert caught.value.problems[0].startswith(problem)


def test_an_unknown_policy_in_our_own_file_is_refused_by_the_key_that_named_it(
    small: Path, tmp_path: Path
) -> None:
    path = tmp_path / 'po0.yaml'
    path.write_text('{}')
    with pytest.raises(ConfigurationError, match=r"name of the file: 'po0' is not registered"):
        load_policy(str(small), policy=str(path))
    path.write_text('policy: pi1')
    with pytest.raises(ConfigurationError, match=r"policy: 'pi1' is not registered"):
        load_policy(str(small), policy=str(path))


KEYS = st.sampled_from(
    ['pipeline', 'dtype', 'stages', 'model_class_name', 'model_config', 'stage_id', 'x', 3]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_no_mapping_makes_reading_fail_in_another_way_than_a_refusal(
    values: dict[Any, Any],
) -> None:
    with contextlib.suppress(ConfigurationError):
        read = read_deploy_file(values, 'file')
        assert read.policy
        assert isinstance(read.options.get('dtype', ''), str)
