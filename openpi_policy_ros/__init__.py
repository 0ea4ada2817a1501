# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Serve vision-language-action policies over OpenPI WebSocket and ROS 2."""

__version__ = '0.1.0'
