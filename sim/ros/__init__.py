# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The simulator as a ROS 2 robot: topics, a clock, controllers; and episodes driven by the node."""
