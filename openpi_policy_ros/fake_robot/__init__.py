# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot that is not there: the sensors and controllers that a robot file names.

``main`` is its ROS shell, everything else in here knows no ROS.
"""
