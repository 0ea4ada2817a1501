# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Write what was observed, answered and commanded into rosbag2 folders, and play it back."""
