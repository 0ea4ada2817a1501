# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a machine lacks to serve a policy and drive a robot, and what to do about it.

Each module looks at one thing: a function that gathers facts, and functions that judge them, which
tests call with facts of their own. Nothing of it changes the machine.
"""
