# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Account for every tensor of a checkpoint by its header, before any weight is read.

A tensor that is missing, unknown or of another shape refuses: a network that is random in one
layer still answers, and moves a robot.
"""

from __future__ import annotations

import re

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies import layouts
from openpi_policy_ros.policies.pi0.config import Family, Pi0Config
from openpi_policy_ros.policies.pi0.layout import EMBEDDING, EXPERT_HEAD, PALIGEMMA_HEAD, tensors
from openpi_policy_ros.policies.weight_files import Header

_NAMES = {'pi0': 'π0', 'pi05': 'π0.5'}
FLOAT_BYTES = {'F32': 4, 'BF16': 2, 'F16': 2}
"""Types that weights may have, as safetensors names them → bytes of a value."""

_LISTED = 8
_INSERT_MODEL = re.compile(
    r'^(paligemma_with_expert\.paligemma\.)(vision_tower|multi_modal_projector|language_model)\.'
)


def canonical(name: str, family: Family) -> str:
    """Return the name a tensor has in ``layout.tensors``, whatever version of whatever wrote it.

    ``time_mlp_*`` is an old name of π0's ``action_time_mlp_*``, and π0.5's own of another MLP.
    """
    name = name.removeprefix('model.')
    if family == 'pi0':
        name = re.sub(r'^time_mlp_', 'action_time_mlp_', name)
    name = _INSERT_MODEL.sub(r'\1model.\2.', name)
    return re.sub(r'\.vision_tower\.(?!vision_model\.)', '.vision_tower.vision_model.', name)


def match_tensors(header: Header, config: Pi0Config, source: str) -> dict[str, str]:
    """Return canonical name → name in the file, every tensor accounted for.

    Args:
        header: what the file holds.
        config: sizes it has to fit.
        source: the file, for messages.

    Raises:
        CheckpointError: every tensor that is missing, unknown, wrongly shaped or of a type that
            is not a float.

    """
    if layouts.has_buffers(header):
        raise layouts.LEROBOT_BUFFERS.refusal(source)
    slots = tensors(config)
    sources: dict[str, str] = {}
    problems: list[str] = []
    for stored in sorted(header):
        name = canonical(stored, config.family)
        if name in sources:
            problems.append(f'{stored}: the same tensor as {sources[name]}')
        sources[name] = stored
    # Head and embeddings are one table: whoever saves it once may do so under either name.
    optional = {EXPERT_HEAD, EMBEDDING if PALIGEMMA_HEAD in sources else PALIGEMMA_HEAD}
    missing = sorted(slots.keys() - sources.keys() - optional)
    unexpected = sorted(sources[name] for name in sources.keys() - slots.keys())
    if missing:
        problems.append(f'{len(missing)} missing: {_listing(missing)}')
    if unexpected:
        problems.append(f'{len(unexpected)} unexpected: {_listing(unexpected)}')
    wrong = []
    for name in sorted(sources.keys() & slots.keys()):
        info = header[sources[name]]
        if info.shape != slots[name].shape:
            wrong.append(
                f'{sources[name]} is {list(info.shape)}, expected {list(slots[name].shape)}'
            )
        if info.dtype not in FLOAT_BYTES:
            wrong.append(
                f'{sources[name]} is {info.dtype}, expected one of {", ".join(FLOAT_BYTES)}'
            )
    if wrong:
        problems.append(f'{len(wrong)} of wrong shape or type: {_listing(wrong)}')
    if problems:
        raise CheckpointError(
            '\n  - '.join(
                [f'{source} does not fit a {_NAMES[config.family]} of these sizes', *problems]
            ),
            remedy='check that config.json (and arch_overrides.json) belong to these weights, or '
            'copy the checkpoint again',
        )
    return sources


def _listing(items: list[str]) -> str:
    rest = len(items) - _LISTED
    return ', '.join(items[:_LISTED]) + (f', and {rest} more' if rest > 0 else '')
