# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a policy says of a checkpoint whose weights it did not read: facts, and refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from openpi_policy_ros.policies.base import PolicySpec
from openpi_policy_ros.policies.feature_map import FeatureMap
from openpi_policy_ros.policies.problems import Problems


@dataclass
class PolicyReport:
    """What is known of a checkpoint; what is None or empty hangs on something refused.

    Attributes:
        problems: everything that loading would refuse, and what it kept from being checked.
        features: which observation key carries which input.
        image_resolution: (height, width) the model sees.
        camera_slots: cameras it has room for.
        max_state_dim: width of the model's state input, the checkpoint's own padded.
        chunk: (rows, columns) of the model's own chunk, uncropped.
        spec: what the doors would see, ``weights_hash`` left out; its handshake is the one sent.
        normalisation: feature type → mode, of those that are done and not IDENTITY.
        statistics: where their statistics come from.
        state_exact: whether the state has to be as wide as its statistics; None = not known.
        delta_mask: per column of the uncropped chunk, whether it is a difference from the state;
            () = none is.
        prompt_text: how an instruction becomes the model's text.
        antialias: whether images are scaled down with an antialiasing filter; None = not known.
        processors: names of the processor steps, in order.
        tokenizer: where it comes from.
        max_tokens: most tokens of an instruction.
        dtype: what is computed in.
        served_parameters: of the stored ones, how many are loaded.
        steps: sampler steps of a call that does not say.
        facts: what else is worth telling, short name → text.

    """

    problems: Problems
    features: FeatureMap | None = None
    image_resolution: tuple[int, int] | None = None
    camera_slots: int | None = None
    max_state_dim: int | None = None
    chunk: tuple[int, int] | None = None
    spec: PolicySpec | None = None
    normalisation: Mapping[str, str] | None = None
    statistics: tuple[str, ...] = ()
    state_exact: bool | None = None
    delta_mask: tuple[bool, ...] = ()
    prompt_text: str = ''
    antialias: bool | None = None
    processors: tuple[str, ...] | None = None
    tokenizer: str = ''
    max_tokens: int | None = None
    dtype: str = ''
    served_parameters: int | None = None
    steps: int | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
