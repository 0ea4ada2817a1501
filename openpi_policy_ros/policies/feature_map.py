# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which observation key carries which model input, settled once when a policy is loaded.

Three parties name things: the robot (``Profile.key_map``), the policy file or checkpoint
(renames), and the model (features). Anything that does not meet is refused here, at the start, so
that an observation can only fail by what it holds.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from openpi_policy_ros.configuration.robot import STATE_FEATURES, Profile
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.base import CameraSpec, StateSpec

logger = logging.getLogger('openpi_policy_ros.policies')

STATE, STATE_ALIAS = STATE_FEATURES


@dataclass(frozen=True)
class FeatureMap:
    """How a robot's observation becomes model features.

    Attributes:
        cameras: camera slots in model order. Of several wire keys an observation may hold one.
        state_parts: the state's parts, concatenated in order; each is a list of wire keys of which
            an observation holds exactly one.
        state_dim: widest state the model takes.
        state_exact: whether any other width than ``state_dim`` is refused, because the statistics
            it is normalised by have that many.
        least_state: fewest numbers of state the model can do with.
        time_axis: whether an image may have a leading time axis, oldest frame first.
        state_dims: numbers in each of ``state_parts``; None, or (), where any number will do.
        prompt_key: wire key of the instruction.
        default_prompt: used where an observation carries none; None = that is an error.
        layout: axis order of images on the wire.
        colour_order: channel order of images on the wire.
        ignore_keys: wire keys of images nobody has to read.

    """

    cameras: tuple[CameraSpec, ...]
    state_parts: tuple[tuple[str, ...], ...]
    state_dim: int
    prompt_key: str = 'prompt'
    default_prompt: str | None = None
    layout: Literal['HWC', 'CHW'] = 'HWC'
    colour_order: Literal['RGB', 'BGR'] = 'RGB'
    ignore_keys: frozenset[str] = frozenset()
    state_dims: tuple[int | None, ...] = ()
    state_exact: bool = False
    least_state: int = 1
    time_axis: bool = False

    @property
    def state(self) -> StateSpec:
        """Return the state as the doors see it: the first key of each part."""
        return StateSpec(tuple(part[0] for part in self.state_parts), self.state_dim)


def build_feature_map(
    *,
    image_features: Sequence[str],
    state_dim: int,
    state_exact: bool = False,
    least_state: int = 1,
    time_axis: bool = False,
    profile: Profile | None = None,
    renames: Mapping[str, str] | None = None,
    optional_cameras: Sequence[str] = (),
    default_prompt: str | None = None,
    source: str = 'feature map',
) -> FeatureMap:
    """Return the map from a robot's names to the model's.

    Args:
        image_features: the model's cameras, in its order.
        state_dim: widest state the model takes.
        state_exact: whether a narrower one is refused, too.
        least_state: fewest numbers of state; more than 1 where actions are differences from it.
        time_axis: whether an image may have a leading time axis.
        profile: the robot's conventions; None = the model's own names.
        renames: raw key → feature, applied to what the robot's key map leads to, or, without one,
            to the observation itself.
        optional_cameras: features that may be missing; a list in the profile replaces it.
        default_prompt: instruction for observations without one.
        source: for messages.

    Raises:
        ConfigurationError: every key that leads nowhere and every input that nothing leads to.

    """
    profile = profile or Profile()
    renames = renames or {}
    features = (*image_features, STATE)
    problems = [
        f'{raw!r} is renamed to {feature!r}, {_not_a_feature(feature, features)}'
        for raw, feature in renames.items()
        if feature not in features
    ]
    images: dict[str, list[str]] = {feature: [] for feature in image_features}
    state_parts: list[tuple[str, ...]] = []
    if profile.key_map:
        for wire_key, target in profile.pairs():
            feature = renames.get(target, target)
            if feature in (STATE, STATE_ALIAS):
                state_parts.append((wire_key,))
            elif feature in images:
                images[feature].append(wire_key)
            else:
                problems.append(
                    f'key_map leads {wire_key!r} to {feature!r}, '
                    + _not_a_feature(feature, features)
                )
        if not state_parts:
            problems.append(
                f'key_map leads nothing to {STATE}: add "<wire key> -> {STATE}" for each part of '
                'the state, in order'
            )
    else:
        for feature, keys in images.items():
            keys += [raw for raw, renamed in renames.items() if renamed == feature]
            keys.append(feature)
        aliases = (raw for raw, renamed in renames.items() if renamed == STATE)
        state_parts.append(_unique((STATE_ALIAS, STATE, *aliases)))

    problems += _width_problems(profile, state_dim, state_exact, least_state)
    optional = profile.optional_cameras
    if optional is None:
        optional = list(optional_cameras)
    strangers = [name for name in optional if name not in images]
    if strangers:
        # Harmless by itself: what it failed to name stays required. Shipped files list the base
        # model's cameras, which a fine-tune need not have.
        logger.warning(
            'optional_cameras names %s, which this checkpoint does not have (it has %s)',
            ', '.join(map(repr, strangers)),
            ', '.join(image_features),
        )
    problems += [
        f'key_map leads nothing to camera {feature!r}, which is required: add '
        f'"<wire key> -> {feature}", or list it in optional_cameras'
        for feature, keys in images.items()
        if not keys and feature not in optional
    ]
    if problems:
        raise ConfigurationError(source, problems)
    dims = dict(zip(profile.state_keys(), profile.state_dims, strict=False))
    return FeatureMap(
        cameras=tuple(
            CameraSpec(feature, _unique(keys), feature not in optional)
            for feature, keys in images.items()
        ),
        state_parts=tuple(state_parts),
        state_dim=state_dim,
        prompt_key=profile.prompt_key,
        default_prompt=default_prompt,
        layout=profile.layout,
        colour_order=profile.colour_order,
        ignore_keys=frozenset(profile.ignore_keys),
        state_dims=tuple(dims.get(part[0]) for part in state_parts),
        state_exact=state_exact,
        least_state=least_state,
        time_axis=time_axis,
    )


def _width_problems(
    profile: Profile, state_dim: int, state_exact: bool, least_state: int
) -> list[str]:
    """Return what is wrong with the numbers of state a robot file announces."""
    if least_state > state_dim:
        return [
            f'the checkpoint answers differences from {least_state} numbers of state, but takes at '
            f'most {state_dim}: its files contradict one another'
        ]
    if not profile.state_dims:
        return []
    width = sum(profile.state_dims)
    made = f'state_dims {profile.state_dims} makes {width} numbers of state'
    if width > state_dim:
        return [
            f'{made}, but the checkpoint takes {"" if state_exact else "at most "}{state_dim}: the '
            'robot file is wider than the checkpoint'
        ]
    if state_exact and width < state_dim:
        return [
            f'{made}, but the checkpoint normalises {state_dim}: the robot file is narrower than '
            'its statistics; send every number it was trained on, in their order'
        ]
    if width < least_state:
        return [
            f'{made}, but the actions of this checkpoint are differences from {least_state}: send '
            'every number it was trained on, in their order'
        ]
    return []


def _unique(keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(keys))


def _not_a_feature(name: str, features: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, features, n=1)
    hint = f'; did you mean {close[0]!r}?' if close else ''
    return f'which is no input of this checkpoint (it has {", ".join(features)}){hint}'
