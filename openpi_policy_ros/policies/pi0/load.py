# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Load a π0 checkpoint: bring files, policy file and robot file together, or refuse."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from time import perf_counter

import torch

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies import checkpoint_files
from openpi_policy_ros.policies.base import ACTIONS, PolicySpec
from openpi_policy_ros.policies.feature_map import build_feature_map
from openpi_policy_ros.policies.handshake import HandshakeFacts, build_handshake, derive
from openpi_policy_ros.policies.pi0.checkpoint import HUB_PATTERNS, load_weights
from openpi_policy_ros.policies.pi0.config import Pi0Config
from openpi_policy_ros.policies.pi0.lerobot_config import read_config
from openpi_policy_ros.policies.pi0.options import apply_options, read_options
from openpi_policy_ros.policies.pi0.policy import Pi0Policy
from openpi_policy_ros.policies.pi0.processors import read_processing
from openpi_policy_ros.policies.pi0.tokenizer import PromptTokenizer, load_tokenizer
from openpi_policy_ros.policies.registry import LoadRequest

logger = logging.getLogger('openpi_policy_ros.policies.pi0')


def load(request: LoadRequest) -> Pi0Policy:
    """Return the π0 policy in a LeRobot checkpoint, not yet warmed up.

    Raises:
        CheckpointError: the checkpoint cannot be served as it is.
        ConfigurationError: policy file, robot file and checkpoint do not fit together.

    """
    device = _device(request.device)
    source = request.options_source or 'policy options'
    options = read_options(request.options, source)
    located = checkpoint_files.locate(request.model, request.revision, HUB_PATTERNS)
    config = read_config(located.directory, options.image_feature_keys)
    config = apply_options(config, options, source)
    processing = read_processing(
        located.directory,
        config.normalization,
        override_identity=options.normalization == 'identity',
    )
    profile = request.profile
    feature_map = build_feature_map(
        image_features=config.image_features,
        state_dim=config.state_dim,
        profile=profile,
        renames={**processing.rename_map, **options.image_key_map},
        optional_cameras=options.optional_cameras,
        default_prompt=options.default_prompt,
        source=f'{request.model}: observation keys',
    )
    horizon, action_dim = _crop(config, request)
    facts = HandshakeFacts(
        image_resolution=config.image_resolution,
        cameras=config.image_features,
        camera_slots=config.image_slots,
        horizon=horizon,
        action_dim=action_dim,
    )
    action_space = profile.action_space if profile is not None else ''
    declared = options.policy_server_config
    if request.options is None:
        declared = derive(facts, action_space)
    elif declared is not None and not action_space:
        action_space = str(declared.get('action_space', ''))
    handshake = build_handshake(declared, facts, profile, source=source)
    tokenizer, tokenizer_source = load_tokenizer(
        options.tokenizer, located, policy_file=request.options_source
    )
    prompts = PromptTokenizer(
        tokenizer,
        tokenizer_source,
        max_length=config.tokenizer_max_length,
        vocab_size=config.vocab_size,
        truncate=options.truncate_prompt,
    )
    if device.type == 'cpu' and config.dtype == 'bfloat16':
        logger.warning(
            'bfloat16 on a CPU is several times slower than float32 on most; set dtype: float32 in '
            'the policy file'
        )
    start = perf_counter()
    model, weights_hash = load_weights(located.directory, config, device)
    logger.info(
        '%s: %d parameters in %s on %s, loaded in %.1f s',
        request.model,
        sum(parameter.numel() for parameter in model.parameters()),
        config.dtype,
        device,
        perf_counter() - start,
    )
    spec = PolicySpec(
        name='pi0',
        model=request.model,
        revision=located.revision,
        weights_hash=weights_hash,
        default_prompt=options.default_prompt or '',
        cameras=feature_map.cameras,
        state=feature_map.state,
        horizon=horizon,
        action_dim=action_dim,
        action_space=action_space,
        action_names=_action_names(config, request, processing.action_names, action_dim),
        output_shapes={ACTIONS: (horizon, action_dim)},
        handshake=handshake,
        supports_rtc=True,
    )
    return Pi0Policy(spec, config, model, prompts, feature_map, options.legacy_padding)


def _device(name: str) -> torch.device:
    """Return the torch device called ``name``, known to be usable."""
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device('meta')
    if device.type == 'cpu':
        return device
    if device.type != 'cuda':
        raise ConfigurationError('device', [f'{name!r} is not known; expected cpu, cuda or cuda:N'])
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if (device.index or 0) >= count:
        raise ConfigurationError(
            'device',
            [
                f'{name!r} is not there: torch {torch.__version__} sees {count} CUDA devices; '
                'install a torch build with CUDA and its driver, or use device cpu'
            ],
        )
    return device


def _crop(config: Pi0Config, request: LoadRequest) -> tuple[int, int]:
    """Return (rows, columns) of a reply: the checkpoint's, cut by the profile."""
    profile = request.profile
    rows, columns = config.chunk_size, config.action_dim
    if profile is None:
        return rows, columns
    problems = [
        f'{name} is {crop}, but a chunk of this checkpoint has only {real} {what}'
        for name, crop, real, what in (
            ('profile.crop_rows', profile.crop_rows, rows, 'rows'),
            ('profile.crop_columns', profile.crop_columns, columns, 'columns'),
        )
        if crop is not None and crop > real
    ]
    columns = min(profile.crop_columns or columns, columns)
    if profile.action_names and len(profile.action_names) != columns and not problems:
        problems.append(
            f'profile.action_names has {len(profile.action_names)} entries, but a reply has '
            f'{columns} columns; set profile.crop_columns, or name every column'
        )
    if problems:
        raise ConfigurationError(f'{request.model}: robot file', problems)
    return min(profile.crop_rows or rows, rows), columns


def _action_names(
    config: Pi0Config, request: LoadRequest, processor_names: Sequence[str], columns: int
) -> tuple[str, ...]:
    """Return one label per column: the robot's, else the checkpoint's, else numbers."""
    if request.profile is not None and request.profile.action_names:
        return tuple(request.profile.action_names)
    for names in (processor_names, config.action_names):
        if len(names) >= columns and len(names) == config.action_dim:
            return tuple(names[:columns])
    return tuple(f'action_{index}' for index in range(columns))
