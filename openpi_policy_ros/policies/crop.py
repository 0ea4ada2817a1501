# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Cut a policy's chunk to what the robot file says, and refuse what it cannot be cut to."""

from __future__ import annotations

from openpi_policy_ros.configuration.robot import Profile


def crop_chunk(profile: Profile, rows: int, columns: int) -> tuple[int, int, list[str]]:
    """Return (rows, columns) of a reply, and what is wrong with the profile.

    Args:
        profile: the robot's conventions; ``crop_rows`` and ``crop_columns`` cut.
        rows, columns: of the checkpoint's own chunk, after its files' cut.

    """
    problems = [
        f'{name} is {crop}, but a chunk of this checkpoint has only {real} {what}'
        for name, crop, real, what in (
            ('profile.crop_rows', profile.crop_rows, rows, 'rows'),
            ('profile.crop_columns', profile.crop_columns, columns, 'columns'),
        )
        if crop is not None and crop > real
    ]
    columns = min(profile.crop_columns or columns, columns)
    names = profile.action_names
    if names and len(names) != columns and not problems:
        problems.append(
            f'profile.action_names has {len(names)} entries, but a reply has {columns} columns; '
            'set profile.crop_columns, or name every column'
        )
    return min(profile.crop_rows or rows, rows), columns, problems
