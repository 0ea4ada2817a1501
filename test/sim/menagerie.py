# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Write folders that are laid out as mujoco_menagerie's, with small boxes for meshes."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Final

from openpi_policy_ros_sim.scene import LINKS

CENTRE: Final = (0.02, 0.01, 0.05)
"""Of each box in the coordinates of its file, m."""
_CORNERS = list(product((-1, 1), repeat=3))
_FACES: Final = (
    (1, 2, 4, 3), (5, 7, 8, 6), (1, 5, 6, 2), (3, 4, 8, 7), (1, 3, 7, 5), (2, 6, 8, 4)
)  # fmt: skip


def write_box(file: Path, half: float = 0.03, centre: tuple[float, ...] = CENTRE) -> None:
    """Write a cube as OBJ."""
    file.parent.mkdir(parents=True, exist_ok=True)
    corners = [
        [middle + half * sign for middle, sign in zip(centre, corner, strict=True)]
        for corner in _CORNERS
    ]
    lines = [f'v {x} {y} {z}' for x, y, z in corners]
    lines += ['f ' + ' '.join(map(str, face)) for face in _FACES]
    file.write_text('\n'.join(lines) + '\n', encoding='utf-8')


def write_panda(folder: Path, *, name: str = 'panda.xml') -> Path:
    """Write an arm: two boxes on link 0, one on each other, one to collide with; return its MJCF.

    Link 4's is turned by a quarter about z and moved by 1 cm along x.
    """
    meshes = ['link0_0', *(f'link{number}' for number in range(1, len(LINKS) + 1)), 'hand_0']
    for mesh in meshes:
        write_box(folder / 'assets' / f'{mesh}.obj')
    inner = '<body name="hand"><geom class="visual" mesh="hand_0"/></body>'
    for number, link in reversed(list(enumerate(LINKS, start=1))):
        placed = ' pos="0.01 0 0" quat="1 0 0 1"' if number == 4 else ''
        inner = f"""<body name="link{number}" pos="{link.position}" quat="{link.quaternion}">
          <inertial mass="9" pos="0 0 0" diaginertia="1 1 1"/>
          <joint name="joint{number}" axis="0 0 1"/>
          <geom class="visual" mesh="link{number}" material="white"{placed}/>
          <geom class="collision" mesh="link{number}_c"/>{inner}</body>"""
    assets = ''.join(f'<mesh file="{mesh}.obj"/>' for mesh in meshes)
    unneeded = ''.join(f'<mesh file="link{number}_c.stl"/>' for number in range(1, len(LINKS) + 1))
    file = folder / name
    file.write_text(
        f"""<mujoco model="panda">
  <compiler angle="radian" meshdir="assets"/>
  <default>
    <default class="visual"><geom type="mesh" contype="0" conaffinity="0"/></default>
    <default class="collision"><geom type="mesh"/></default>
  </default>
  <asset><material name="white" rgba="0.2 0.9 0.3 1"/>{assets}{unneeded}</asset>
  <worldbody><body name="link0">
    <geom class="visual" mesh="link0_0"/>
    <geom class="visual" mesh="link0_0" rgba="0.9 0.2 0.9 1" pos="0.1 0 0"/>{inner}
  </body></worldbody>
</mujoco>
""",
        encoding='utf-8',
    )
    return file


def write_gripper(folder: Path, *, plate: str = '1 0 0 1') -> Path:
    """Write a gripper of small cubes around their bodies' origins; return its MJCF.

    Args:
        folder: its own.
        plate: quaternion of the plate between flange and housing, in which versions differ.

    """
    parts = ('base_mount', 'base', 'driver', 'coupler', 'spring_link', 'follower', 'pad')
    for part in (*parts, 'silicone_pad'):
        write_box(folder / 'assets' / f'{part}.obj', half=10.0, centre=(0.0, 0.0, 0.0))

    def body(name: str, position: str, inner: str = '', joint: str = '', turn: str = '') -> str:
        mesh = name.partition('_')[2] if name.startswith(('left', 'right')) else name
        hinge = f'<joint axis="1 0 0" pos="{joint}"/>' if joint else ''
        return (
            f'<body name="{name}" pos="{position}"{turn}>{hinge}'
            f'<geom class="visual" mesh="{mesh}"/>{inner}</body>'
        )

    sides = ''
    for side, sign, turn in (('right', 1, ''), ('left', -1, ' quat="0 0 0 1"')):
        pads = body(f'{side}_pad', '0 -0.0189 0.01352', body(f'{side}_silicone_pad', '0 0 0'))
        follower = body(f'{side}_follower', '0 0.055 0.0375', pads, '0 -0.018 0.0065')
        coupler = body(f'{side}_coupler', '0 0.0315 -0.0041', joint='0 0 0')
        sides += body(f'{side}_driver', f'0 {sign * 0.0306} 0.0549', coupler, '0 0 0', turn)
        sides += body(f'{side}_spring_link', f'0 {sign * 0.0132} 0.0609', follower, '0 0 0', turn)
    base = body('base', '0 0 0.0038', sides, turn=' quat="1 0 0 -1"')
    root = body('base_mount', '0 0 0.007', base, turn=f' quat="{plate}"')
    assets = ''.join(
        f'<mesh class="gripper" file="{part}.obj"/>' for part in (*parts, 'silicone_pad')
    )
    file = folder / '2f85.xml'
    file.write_text(
        f"""<mujoco model="gripper">
  <compiler angle="radian" meshdir="assets" autolimits="true"/>
  <asset>{assets}</asset>
  <default><default class="gripper"><mesh scale="0.001 0.001 0.001"/>
    <default class="visual"><geom type="mesh" contype="0" conaffinity="0"/></default>
  </default></default>
  <worldbody>{root}</worldbody>
</mujoco>
""",
        encoding='utf-8',
    )
    return file
