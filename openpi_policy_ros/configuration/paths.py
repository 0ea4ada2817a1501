# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The paths every server has; further ones are aliases (``ServerConfig.path_aliases``)."""

OPENPI_PATH = '/v1/realtime/robot/openpi'
STOCK_PATH = '/'
ALIVE_PATH = '/healthz'
READY_PATH = '/readyz'

FIXED_PATHS = (OPENPI_PATH, STOCK_PATH, ALIVE_PATH, READY_PATH)
