# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The only code that calls a policy: queue, worker, sessions, output guard, timing."""
