# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Typed configuration: one frozen object per file, validated when loaded, never checked again."""
