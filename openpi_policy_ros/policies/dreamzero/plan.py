# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Bring files, policy file and robot file together, weights unread; note all that does not fit.

Loading refuses what is noted here, inspecting prints it: one validation for both.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from openpi_policy_ros.configuration.robot import Profile
from openpi_policy_ros.errors import CheckpointError, ConfigurationError, InvalidObservation
from openpi_policy_ros.policies import layouts
from openpi_policy_ros.policies.base import ACTIONS, PolicySpec
from openpi_policy_ros.policies.checkpoint_files import read_json
from openpi_policy_ros.policies.checkpoint_view import CheckpointView
from openpi_policy_ros.policies.crop import crop_chunk
from openpi_policy_ros.policies.dreamzero.checkpoint import check_header
from openpi_policy_ros.policies.dreamzero.config import DreamZeroConfig, parse_config
from openpi_policy_ros.policies.dreamzero.metadata import METADATA, Metadata, read_metadata
from openpi_policy_ros.policies.dreamzero.options import DreamZeroOptions, read_options
from openpi_policy_ros.policies.dreamzero.profiles import (
    ACTION_NAMES,
    ACTION_SPACE,
    settle_profile,
)
from openpi_policy_ros.policies.dreamzero.prompt import TOKENIZER, Prompts
from openpi_policy_ros.policies.dreamzero.sampler import Sampling
from openpi_policy_ros.policies.dreamzero.state import COLUMNS, Units
from openpi_policy_ros.policies.dreamzero.transform import (
    FEATURES,
    DreamZeroTransform,
    settle_view_size,
)
from openpi_policy_ros.policies.dreamzero.window import history_offsets
from openpi_policy_ros.policies.feature_map import FeatureMap, build_feature_map
from openpi_policy_ros.policies.handshake import HandshakeFacts, build_handshake, derive
from openpi_policy_ros.policies.layouts import CONFIG, WEIGHTS
from openpi_policy_ros.policies.problems import Problems
from openpi_policy_ros.policies.registry import LoadRequest
from openpi_policy_ros.policies.tokenizer_files import TokenizerElsewhere, load_tokenizer
from openpi_policy_ros.policies.weight_files import Header

_REST = ['statistics', 'observation', 'handshake', 'tokenizer']


@dataclass
class Plan:
    """What is settled about a policy; None = it hangs on something that was refused.

    Attributes:
        options: the policy file.
        config: the checkpoint's sizes, with the overrides of the policy file.
        sampling: how a call goes from noise to actions.
        metadata: what training left beside the weights.
        features: which observation key carries which input.
        transform: converts between robot and model.
        prompts: encodes instructions.
        tokenizer: where that comes from.
        spec: everything but the digest of the weights.
        parameters: numbers of the checkpoint.

    """

    options: DreamZeroOptions | None = None
    config: DreamZeroConfig | None = None
    sampling: Sampling | None = None
    metadata: Metadata | None = None
    features: FeatureMap | None = None
    transform: DreamZeroTransform | None = None
    prompts: Prompts | None = None
    tokenizer: str = ''
    spec: PolicySpec | None = None
    parameters: int | None = None


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
    with problems.collecting():
        plan.options = read_options(request.options, source)
    config = None
    with problems.collecting():
        config = _read_config(view)
    if config is None:
        problems.unchecked += ['weights', *_REST]
        return plan
    header: Header = {}
    with problems.collecting():
        header = view.header(WEIGHTS)
        where = view.model if view.on_hub else str(view.located.directory / WEIGHTS)
        check_header(header, config, where)
        plan.parameters = sum(info.values for info in header.values())
    if plan.options is None:
        problems.unchecked += _REST
        return plan
    options = plan.options
    plan.config = config = _overridden(config, options, header)
    plan.sampling = _sampling(config, options)
    with problems.collecting():
        named = _statistics_path(options, request, source)
        if named is None and METADATA not in view.sizes:
            raise _no_metadata(view)
        plan.metadata = read_metadata(
            view.located.directory, options.embodiment, config.action_horizon, named
        )
    profile = settle_profile(options.default_robot_embodiment, request.profile)
    with problems.collecting():
        plan.features = build_feature_map(
            image_features=FEATURES,
            state_dim=COLUMNS,
            state_exact=True,
            time_axis=True,
            profile=profile,
            optional_cameras=options.optional_cameras,
            default_prompt=options.default_prompt,
            source=f'{request.model}: observation keys',
        )
    with problems.collecting():
        _plan_transform(plan, options, source)
    if plan.features is None or plan.metadata is None:
        problems.unchecked.append('handshake')
    else:
        with problems.collecting():
            plan.spec = _spec(
                request, view, plan.features, plan.metadata, config, profile, options, source
            )
    with problems.collecting():
        _plan_tokenizer(request, view, plan, config, options, problems, fetch)
    return plan


def _read_config(view: CheckpointView) -> DreamZeroConfig:
    layout = layouts.known_layout(view)
    if layout is not layouts.DREAMZERO:
        raise CheckpointError(
            f'{view.model} is {layout.title}, asked for as dreamzero',
            expected=f'{CONFIG} with model_type vla and action_head_cfg',
            remedy='leave the policy file out to serve it as what it is, or pass another model',
        )
    path = view.located.directory / CONFIG
    config = parse_config(read_json(path), str(path))
    narrow = [
        f'{name} {width}'
        for name, width in (
            ('action_dim', config.dit.action_dim),
            ('max_state_dim', config.dit.max_state_dim),
        )
        if width < COLUMNS
    ]
    if narrow:
        raise CheckpointError(
            f'{path}: {" and ".join(narrow)}',
            expected=f'at least {COLUMNS}, seven joints and a gripper',
            remedy='this is another kind of checkpoint than DROID; it is not served',
        )
    return config


def _overridden(
    config: DreamZeroConfig, options: DreamZeroOptions, header: Header
) -> DreamZeroConfig:
    decoupled, final = options.decouple_inference_noise, options.video_inference_final_noise
    return replace(
        config,
        dtype=options.dtype or _stored_dtype(header),
        decouple_inference_noise=config.decouple_inference_noise
        if decoupled is None
        else decoupled,
        video_inference_final_noise=config.video_inference_final_noise if final is None else final,
    )


def _stored_dtype(header: Header) -> str:
    """Return what most numbers of a checkpoint are stored in, of the types that are computed in."""
    counts = Counter[str]()
    for info in header.values():
        counts[info.dtype] += info.values
    most = counts.most_common(1)
    return 'bfloat16' if most and most[0][0] in ('BF16', 'F16') else 'float32'


def _sampling(config: DreamZeroConfig, options: DreamZeroOptions) -> Sampling:
    decoupled = config.decouple_inference_noise
    return Sampling(
        num_inference_steps=options.num_inference_steps,
        sigma_shift=options.sigma_shift,
        step_cache=options.chosen_step_cache,
        sim_thresholds=tuple(options.velocity_sim_thresholds),
        skip_countdowns=tuple(options.velocity_skip_countdowns),
        video_final_noise=config.video_inference_final_noise if decoupled else None,
    )


def _statistics_path(options: DreamZeroOptions, request: LoadRequest, source: str) -> Path | None:
    named = options.action_norm_stats_path
    if named is None:
        return None
    path = Path(named).expanduser()
    paths = [
        path,
        *([Path(request.options_source).parent / path] if request.options_source else []),
    ]
    for candidate in paths:
        if candidate.is_file():
            return candidate
    raise ConfigurationError(
        source, [f'action_norm_stats_path: {named!r} is no file; give the path of a metadata.json']
    )


def _no_metadata(view: CheckpointView) -> CheckpointError:
    return CheckpointError(
        f'{view.model} holds no {METADATA}',
        expected='that file, with the statistics of state and actions: without them the chunks '
        'are no angles',
        remedy='copy it from the training, or name one as action_norm_stats_path in the policy '
        'file',
    )


def _plan_transform(plan: Plan, options: DreamZeroOptions, source: str) -> None:
    config, metadata = plan.config, plan.metadata
    if config is None or metadata is None:
        return
    view_size = settle_view_size(config, metadata.resolution, options.view_size, source)
    relative = options.relative_action
    units = Units(
        metadata,
        config.dit.max_state_dim,
        metadata.relative if relative is None else relative,
    )
    if plan.features is not None:
        plan.transform = DreamZeroTransform(plan.features, units, metadata.resolution, view_size)


def _spec(
    request: LoadRequest,
    view: CheckpointView,
    features: FeatureMap,
    metadata: Metadata,
    config: DreamZeroConfig,
    profile: Profile,
    options: DreamZeroOptions,
    source: str,
) -> PolicySpec:
    horizon, action_dim = _crop(config, profile, request.model)
    facts = HandshakeFacts(
        image_resolution=metadata.resolution,
        cameras=FEATURES,
        camera_slots=len(FEATURES),
        horizon=horizon,
        action_dim=action_dim,
        needs_session_id=True,
    )
    declared: dict[str, Any] | None = options.policy_server_config
    if request.options is None:
        declared = derive(facts, ACTION_SPACE)
    return PolicySpec(
        name='dreamzero',
        model=request.model,
        revision=view.located.revision,
        default_prompt=options.default_prompt or '',
        cameras=features.cameras,
        state=features.state,
        horizon=horizon,
        action_dim=action_dim,
        action_space=ACTION_SPACE,
        action_names=tuple(profile.action_names) or ACTION_NAMES[:action_dim],
        output_shapes={ACTIONS: (horizon, action_dim)},
        handshake=build_handshake(declared, facts, profile, source=source),
        stateful=True,
        history_offsets=history_offsets(config.action_horizon),
        default_seed=options.seed,
        imagines=options.imagined,
    )


def _crop(config: DreamZeroConfig, profile: Profile, model: str) -> tuple[int, int]:
    """Return (rows, columns) of a reply, and refuse a robot file that means other actions."""
    rows, columns, problems = crop_chunk(profile, config.action_horizon, COLUMNS)
    if profile.action_space not in ('', ACTION_SPACE):
        problems.append(
            f'profile.action_space is {profile.action_space!r}, but DreamZero answers absolute '
            f'joint angles; write {ACTION_SPACE}'
        )
    if any(profile.delta_mask):
        problems.append(
            f'profile.delta_mask is {profile.delta_mask}, but DreamZero adds the measured joints '
            'itself (relative_action in the policy file); remove the line'
        )
    if problems:
        raise ConfigurationError(f'{model}: robot file', problems)
    return rows, columns


def _plan_tokenizer(
    request: LoadRequest,
    view: CheckpointView,
    plan: Plan,
    config: DreamZeroConfig,
    options: DreamZeroOptions,
    problems: Problems,
    fetch: bool,
) -> None:
    try:
        tokenizer, plan.tokenizer = load_tokenizer(
            options.tokenizer,
            view.located,
            fallback=TOKENIZER,
            policy_file=request.options_source,
            fetch=fetch,
        )
    except TokenizerElsewhere as error:
        plan.tokenizer = f'{error.what} on the hub, fetched when the policy is loaded'
        problems.unchecked.append('tokenizer')
        return
    plan.prompts = Prompts(
        tokenizer,
        plan.tokenizer,
        max_length=config.dit.text_len,
        vocab_size=config.text.vocab,
        negative=options.negative_prompt,
        truncate=options.truncate_prompt,
    )
    if options.default_prompt is not None:
        try:
            plan.prompts.encode(options.default_prompt, 'default_prompt')
        except InvalidObservation as error:
            source = request.options_source or 'policy options'
            raise ConfigurationError(source, [str(error)]) from None
