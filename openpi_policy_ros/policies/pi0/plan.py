# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Bring files, policy file and robot file together, weights unread; note all that does not fit.

Loading refuses what is noted here, inspecting prints it: one validation for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies import layouts
from openpi_policy_ros.policies.base import ACTIONS, PolicySpec
from openpi_policy_ros.policies.checkpoint_view import CheckpointView
from openpi_policy_ros.policies.feature_map import FeatureMap, build_feature_map
from openpi_policy_ros.policies.handshake import HandshakeFacts, build_handshake, derive
from openpi_policy_ros.policies.layouts import WEIGHTS
from openpi_policy_ros.policies.pi0.config import Pi0Config
from openpi_policy_ros.policies.pi0.lerobot_config import read_config
from openpi_policy_ros.policies.pi0.matching import match_tensors
from openpi_policy_ros.policies.pi0.options import Pi0Options, apply_options, read_options
from openpi_policy_ros.policies.pi0.processors import (
    Processing,
    read_processing,
    require_identity,
)
from openpi_policy_ros.policies.pi0.tokenizer import (
    PromptTokenizer,
    TokenizerElsewhere,
    load_tokenizer,
)
from openpi_policy_ros.policies.problems import Problems
from openpi_policy_ros.policies.registry import LoadRequest

HUB_PATTERNS = (
    'config.json',
    'arch_overrides.json',
    WEIGHTS,
    'policy_preprocessor*',
    'policy_postprocessor*',
    'tokenizer.json',
    'tokenizer/tokenizer.json',
)
"""The only files ever fetched of a hub repository to serve it."""


@dataclass
class Plan:
    """What is settled about a policy; None = it hangs on something that was refused.

    Attributes:
        options: the policy file.
        config: the checkpoint's sizes, with the overrides of the policy file.
        processing: what its processors ask for.
        features: which observation key carries which input.
        prompts: encodes instructions.
        tokenizer: where that comes from.
        spec: everything but the digest of the weights.

    """

    options: Pi0Options | None = None
    config: Pi0Config | None = None
    processing: Processing | None = None
    features: FeatureMap | None = None
    prompts: PromptTokenizer | None = None
    tokenizer: str = ''
    spec: PolicySpec | None = None


def make_plan(
    request: LoadRequest, view: CheckpointView, problems: Problems, *, fetch: bool = True
) -> Plan:
    """Return what can be settled without a weight being read.

    Args:
        request: model, policy file and robot file.
        view: the checkpoint's files.
        problems: gains everything that would refuse the start.
        fetch: whether a tokenizer may be fetched from the hub, where loading would do that.

    """
    plan = Plan()
    source = request.options_source or 'policy options'
    directory = view.located.directory
    with problems.collecting():
        plan.options = read_options(request.options, source)
    options = plan.options
    config = None
    with problems.collecting():
        layouts.refuse_foreign(view)
        config = read_config(directory, options.image_feature_keys if options else None)
    if config is None:
        problems.unchecked += ['weights', 'processors', 'observation', 'handshake', 'tokenizer']
        return plan
    plan.config = config
    with problems.collecting():
        header = view.header(WEIGHTS)
        match_tensors(header, config, view.model if view.on_hub else str(directory / WEIGHTS))
    plan.processing = read_processing(directory, config.normalization, problems)
    if options is None:
        problems.unchecked += ['observation', 'handshake', 'tokenizer']
        return plan
    with problems.collecting():
        plan.config = config = apply_options(config, options, source)
    with problems.collecting():
        require_identity(
            directory, plan.processing, override_identity=options.normalization == 'identity'
        )
    with problems.collecting():
        plan.features = build_feature_map(
            image_features=config.image_features,
            state_dim=config.state_dim,
            profile=request.profile,
            renames={**plan.processing.rename_map, **options.image_key_map},
            optional_cameras=options.optional_cameras,
            default_prompt=options.default_prompt,
            source=f'{request.model}: observation keys',
        )
    if plan.features is None:
        problems.unchecked.append('handshake')
    else:
        with problems.collecting():
            plan.spec = _spec(request, view, plan, plan.features, config, options, source)
    with problems.collecting():
        _plan_tokenizer(request, view, plan, config, options, problems, fetch)
    return plan


def _spec(
    request: LoadRequest,
    view: CheckpointView,
    plan: Plan,
    features: FeatureMap,
    config: Pi0Config,
    options: Pi0Options,
    source: str,
) -> PolicySpec:
    profile = request.profile
    horizon, action_dim = _crop(config, request)
    facts = HandshakeFacts(
        image_resolution=config.image_resolution,
        cameras=config.image_features,
        camera_slots=config.image_slots,
        horizon=horizon,
        action_dim=action_dim,
    )
    action_space = profile.action_space if profile is not None else ''
    declared: dict[str, Any] | None = options.policy_server_config
    if request.options is None:
        declared = derive(facts, action_space)
    elif declared is not None and not action_space:
        action_space = str(declared.get('action_space', ''))
    names = plan.processing.action_names if plan.processing is not None else ()
    return PolicySpec(
        name='pi0',
        model=request.model,
        revision=view.located.revision,
        default_prompt=options.default_prompt or '',
        cameras=features.cameras,
        state=features.state,
        horizon=horizon,
        action_dim=action_dim,
        action_space=action_space,
        action_names=_action_names(config, request, names, action_dim),
        output_shapes={ACTIONS: (horizon, action_dim)},
        handshake=build_handshake(declared, facts, profile, source=source),
        supports_rtc=True,
    )


def _plan_tokenizer(
    request: LoadRequest,
    view: CheckpointView,
    plan: Plan,
    config: Pi0Config,
    options: Pi0Options,
    problems: Problems,
    fetch: bool,
) -> None:
    try:
        tokenizer, plan.tokenizer = load_tokenizer(
            options.tokenizer, view.located, policy_file=request.options_source, fetch=fetch
        )
    except TokenizerElsewhere as error:
        plan.tokenizer = f'{error.what} on the hub, fetched when the policy is loaded'
        problems.unchecked.append('tokenizer')
        return
    plan.prompts = PromptTokenizer(
        tokenizer,
        plan.tokenizer,
        max_length=config.tokenizer_max_length,
        vocab_size=config.vocab_size,
        truncate=options.truncate_prompt,
    )


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
