# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot side without ROS: images, joint map, sensor buffers, chunks."""
