# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The OpenPI protocol without I/O: codec, handshake, session state machine, dialects."""
