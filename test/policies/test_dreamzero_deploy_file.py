# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A whole vLLM-Omni deploy file of DreamZero serves, its parallelism and caches included."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from openpi_policy_ros.configuration.deploy_file import read_deploy_file
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.dreamzero.options import DreamZeroOptions, read_options
from openpi_policy_ros.policies.loading import choose_policy

DEPLOY = """\
pipeline: dreamzero
dtype: bfloat16
async_chunk: false
stages:
  - stage_id: 0
    model_class_name: DreamZeroPipeline
    max_num_seqs: 1
    model_config:
      default_robot_embodiment: roboarena
      embodiment_name_to_id: {roboarena: 3, oxe_droid: 17}
      num_inference_steps: 16
      cfg_scale: 5.0
      sigma_shift: 5.0
      seed: 1140
      relative_action: true
      relative_action_dim: 7
      attention_backend: flash
      policy_server_config:
        image_resolution: [180, 320]
        n_external_cameras: 2
        needs_wrist_camera: true
        needs_session_id: true
        action_space: joint_position
    parallel_config: {tensor_parallel_size: 1, cfg_parallel_size: 2}
    cache_backend: step_cache
    cache_config:
      step_cache_dit_enabled: true
      velocity_sim_thresholds: [0.97, 0.94]
      velocity_skip_countdowns: [3, 1]
      fancy: 1
"""
Edit = Callable[[dict[str, Any]], Any]
Read = Callable[[Edit], DreamZeroOptions]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return what reads the file above, with one edit of its stage, as options."""

    def reader(edit: Edit) -> DreamZeroOptions:
        values = yaml.safe_load(DEPLOY)
        edit(values['stages'][0])
        path = tmp_path / 'serve.yaml'
        path.write_text(yaml.safe_dump(values, sort_keys=False))
        _, request = choose_policy('model', policy=str(path))
        return read_options(request.options, request.options_source)

    return reader


def test_every_key_that_counts_is_honoured_and_the_others_are_named(
    read: Read, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    options = read(lambda stage: None)
    assert (options.cfg_parallel_size, options.dtype, options.seed) == (2, 'bfloat16', 1140)
    assert options.chosen_step_cache == 'dynamic'
    assert options.velocity_sim_thresholds == [0.97, 0.94]
    assert options.velocity_skip_countdowns == [3, 1]
    assert options.policy_server_config is not None
    assert options.policy_server_config['image_resolution'] == [180, 320]
    assert [text for text in caplog.messages if 'ignored' in text] == [
        f'{tmp_path / "serve.yaml"}: deploy file; ignored: async_chunk, stages[0].max_num_seqs, '
        'stages[0].parallel_config.tensor_parallel_size, stages[0].cache_config.fancy, '
        "stages[0].model_config.attention_backend (did you mean 'cache_backend'?)"
    ]


@pytest.mark.parametrize(
    ('edit', 'chosen'),
    [
        (lambda s: s['cache_config'].update(step_cache_dit_enabled=True), 'dynamic'),
        (lambda s: s['cache_config'].update(step_cache_dit_enabled=False), 'off'),
        (lambda s: s['cache_config'].pop('step_cache_dit_enabled'), 'static8'),
        (lambda s: s.pop('cache_config'), 'static8'),
        (lambda s: s.update(cache_config=None), 'static8'),
        (lambda s: (s.pop('cache_config'), s.pop('cache_backend')), 'static8'),
        (lambda s: (s.pop('cache_config'), s.update(cache_backend='none')), 'off'),
    ],
)
def test_its_step_cache_means_one_of_ours(read: Read, edit: Edit, chosen: str) -> None:
    assert read(edit).chosen_step_cache == chosen


def test_without_parallelism_one_device_serves(read: Read) -> None:
    assert read(lambda stage: stage.pop('parallel_config')).cfg_parallel_size == 1


def test_the_class_name_alone_names_the_policy() -> None:
    values = yaml.safe_load(DEPLOY)
    del values['pipeline']
    assert read_deploy_file(values, 'file').policy == 'dreamzero'


@pytest.mark.parametrize(
    ('edit', 'text'),
    [
        (lambda s: s.update(parallel_config=2), 'parallel_config: expected a mapping, found 2'),
        (lambda s: s.update(cache_config=['a']), 'cache_config: expected a mapping'),
        (lambda s: s.update(cache_backend='tea_cache'), 'expected step_cache or none'),
        (lambda s: s['parallel_config'].update(cfg_parallel_size=4), '1 or 2'),
        (
            lambda s: s['model_config'].update(velocity_skip_countdowns=[9, 9]),
            'velocity_skip_countdowns is [9, 9] in stages[0].model_config, but [3, 1] in '
            'stages[0].cache_config',
        ),
        (lambda s: s['model_config'].update(step_cache='off'), 'leave one of them'),
    ],
)
def test_what_contradicts_is_refused(read: Read, edit: Edit, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(edit)
    assert text in str(caught.value)


def test_the_same_key_with_the_same_value_in_two_places_is_fine(read: Read) -> None:
    options = read(lambda s: s['model_config'].update(velocity_skip_countdowns=[3, 1]))
    assert options.velocity_skip_countdowns == [3, 1]


def test_the_blocks_can_be_pasted_into_a_policy_file_as_they_are(tmp_path: Path) -> None:
    stage = yaml.safe_load(DEPLOY)['stages'][0]
    pasted = {**stage['model_config'], **stage['cache_config'], 'cfg_parallel_size': 2}
    for stranger in ('attention_backend', 'fancy'):
        del pasted[stranger]
    path = tmp_path / 'dreamzero.yaml'
    path.write_text(yaml.safe_dump(pasted))
    _, request = choose_policy('model', policy=str(path))
    assert read_options(request.options, str(path)).chosen_step_cache == 'dynamic'
