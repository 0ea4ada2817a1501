# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Find the helpers beside these tests, and prepare DDS as the tests of test/ros do."""

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Kept: its folder with the DDS profile lives as long as it does.
PREPARED = runpy.run_path(str(HERE.parent / 'ros' / 'conftest.py'))
sys.path.insert(0, str(HERE))
