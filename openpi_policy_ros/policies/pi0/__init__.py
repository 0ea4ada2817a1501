# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""π0: images, state and an instruction to a chunk of actions, by flow matching."""
