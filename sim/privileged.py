# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What only a simulator knows, and under which keys it tells a policy that asks for it.

A policy asks in its handshake: ``privileged_keys: ["sim/cube_pose", …]``. No real robot has these,
so nothing is sent that was not asked for.
"""

from __future__ import annotations

from typing import Final

PRIVILEGED_KEYS: Final = 'privileged_keys'
"""Key of the handshake."""
POSES: Final = {
    'sim/cube_pose': 'cube',
    'sim/bowl_pose': 'bowl',
    'sim/can_pose': 'can',
    'sim/box_pose': 'box',
}
"""Key → attribute of ``State``: float32 [7], position in m and quaternion w, x, y, z."""
