# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Run the command line as a module: ``python -m openpi_policy_ros.cli``."""

import sys

from openpi_policy_ros.cli import main

sys.exit(main())
