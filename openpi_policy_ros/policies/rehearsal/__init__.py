# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``policy: rehearsal``: no model, only a gentle motion to rehearse a robot with."""

from openpi_policy_ros.policies.registry import PolicyPlugin
from openpi_policy_ros.policies.rehearsal.options import RehearsalOptions
from openpi_policy_ros.policies.rehearsal.policy import load

PLUGIN = PolicyPlugin(
    load=load, option_names=tuple(RehearsalOptions.model_fields), needs_model=False
)
