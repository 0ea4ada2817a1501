# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy whose chunk tells what it was given, for tests that run the node in its own process.

Column by column, row i of a chunk holds: mean of the first image, mean of the second, length of the
prompt, seed (−1 = none), session number, first joint, gripper, i. Some prompts make it misbehave;
a model called history looks back 8 action steps, and its means go over both frames.
"""

from __future__ import annotations

import time

import numpy as np
from droid_policy import IMAGES, STATE, WIDTH, DroidPolicy

from openpi_policy_ros.errors import CheckpointError, InvalidObservation
from openpi_policy_ros.policies.base import (
    ACTIONS,
    ActionChunk,
    InferenceRequest,
    InferenceResult,
    Policy,
)
from openpi_policy_ros.policies.registry import LoadRequest, PolicyPlugin

HORIZON = 4
RAISES, NOT_FINITE, REFUSED = 'raise', 'nan', 'refuse'
"""Prompts that make the policy raise, return NaN, and refuse the observation."""


class DigestPolicy(DroidPolicy):
    """Answers with a digest of the observation."""

    def __init__(self, wanted: LoadRequest) -> None:
        profile = wanted.profile
        self._warm_up = 30.0 if 'slow' in wanted.model else 0.0
        super().__init__(
            wanted,
            'digest',
            HORIZON,
            action_space='joint_velocity' if profile is None else profile.action_space,
            handshake={'action_horizon': HORIZON, 'action_dim': WIDTH},
            revision='r1',
            weights_hash='c0ffee',
            default_prompt=(wanted.options or {}).get('default_prompt', ''),
            history_offsets=(-8, 0) if 'history' in wanted.model else (),
        )

    def warm_up(self) -> None:
        """Take long if the model's name says so."""
        time.sleep(self._warm_up)

    def answer(self, one: InferenceRequest) -> InferenceResult:
        """Digest the request."""
        seen = one.observation
        if seen['prompt'] == RAISES:
            raise RuntimeError('the device fell off the bus')
        if seen['prompt'] == REFUSED:
            return InvalidObservation('prompt', 'is not to our taste', expected='another')
        for key in IMAGES:
            assert seen[key].dtype == np.uint8, key
            assert seen[key].shape[-1] == 3, key
        for key in STATE:
            assert seen[key].dtype == np.float32, key
        numbers = [
            seen[IMAGES[0]].mean(),
            seen[IMAGES[1]].mean(),
            len(seen['prompt']),
            -1.0 if one.seed is None else one.seed,
            int(one.session.session_id),
            seen[STATE[0]][0],
            seen[STATE[1]][0],
        ]
        actions = np.empty((HORIZON, WIDTH), np.float32)
        actions[:, :-1] = np.nan if seen['prompt'] == NOT_FINITE else numbers
        actions[:, -1] = range(HORIZON)
        return ActionChunk({ACTIONS: actions}, timing_ms={'model': 0.1})


def load(wanted: LoadRequest) -> Policy:
    """Return the policy; a model called broken has no weights."""
    if 'broken' in wanted.model:
        raise CheckpointError(f'{wanted.model} has no weights', remedy='download them')
    return DigestPolicy(wanted)


PLUGIN = PolicyPlugin(load=load)
