# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Write a small, seeded, complete checkpoint of the π0 family, in every layout that is read.

Its actions mean nothing, but every file, name and code path is the real one: demos, tests and
benchmarks run on it where nobody can download gigabytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.pi0.config import (
    Family,
    GemmaSize,
    Pi0Config,
    RtcSettings,
    VisionSize,
)
from openpi_policy_ros.policies.pi0.demo_tokenizer import MAX_ENTRIES, SPECIALS, build_tokenizer
from openpi_policy_ros.policies.pi0.demo_weights import random_weights, write_weights
from openpi_policy_ros.policies.pi0.layout import tensors
from openpi_policy_ros.policies.pi0.write_lerobot import (
    drawn_statistics,
    lerobot_weights,
    write_lerobot,
)
from openpi_policy_ros.policies.pi0.write_openpi import openpi_weights, write_openpi
from openpi_policy_ros.policies.registry import CheckpointOptions

LEROBOT, LEROBOT_OLD, OPENPI = LAYOUTS = ('lerobot', 'lerobot-0.4', 'openpi')
NORMALIZATIONS = ('identity', 'mean_std', 'min_max', 'quantiles', 'quantile10')
DTYPES = ('float32', 'bfloat16')
_CAMERAS = ('base_0_rgb', 'left_wrist_0_rgb', 'right_wrist_0_rgb')
_MOST = 32
"""Widest state and action of the base models."""
_DEMO_WIDTH = 8
"""State and action where their units matter: those of a seven-joint arm and its gripper."""


def _config(vision: VisionSize, language: GemmaSize, expert: GemmaSize) -> Pi0Config:
    return Pi0Config(
        vision=vision,
        language=language,
        expert=expert,
        vocab_size=MAX_ENTRIES,
        paligemma_variant='gemma_2b',
        action_expert_variant='gemma_300m',
        image_resolution=(224, 224),
        image_features=_features(_CAMERAS),
        image_slots=len(_CAMERAS),
        state_dim=_MOST,
        max_state_dim=_MOST,
        action_dim=_MOST,
        max_action_dim=_MOST,
        chunk_size=50,
        num_inference_steps=10,
        tokenizer_max_length=48,
        min_period=0.004,
        max_period=4.0,
        dtype='float32',
        normalization=_modes('identity'),
        action_names=(),
        rtc=RtcSettings(),
    )


def _features(cameras: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f'observation.images.{name}' for name in cameras)


def _modes(normalization: str) -> dict[str, str]:
    mode = normalization.upper()
    return {'VISUAL': 'IDENTITY', 'STATE': mode, 'ACTION': mode}


SIZES: Mapping[str, Pi0Config] = {
    # 1.7 MB: every part is there, nothing takes time.
    'small': _config(
        VisionSize(48, 2, 96, 4, 14),
        GemmaSize(64, 3, 128, 8, 1, 16),
        GemmaSize(32, 3, 64, 8, 1, 16),
    ),
    # About 200 MB in float32: matrix products outweigh the overhead, as in the real model.
    'medium': _config(
        VisionSize(384, 6, 1536, 6, 14),
        GemmaSize(512, 8, 2048, 8, 1, 64),
        GemmaSize(256, 8, 1024, 8, 1, 64),
    ),
}


def make_checkpoint(
    directory: Path,
    size: str,
    seed: int,
    options: CheckpointOptions | None = None,
    *,
    family: Family = 'pi0',
) -> None:
    """Write a checkpoint; equal arguments give equal files.

    Size, family and seed alone decide the network: it is the same one in every layout.

    Args:
        directory: created; must not hold anything yet.
        size: one of ``SIZES``.
        seed: of the random weights and statistics, 0 to 2**64 − 1.
        options: layout, normalisation and what else the files are to say. Their defaults: LeRobot
            0.6, one file, float32, the cameras of the base model; identity for ``pi0`` in LeRobot's
            layouts, mean_std for ``pi0`` in openpi's, quantiles for ``pi05``; 32 numbers of state
            and action where they stay as they are, else 8 (seven joints and a gripper).
        family: ``pi0`` or ``pi05``.

    Raises:
        ConfigurationError: unknown size, seed out of range, options that no writer of that layout
            could have written, or the directory cannot be used; every problem in one message.

    """
    options = options or CheckpointOptions()
    problems = []
    if size not in SIZES:
        problems.append(f'size is {size!r}; expected one of {", ".join(SIZES)}')
    if not 0 <= seed < 2**64:
        problems.append(f'seed is {seed}; expected 0 to 2**64 - 1')
    if directory.is_dir() and any(directory.iterdir()):
        problems.append(f'{directory} is not empty; name a new directory, nothing is overwritten')
    problems += _unknown(options) or _senseless(options, family)
    if problems:
        raise ConfigurationError('make-checkpoint', problems)
    config = checkpoint_config(size, options, family)
    shards = options.shards or 1
    if shards > (count := len(tensors(config))):
        problem = f'shards is {shards}; expected at most {count}, one per tensor'
        raise ConfigurationError('make-checkpoint', [problem])
    try:
        _write(directory, config, seed, options.layout or LEROBOT, options.relative, shards)
    except OSError as error:
        raise ConfigurationError(
            'make-checkpoint', [f'{directory} cannot be written: {error}']
        ) from None


def checkpoint_config(size: str, options: CheckpointOptions, family: Family) -> Pi0Config:
    """Return what a checkpoint of these options reads back as."""
    normalization = _normalization(options, family)
    state, action = _widths(options, normalization)
    cameras = options.cameras or _CAMERAS
    names = (*(f'joint_{number}' for number in range(1, action)), 'gripper')
    return replace(
        SIZES[size],
        family=family,
        image_features=_features(cameras),
        image_slots=len(cameras),
        state_dim=state,
        action_dim=action,
        tokenizer_max_length=200 if family == 'pi05' else 48,
        dtype=options.dtype or 'float32',
        normalization=_modes(normalization),
        # LeRobot names the columns for the sake of those that stay absolute.
        action_names=names if options.relative else (),
    )


def _write(
    directory: Path, config: Pi0Config, seed: int, layout: str, relative: bool, shards: int
) -> None:
    (directory / 'tokenizer').mkdir(parents=True)
    write_sizes_and_tokenizer(directory, config)
    weights = random_weights(config, seed)
    if layout == OPENPI:
        write_openpi(directory, config, seed)
        stored, metadata = openpi_weights(config, weights)
    else:
        old = layout == LEROBOT_OLD
        statistics = drawn_statistics(config, seed, relative=relative)
        write_lerobot(directory, config, statistics, old=old, relative=relative)
        stored, metadata = lerobot_weights(config, weights, old=old)
    # Last: a directory without weights refuses to load, half of one never passes for whole.
    write_weights(directory, stored, metadata, shards)


def write_sizes_and_tokenizer(directory: Path, config: Pi0Config) -> None:
    """Write what every layout has: the sizes, and a tokenizer in its folder, which exists."""
    _write_json(directory / 'arch_overrides.json', _arch_overrides(config))
    build_tokenizer().save(str(directory / 'tokenizer' / 'tokenizer.json'))
    _write_json(directory / 'tokenizer' / 'tokenizer_config.json', _TOKENIZER_CONFIG)


def _normalization(options: CheckpointOptions, family: Family) -> str:
    if options.normalization is not None:
        return options.normalization
    if family == 'pi05':
        return 'quantiles'
    return 'mean_std' if options.layout == OPENPI else 'identity'


def _widths(options: CheckpointOptions, normalization: str) -> tuple[int, int]:
    """Return (state, action)."""
    unchanged = normalization == 'identity' and not options.relative
    default = _MOST if unchanged else _DEMO_WIDTH
    return options.state_dim or default, options.action_dim or default


def _unknown(options: CheckpointOptions) -> list[str]:
    """Return what is wrong with each option by itself."""
    problems = [
        f'{name} is {value!r}; expected one of {", ".join(known)}'
        for name, value, known in (
            ('layout', options.layout, LAYOUTS),
            ('normalization', options.normalization, NORMALIZATIONS),
            ('dtype', options.dtype, DTYPES),
        )
        if value is not None and value not in known
    ]
    problems += [
        f'{name} is {value}; expected 1 to {_MOST}'
        for name, value in (('state_dim', options.state_dim), ('action_dim', options.action_dim))
        if value is not None and not 1 <= value <= _MOST
    ]
    if options.shards is not None and options.shards < 1:
        problems.append(f'shards is {options.shards}; expected at least 1')
    bad = [name for name in options.cameras if not re.fullmatch(r'[A-Za-z0-9_]+', name)]
    if bad:
        problems.append(
            f'cameras {bad}: expected names of letters, digits and _, without observation.images.'
        )
    if len(set(options.cameras)) < len(options.cameras):
        problems.append(f'cameras {list(options.cameras)} names one twice')
    empty = [name for name in options.cameras if name.startswith('empty_camera')]
    if empty:
        problems.append(f'cameras {empty}: such a name stands for a camera that has no image')
    return problems


def _senseless(options: CheckpointOptions, family: Family) -> list[str]:
    """Return which options no training could have written together, and why."""
    problems = []
    normalization = _normalization(options, family)
    if options.layout == OPENPI:
        natural = 'quantiles' if family == 'pi05' else 'mean_std'
        if normalization != natural:
            problems.append(
                f'normalization is {normalization}, but openpi normalises {family} by {natural} '
                'and its files cannot say otherwise; leave it out, or use a layout of LeRobot'
            )
        if (options.shards or 1) > 1:
            problems.append(
                f"shards is {options.shards}, but openpi's converter writes one file; leave it out"
            )
        if options.cameras:
            problems.append(
                f'cameras is {list(options.cameras)}, but every openpi checkpoint has '
                f'{", ".join(_CAMERAS)} and its files name none; leave it out'
            )
    if options.relative:
        reason = {
            OPENPI: "the files of an openpi checkpoint cannot say it; write the robot file's "
            'profile.delta_mask instead',
            LEROBOT_OLD: 'LeRobot 0.4 knew no relative actions; use the layout lerobot',
        }.get(options.layout or LEROBOT)
        if reason:
            problems.append(f'relative: {reason}')
        state, action = _widths(options, normalization)
        if not reason and state < action:
            problems.append(
                f'relative: {action} actions cannot be differences from a state of {state}; '
                'expected a state_dim of at least action_dim'
            )
    return problems


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + '\n', encoding='utf-8')


def _arch_overrides(config: Pi0Config) -> dict[str, Any]:
    vision = config.vision
    return {
        'vocab_size': config.vocab_size,
        'paligemma': asdict(config.language),
        'action_expert': asdict(config.expert),
        'vision': {
            'hidden_size': vision.width,
            'num_hidden_layers': vision.depth,
            'num_attention_heads': vision.num_heads,
            'intermediate_size': vision.mlp_dim,
            'patch_size': vision.patch_size,
        },
        'projection_dim': config.language.width,
    }


_TOKENIZER_CONFIG = {
    'bos_token': SPECIALS[2],
    'eos_token': SPECIALS[1],
    'pad_token': SPECIALS[0],
    'padding_side': 'right',
    'tokenizer_class': 'PreTrainedTokenizerFast',
    'unk_token': SPECIALS[3],
}
