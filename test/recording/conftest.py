# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Helpers beside the tests."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
