# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a robot file says of the pictures that RViz and Foxglove draw."""

from __future__ import annotations

from pydantic import Field, field_validator

from openpi_policy_ros.configuration.schema import Section


class Visual(Section):
    """What the node draws of its chunks."""

    planned_path: bool = Field(
        default=True,
        description='Publish where the last chunk takes the tips of the arms on ~/planned_path, '
        'as far as the URDF on robot_description tells.',
    )
    tip_links: list[str] = Field(
        default_factory=list,
        description='Links of the URDF whose way is drawn. Absent: of each output, the link at '
        'the end of the fixed joints behind its last joint.',
    )
    frame_prefix: str = Field(
        default='',
        description='Stands before the names of links in TF, as robot_state_publisher was told '
        '(its parameter frame_prefix), e.g. left/.',
    )
    imagined_rate: float = Field(
        default=0.0,
        ge=0.0,
        le=30.0,
        description='Frames per second on ~/imagined of the future that the policy imagines with '
        'each chunk, where it does (imagined of the policy file); 0 = no such topic.',
    )

    @field_validator('tip_links')
    @classmethod
    def _different_links(cls, names: list[str]) -> list[str]:
        if '' in names or len(set(names)) != len(names):
            raise ValueError(f'expected different names of links, found {names}')
        return names
