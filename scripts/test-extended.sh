#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
# Run the suite together with the tests that take minutes. By hand, before a release.
set -euo pipefail
export OPENPI_EXTENDED=1
exec "$(dirname "${BASH_SOURCE[0]}")/test.sh" "$@"
