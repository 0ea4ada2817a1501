# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint's files ask for around the model, as they say it: nothing is decided here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openpi_policy_ros.policies.normalization import LEROBOT_EPS

PREPROCESSOR = 'policy_preprocessor.json'
POSTPROCESSOR = 'policy_postprocessor.json'


@dataclass(frozen=True)
class NormalizerStep:
    """How a step (un)normalises.

    Attributes:
        file: of the processor.
        modes: feature type → mode; one that is not named is ``IDENTITY``.
        eps: its own.
        features: feature → type, those it knows.
        only: the observation features it is restricted to; None = all.
        state_file: name of its statistics beside the processor's file.

    """

    file: str
    modes: Mapping[str, str]
    eps: float = LEROBOT_EPS
    features: Mapping[str, str] = field(default_factory=dict)
    only: frozenset[str] | None = None
    state_file: str | None = None

    def skips(self, feature: str) -> bool:
        """Return whether it leaves an observation feature as it is, whatever the modes say."""
        return self.only is not None and feature not in self.only


@dataclass(frozen=True)
class RelativeStep:
    """Which actions are differences from the state.

    Attributes:
        enabled: whether any is.
        exclude: parts of names whose columns are absolute.
        names: of the action columns; None = not known, no column is excluded.

    """

    enabled: bool = False
    exclude: tuple[str, ...] = ()
    names: tuple[str, ...] | None = None


@dataclass
class Processing:
    """What a checkpoint's files ask for, nothing decided.

    Attributes:
        rename_map: raw observation key → feature.
        action_names: labels of the action columns, or ().
        steps: names of the steps, those of both files in order.
        modes: (file, feature type, mode) of every normalisation that is not IDENTITY.
        statistics: files of statistics.
        tokenizer_name: hub repository the tokenizer was fetched from; None = not said.
        max_length: tokens the prompt is padded to; None = not said.
        preprocessor: whether there is such a file.
        normalizer: of LeRobot's preprocessor.
        unnormalizer: of LeRobot's postprocessor.
        relative: of LeRobot's preprocessor.
        absolute: whether LeRobot's postprocessor adds the state; None = it has no such step.
        newline: whether a step ends the instruction with a newline.
        config_relative: ``use_relative_actions`` of config.json; None = not said.
        norm_stats: statistics in config.json itself; None = there are none.
        complete: whether all of it could be read.

    """

    rename_map: dict[str, str] = field(default_factory=dict)
    action_names: tuple[str, ...] = ()
    steps: list[str] = field(default_factory=list)
    modes: list[tuple[str, str, str]] = field(default_factory=list)
    statistics: list[str] = field(default_factory=list)
    tokenizer_name: str | None = None
    max_length: int | None = None
    preprocessor: bool = False
    normalizer: NormalizerStep | None = None
    unnormalizer: NormalizerStep | None = None
    relative: RelativeStep | None = None
    absolute: bool | None = None
    newline: bool = False
    config_relative: bool | None = None
    norm_stats: Any = None
    complete: bool = True
