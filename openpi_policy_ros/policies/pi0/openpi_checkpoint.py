# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Read a checkpoint that openpi converted to PyTorch: its ``config.json``, and what it leaves out.

openpi keeps most of what surrounds a model in the source code of its training configurations, by
their names. Of that, the files show the sizes, the family (by the tensors) and the statistics; the
cameras, the images and the text are the same in all of them; which actions are differences from the
state only the user can say, in the robot file.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace

from pydantic import ConfigDict, Field

from openpi_policy_ros.configuration.robot import Profile
from openpi_policy_ros.configuration.schema import Section, validate
from openpi_policy_ros.errors import CheckpointError, ConfigurationError
from openpi_policy_ros.policies import layouts
from openpi_policy_ros.policies.checkpoint_files import read_json
from openpi_policy_ros.policies.checkpoint_view import CheckpointView
from openpi_policy_ros.policies.normalization import IDENTITY, IDENTITY_MODE
from openpi_policy_ros.policies.pi0.config import (
    PALIGEMMA_VOCABULARY,
    VARIANTS,
    Family,
    Pi0Config,
    RtcSettings,
    VisionSize,
    check_sizes,
)
from openpi_policy_ros.policies.pi0.lerobot_config import apply_overrides
from openpi_policy_ros.policies.pi0.openpi_statistics import OpenpiStatistics, settle_statistics
from openpi_policy_ros.policies.pi0.options import Pi0Options
from openpi_policy_ros.policies.pi0.pipeline import Pipeline, PromptStyle
from openpi_policy_ros.policies.pi0.processing import Processing
from openpi_policy_ros.policies.problems import Problems

logger = logging.getLogger('openpi_policy_ros.policies.pi0')

CAMERAS = tuple(
    f'observation.images.{name}' for name in ('base_0_rgb', 'left_wrist_0_rgb', 'right_wrist_0_rgb')
)
"""openpi's own names, written as LeRobot's features are, so that one robot file serves both."""
RESOLUTION = (224, 224)
MODES: dict[Family, str] = {'pi0': 'MEAN_STD', 'pi05': 'QUANTILES'}
"""Family → how openpi normalises."""
_MAX_TOKENS: dict[Family, int] = {'pi0': 48, 'pi05': 200}


class _OpenpiConfig(Section):
    """config.json as openpi's conversion script writes it."""

    model_config = ConfigDict(extra='ignore')

    action_dim: int = Field(ge=1)
    action_horizon: int = Field(ge=1, le=10_000)
    paligemma_variant: str
    action_expert_variant: str
    precision: str


def read_openpi_config(view: CheckpointView, options: Pi0Options | None) -> Pi0Config:
    """Return the configuration of a checkpoint that openpi converted to PyTorch.

    Widths of state and action are those of its statistics, where it has any that can be read.

    Args:
        view: the checkpoint's files.
        options: the policy file; its ``tokenizer_max_length`` counts, which the files do not say.

    Raises:
        CheckpointError: a file is missing or not JSON, or holds a value that cannot be served.
        SeveralErrors: several such values.

    """
    directory = view.located.directory
    path = directory / layouts.CONFIG
    raw = read_json(path)
    unknown = sorted(raw.keys() - _OpenpiConfig.model_fields.keys())
    if unknown:
        logger.warning('%s: fields not known here have no effect: %s', path, ', '.join(unknown))
    try:
        read = validate(_OpenpiConfig, raw, str(path))
    except ConfigurationError as error:
        raise CheckpointError(
            str(error),
            expected="all five values that openpi's conversion script writes",
            remedy='mend config.json; they are those of the training configuration',
        ) from None
    problems = Problems()
    for name in ('paligemma_variant', 'action_expert_variant'):
        with problems.collecting():
            _check_variant(name, getattr(read, name), str(path))
    if read.precision not in ('float32', 'bfloat16'):
        problems.add(
            CheckpointError(
                f'{path}: precision is {read.precision!r}',
                expected='float32 or bfloat16 (π0 breaks in float16)',
                remedy='set it in config.json; the weights are converted when they are loaded',
            )
        )
    problems.raise_any()
    family: Family = 'pi05' if layouts.openpi_type(view) == 'pi05' else 'pi0'
    mode = MODES[family]
    state_dim, action_dim = _widths(view, options, mode, read.action_dim)
    config = Pi0Config(
        vision=VisionSize(),
        language=VARIANTS[read.paligemma_variant],
        expert=VARIANTS[read.action_expert_variant],
        vocab_size=PALIGEMMA_VOCABULARY,
        paligemma_variant=read.paligemma_variant,
        action_expert_variant=read.action_expert_variant,
        image_resolution=RESOLUTION,
        image_features=CAMERAS,
        image_slots=len(CAMERAS),
        state_dim=state_dim,
        max_state_dim=read.action_dim,
        action_dim=action_dim,
        max_action_dim=read.action_dim,
        chunk_size=read.action_horizon,
        num_inference_steps=10,
        tokenizer_max_length=(options and options.tokenizer_max_length) or _MAX_TOKENS[family],
        min_period=0.004,
        max_period=4.0,
        dtype=read.precision,
        normalization={'VISUAL': IDENTITY_MODE, 'STATE': mode, 'ACTION': mode},
        action_names=(),
        rtc=RtcSettings(),
        family=family,
    )
    config = apply_overrides(config, directory / 'arch_overrides.json')
    check_sizes(config, directory)
    return config


def read_openpi_pipeline(
    view: CheckpointView,
    config: Pi0Config,
    options: Pi0Options,
    source: str,
    profile: Profile | None,
    problems: Problems,
) -> tuple[Processing, Pipeline | None]:
    """Return what surrounds the model, as a report and to be done; None = it was refused.

    Args:
        view: the checkpoint's files.
        config: of ``read_openpi_config``.
        options: the policy file.
        source: that file, for messages.
        profile: the robot file; says which actions are differences from the state.
        problems: gains everything that is refused.

    """
    processing = Processing()
    before = len(problems.errors)
    mode = config.normalization['STATE']
    pipeline = None
    with problems.collecting():
        _check_options(config, options, source)
    with problems.collecting():
        statistics = settle_statistics(view, options, source, mode, config.max_action_dim)
        if statistics is not None:
            processing.statistics = [statistics.source]
            processing.modes = [(statistics.source, kind, mode) for kind in ('STATE', 'ACTION')]
            _warn_of_degenerate(view, statistics)
        pipeline = replace(
            _pipeline(config, options, statistics),
            units=tuple((kind, how, file) for file, kind, how in processing.modes),
        )
    with problems.collecting():
        mask = _delta_mask(view, config, profile)
    if pipeline is None or len(problems.errors) > before:
        return processing, None
    return processing, replace(pipeline, delta_mask=mask)


def _check_variant(name: str, value: str, path: str) -> None:
    if value in VARIANTS:
        return
    if value.removesuffix('_lora') in VARIANTS:
        raise CheckpointError(
            f'{path}: {name} is {value!r}: trained with LoRA, whose adapters the conversion to '
            'PyTorch leaves out',
            expected=f'one of {", ".join(VARIANTS)}',
            remedy='add the adapters to the weights of the JAX checkpoint (w + a·b·alpha/rank) and '
            f'convert that with {name} {value.removesuffix("_lora")!r}',
        )
    raise CheckpointError(
        f'{path}: {name} is {value!r}',
        expected=f'one of {", ".join(VARIANTS)}',
        remedy='other sizes go into arch_overrides.json beside config.json',
    )


def _widths(
    view: CheckpointView, options: Pi0Options | None, mode: str, most: int
) -> tuple[int, int]:
    """Return (state, action): columns that mean something, all where nothing tells."""
    statistics = None
    # Whatever is wrong is told by read_openpi_pipeline, in order.
    with contextlib.suppress(CheckpointError, ConfigurationError):
        statistics = settle_statistics(view, options or Pi0Options(), '', mode, most)
    if statistics is None:
        return most, most
    return statistics.state_normalizer.origin.size, statistics.action_normalizer.origin.size


def _check_options(config: Pi0Config, options: Pi0Options, source: str) -> None:
    problems = []
    if options.legacy_padding:
        problems.append(
            'legacy_padding is true, but only LeRobot up to 0.4.4 drew such bars, never openpi; '
            'remove the line'
        )
    if options.discrete_state_input and config.family == 'pi0':
        problems.append(
            'discrete_state_input is true, but the tensors of this checkpoint are those of π0, '
            'which sees its state as numbers; remove the line'
        )
    if problems:
        raise ConfigurationError(source, problems)


def _pipeline(
    config: Pi0Config, options: Pi0Options, statistics: OpenpiStatistics | None
) -> Pipeline:
    """Return what openpi does around every model of this family; no action is a difference yet."""
    told = config.family == 'pi05' and options.discrete_state_input is not False
    return Pipeline(
        config.action_dim,
        state=statistics.state_normalizer if statistics else IDENTITY,
        actions=statistics.action_normalizer if statistics else IDENTITY,
        prompt=PromptStyle.STATE if told else PromptStyle.CLEANED,
        state_token=config.family == 'pi0',
        antialias=True,
    )


def _warn_of_degenerate(view: CheckpointView, statistics: OpenpiStatistics) -> None:
    still = statistics.degenerate()
    if still:
        logger.warning(
            '%s: %s: columns that never moved in the training data: %s; in the state, any other '
            'value there reaches the model as a huge one',
            view.model,
            statistics.source,
            ', '.join(still),
        )


def _delta_mask(
    view: CheckpointView, config: Pi0Config, profile: Profile | None
) -> tuple[bool, ...]:
    """Return [action_dim] which actions are differences from the state, as the robot file says."""
    mask = list(profile.delta_mask) if profile is not None else []
    space = profile.action_space if profile is not None else ''
    source = f'{view.model}: robot file'
    if not mask and not space.endswith('_velocity'):
        says = f'action_space is {space!r}' if space else 'there is no action_space'
        raise ConfigurationError(
            source,
            [
                f'profile.delta_mask is not set, and {says}: the files of an openpi checkpoint do '
                'not say which of its actions are differences from the state (DeltaActions of its '
                'training configuration does); write one true or false per column, all false where '
                'it answers absolute values'
            ],
        )
    problems = []
    if len(mask) > config.action_dim:
        problems.append(
            f'profile.delta_mask has {len(mask)} entries, but an action of this checkpoint has '
            f'{config.action_dim} columns'
        )
    without = [column for column, delta in enumerate(mask) if delta and column >= config.state_dim]
    if without:
        problems.append(
            f'profile.delta_mask is true for columns {without}, but the state has only '
            f'{config.state_dim} numbers to add'
        )
    if problems:
        raise ConfigurationError(source, problems)
    return tuple(column < len(mask) and mask[column] for column in range(config.action_dim))
