# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every key of DreamZero's policy file: its default, its range, what contradicts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openpi_policy_ros.configuration.policy_file import load_policy_file
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.dreamzero import PLUGIN
from openpi_policy_ros.policies.dreamzero.options import DreamZeroOptions, read_options


def test_defaults_are_the_references() -> None:
    options = read_options(None, 'none')
    assert (options.num_inference_steps, options.cfg_scale, options.sigma_shift) == (16, 5.0, 5.0)
    assert (options.seed, options.chosen_step_cache) == (1140, 'static8')
    assert options.velocity_sim_thresholds == [0.95, 0.93]
    assert options.velocity_skip_countdowns == [4, 2]
    assert (options.embodiment, options.default_robot_embodiment) == ('oxe_droid', 'roboarena')
    assert (options.batch_guidance, options.cfg_parallel_size) == ('auto', 1)
    assert (options.offload_text, options.imagined) == (False, False)
    assert options.truncate_prompt is False


@pytest.mark.parametrize(
    ('name', 'embodiment'), [('dreamzero', 'roboarena'), ('dreamzero_droid', 'droid')]
)
def test_the_shipped_files_carry_the_handshake(name: str, embodiment: str) -> None:
    file = load_policy_file(name)
    assert file.policy == 'dreamzero'
    options = read_options(file.options, file.source)
    assert options.default_robot_embodiment == embodiment
    assert options.policy_server_config == {
        'image_resolution': [180, 320],
        'n_external_cameras': 2,
        'needs_wrist_camera': True,
        'needs_stereo_camera': False,
        'needs_session_id': True,
        'action_space': 'joint_position',
    }


def test_every_option_is_described_and_known_to_the_plugin() -> None:
    fields = DreamZeroOptions.model_fields
    assert all(field.description and field.description.strip() for field in fields.values())
    assert PLUGIN.option_names == tuple(fields)
    page = (Path(__file__).resolve().parents[2] / 'docs' / 'dreamzero.md').read_text()
    assert [name for name in fields if f'`{name}`' not in page] == []


@pytest.mark.parametrize(
    ('values', 'text'),
    [
        ({'num_inference_steps': 0}, 'greater than or equal to 1'),
        ({'num_inference_steps': 1001, 'step_cache': 'off'}, 'less than or equal to 1000'),
        ({'num_inference_steps': 8}, 'step_cache: dynamic or off'),
        ({'num_inference_steps': 16.0}, 'integer'),
        ({'cfg_scale': -1.0}, 'cfg_scale'),
        ({'cfg_scale': float('nan')}, 'cfg_scale'),
        ({'sigma_shift': 0.0}, 'greater than or equal to 0.01'),
        ({'sigma_shift': 1e-300}, 'greater than or equal to 0.01'),
        ({'seed': -1}, 'seed'),
        ({'seed': 2**64}, 'seed'),
        ({'negative_prompt': ''}, 'negative_prompt'),
        ({'step_cache': 'static7'}, "'static8', 'dynamic' or 'off'"),
        ({'step_cache_dit_enabled': 1}, 'step_cache_dit_enabled'),
        ({'cache_backend': 'tea_cache'}, 'expected step_cache or none'),
        ({'velocity_sim_thresholds': [0.95]}, 'one countdown for each threshold'),
        ({'velocity_sim_thresholds': [0.9, 0.95]}, 'falling'),
        ({'velocity_sim_thresholds': [0.95, 0.95]}, 'falling'),
        ({'velocity_sim_thresholds': [1.2, 0.9]}, 'less than or equal to 1'),
        ({'velocity_sim_thresholds': []}, 'at least 1'),
        ({'velocity_skip_countdowns': [0, 2]}, 'greater than or equal to 1'),
        ({'decouple_inference_noise': 'yes'}, 'decouple_inference_noise'),
        ({'video_inference_final_noise': 1.0}, 'less than 1'),
        ({'noise_device': 'gpu'}, "'model' or 'cpu'"),
        ({'dtype': 'float16'}, "'float32' or 'bfloat16'"),
        ({'offload_text': 'cpu'}, 'offload_text'),
        ({'batch_guidance': 'maybe'}, "True, False or 'auto'"),
        ({'cfg_parallel_size': 3}, '1 or 2'),
        ({'cfg_parallel_size': 2, 'batch_guidance': True}, 'remove one of the lines'),
        ({'relative_action': 0}, 'relative_action'),
        ({'relative_action_dim': 8}, '7 joints; write 7'),
        ({'embodiment': 'agibot'}, 'expected oxe_droid'),
        ({'default_robot_embodiment': 'aloha'}, "'roboarena' or 'droid'"),
        ({'max_sessions': 0}, 'greater than or equal to 1'),
        ({'session_memory': 0.0}, 'greater than 0'),
        ({'session_memory': 1e300}, 'less than or equal to 1048576'),
        ({'imagined': 'file'}, 'imagined'),
        ({'tokenizer': 7}, 'tokenizer'),
        ({'view_size': [176]}, 'view_size'),
        ({'view_size': [180, 320]}, 'multiples of 16'),
        ({'view_size': [0, 16]}, 'multiples of 16'),
        ({'optional_cameras': 'wrist'}, 'optional_cameras'),
        ({'default_prompt': ''}, 'default_prompt'),
        ({'default_prompt': ' '}, 'default_prompt: is blank'),
        ({'truncate_prompt': 'no'}, 'truncate_prompt'),
        ({'policy_server_config': []}, 'policy_server_config'),
        ({'step_cach': 'off'}, "did you mean 'step_cache'"),
    ],
)
def test_a_wrong_option_is_refused_with_what_would_be_right(
    values: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigurationError, match=r'mine\.yaml: 1 problem') as caught:
        read_options(values, 'mine.yaml')
    assert text in str(caught.value)


def test_all_wrong_options_are_told_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_options({'seed': -1, 'cfg_scale': 'five', 'dtyp': 'float32'}, 'mine.yaml')
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    ('values', 'chosen'),
    [
        ({}, 'static8'),
        ({'cache_backend': 'step_cache'}, 'static8'),
        ({'cache_backend': 'none'}, 'off'),
        ({'step_cache_dit_enabled': True}, 'dynamic'),
        ({'step_cache_dit_enabled': False}, 'off'),
        ({'cache_backend': 'step_cache', 'step_cache_dit_enabled': True}, 'dynamic'),
        ({'step_cache': 'dynamic', 'step_cache_dit_enabled': True}, 'dynamic'),
        ({'step_cache': 'off', 'num_inference_steps': 4}, 'off'),
        ({'step_cache_dit_enabled': True, 'num_inference_steps': 10}, 'dynamic'),
    ],
)
def test_vllm_omnis_cache_keys_mean_a_step_cache(values: dict[str, Any], chosen: str) -> None:
    assert read_options(values, 'file').chosen_step_cache == chosen


@pytest.mark.parametrize(
    'values',
    [
        {'step_cache': 'static8', 'step_cache_dit_enabled': True},
        {'step_cache': 'dynamic', 'step_cache_dit_enabled': False},
        {'cache_backend': 'none', 'step_cache_dit_enabled': True},
        {'cache_backend': 'none', 'step_cache': 'static8'},
    ],
)
def test_cache_keys_that_contradict_one_another_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r', but .*leave one of them'):
        read_options(values, 'file')
