# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A DROID setup in MuJoCo: Franka Panda, two-finger gripper, three cameras, stepped at 15 Hz.

The package drives policies and judges them; ``openpi_policy_ros`` never imports it.
"""
