# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The world: a Panda at a table with a cube, a bowl and two things nobody asks for.

Written for speed on a CPU: primitives only, about ten thousand triangles. The kinematics, limits,
masses and inertias of the arm are Franka's published ones (``franka_description``, robot FER); the
gripper has the stroke, the mass and the fingertip distance of DROID's Robotiq 2F-85, but two
parallel fingers that are coupled as one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from openpi_policy_ros_sim import constants as c

ARM = 'link'
OBJECTS: Final = ('cube', 'bowl', 'can', 'box')
DISTRACTORS: Final = ('can', 'box')
FOOTPRINT: Final = {'cube': 0.0312, 'bowl': 0.088, 'can': 0.028, 'box': 0.047}
"""Radius around the middle of each object that it fills, in m."""
REST_HEIGHT: Final = {'cube': c.CUBE_HALF, 'bowl': 0.0, 'can': 0.04, 'box': 0.03}
"""Height of each object's frame above the table when it stands there, in m."""
WRIST_CAMERA: Final = ('wrist_bracket', 'wrist_housing')
"""Geoms of the gripper that are not the gripper's."""


class _Link(NamedTuple):
    """One link: the joint's frame in its parent, and the published inertia."""

    position: str
    quaternion: str
    mass: float
    centre: str
    # xx yy zz xy xz yz
    inertia: str


_R = math.sqrt(0.5)
_PLUS, _MINUS = f'{_R} {_R} 0 0', f'{_R} {-_R} 0 0'
LINKS: Final = (
    _Link('0 0 0.333', '1 0 0 0', 2.7907, '0.00033 -0.02204 -0.04762',
          '0.01564782655 0.01439883526 0.00500443991 0.00000531236 -0.00003676721 -0.00248480843'),
    _Link('0 0 0', _MINUS, 2.5420, '0.00038 -0.09211 0.01908',
          '0.01662427728 0.00462501261 0.01545124526 0.00003086077 0.00000835940 0.00355899830'),
    _Link('0 -0.316 0', _PLUS, 2.2513, '0.05152 0.01696 -0.02971',
          '0.00631741992 0.00866285493 0.00657804051 0.00097309955 0.00292525834 0.00093469224'),
    _Link('0.0825 0 0', _PLUS, 2.2037, '-0.05113 0.05825 0.01698',
          '0.00784585566 0.00649543136 0.01003079917 -0.00339591957 0.00158704074 -0.00181477884'),
    _Link('-0.0825 0.384 0', _MINUS, 2.2855, '-0.00005 0.03730 -0.09280',
          '0.02297014781 0.02095060919 0.00430606551 -0.00000949345 -0.00002063156 0.00382345782'),
    _Link('0 0 0', _PLUS, 1.353, '0.06572 -0.00371 0.00153',
          '0.00087964522 0.00277796968 0.00286701969 -0.00021487814 -0.00011911662 0.00001274322'),
    _Link('0.088 0 0', _PLUS, 0.35973, '0.00089 -0.00044 0.05491',
          '0.00019541063 0.00019210361 0.00017936256 0.00000165231 0.00000148826 -0.00000131132'),
)  # fmt: skip

# Looks of each link, and what it bumps with. Lines: type, material, the rest.
_SHAPES: Final = {
    0: (
        'type="box" material="shell" pos="-0.035 0 0.03" size="0.095 0.075 0.03"',
        'type="cylinder" material="shell" fromto="0 0 0.04 0 0 0.14" size="0.072"',
        'type="cylinder" material="joint" fromto="0 0 0.14 0 0 0.150" size="0.066"',
    ),
    1: (
        'type="cylinder" material="shell" fromto="0 0 -0.183 0 0 -0.04" size="0.062"',
        'type="cylinder" material="shell" fromto="0 -0.075 0 0 0.055 0" size="0.062"',
        'type="cylinder" material="joint" fromto="0 0.055 0 0 0.066 0" size="0.055"',
    ),
    2: (
        'type="capsule" material="shell" fromto="0 -0.03 0.035 0 -0.12 0.03" size="0.058"',
        'type="cylinder" material="shell" fromto="0 -0.08 0 0 -0.19 0" size="0.060"',
        'type="cylinder" material="joint" fromto="0 -0.19 0 0 -0.2 0" size="0.056"',
    ),
    3: (
        'type="cylinder" material="shell" fromto="0 0 -0.116 0 0 -0.05" size="0.058"',
        'type="capsule" material="shell" fromto="0.01 0 -0.055 0.075 0.02 -0.01" size="0.055"',
        'type="cylinder" material="shell" fromto="0.0825 -0.05 0 0.0825 0.075 0" size="0.055"',
        'type="cylinder" material="joint" fromto="0.0825 0.075 0 0.0825 0.085 0" size="0.048"',
    ),
    4: (
        'type="capsule" material="shell" fromto="-0.01 0.02 0.04 -0.075 0.06 0.01" size="0.052"',
        'type="cylinder" material="shell" fromto="-0.0825 0.04 0 -0.0825 0.118 0" size="0.058"',
        'type="cylinder" material="joint" fromto="-0.0825 0.118 0 -0.0825 0.128 0" size="0.055"',
    ),
    5: (
        'type="cylinder" material="shell" fromto="0 0 -0.256 0 0 -0.2" size="0.058"',
        'type="capsule" material="shell" fromto="0 0.015 -0.2 0 0.07 -0.06" size="0.045"',
        'type="capsule" material="shell" fromto="0 0.07 -0.06 0 0.065 -0.01" size="0.045"',
        'type="cylinder" material="shell" fromto="0 -0.045 0 0 0.075 0" size="0.050"',
    ),
    6: (
        'type="capsule" material="shell" fromto="0.01 0 -0.01 0.075 0 0" size="0.048"',
        'type="cylinder" material="joint" fromto="0.088 -0.055 0 0.088 0.05 0" size="0.046"',
    ),
    7: (
        'type="cylinder" material="shell" fromto="0 0 0.05 0 0 0.095" size="0.045"',
        'type="cylinder" material="joint" fromto="0 0 0.095 0 0 0.107" size="0.038"',
    ),
}
_HEAD: Final = f"""
<mujoco model="droid">
  <!-- Link 4's published inertia breaks A + B >= C by 9 %: its axes get their mean. -->
  <compiler angle="radian" autolimits="true" balanceinertia="true"/>
  <option timestep="{c.TIMESTEP!r}" integrator="implicitfast" cone="elliptic" impratio="10"/>
  <visual>
    <global offwidth="1920" offheight="1080"/>
    <quality offsamples="0" shadowsize="1024" numslices="20" numstacks="10" numquads="1"/>
    <headlight ambient="0.36 0.36 0.36" diffuse="0.22 0.22 0.22" specular="0 0 0"/>
    <map znear="0.008" zfar="8"/>
  </visual>
  <statistic center="0.4 0 0.3" extent="1.2"/>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" rgb1="0.80 0.84 0.88"
      rgb2="0.52 0.56 0.60" width="64" height="384"/>
    <texture name="wood" type="2d" builtin="gradient" mark="random" random="0.25"
      rgb1="0.80 0.71 0.58" rgb2="0.74 0.65 0.52" markrgb="0.76 0.67 0.54"
      width="128" height="128"/>
    <texture name="tiles" type="2d" builtin="checker" rgb1="0.42 0.44 0.46" rgb2="0.46 0.48 0.50"
      width="64" height="64"/>
    <material name="table" texture="wood" texrepeat="3 3" specular="0.1" shininess="0.1"/>
    <material name="edge" rgba="0.50 0.42 0.33 1" specular="0"/>
    <material name="floor" texture="tiles" texrepeat="8 8" specular="0"/>
    <material name="shell" rgba="0.93 0.93 0.94 1" specular="0.3" shininess="0.4"/>
    <material name="joint" rgba="0.30 0.31 0.33 1" specular="0.2" shininess="0.3"/>
    <material name="dark" rgba="0.13 0.13 0.14 1" specular="0.3" shininess="0.4"/>
    <material name="pad" rgba="0.32 0.32 0.33 1" specular="0"/>
    <material name="red" rgba="0.86 0.07 0.07 1" specular="0.15" shininess="0.2"/>
    <material name="blue" rgba="0.12 0.30 0.80 1" specular="0.2" shininess="0.3"/>
    <material name="green" rgba="0.16 0.55 0.30 1" specular="0.2" shininess="0.3"/>
    <material name="yellow" rgba="0.93 0.76 0.20 1" specular="0.1" shininess="0.2"/>
    <material name="metal" rgba="0.75 0.76 0.78 1" specular="0.5" shininess="0.6"/>
  </asset>
  <default>
    <geom solref="0.01 1" friction="0.8 0.005 0.0001" contype="1" conaffinity="3"/>
    <default class="arm">
      <!-- Against table and things, not against itself. -->
      <geom contype="2" conaffinity="1" mass="0"/>
      <joint armature="0.1"/>
    </default>
    <default class="pad">
      <geom type="box" contype="2" conaffinity="1" mass="0.005" condim="4" priority="1"
        friction="1.5 0.02 0.0001" solimp="0.95 0.99 0.001" solref="0.006 1" material="pad"/>
    </default>
    <default class="picture">
      <geom contype="0" conaffinity="0" mass="0"/>
    </default>
  </default>
"""
_FURNITURE: Final = """
    <light directional="true" pos="0.2 -0.6 2.5" dir="0.15 0.35 -1" castshadow="true"
      diffuse="0.42 0.42 0.40" ambient="0 0 0" specular="0.15 0.15 0.15"/>
    <light directional="true" pos="1.5 1 2.5" dir="-0.6 -0.4 -1" castshadow="false"
      diffuse="0.20 0.20 0.22" ambient="0 0 0" specular="0 0 0"/>
    <geom name="floor" type="plane" material="floor" pos="0 0 -0.75" size="3 3 0.1"/>
    <geom name="table" type="box" material="table" pos="0.35 0 -0.02" size="0.60 0.75 0.02"
      friction="0.9 0.005 0.0001"/>
    <geom class="picture" type="box" material="edge" pos="0.35 0 -0.075" size="0.55 0.70 0.035"/>
    <geom class="picture" type="box" material="edge" pos="-0.17 0.67 -0.4" size="0.03 0.03 0.35"/>
    <geom class="picture" type="box" material="edge" pos="-0.17 -0.67 -0.4" size="0.03 0.03 0.35"/>
    <geom class="picture" type="box" material="edge" pos="0.87 0.67 -0.4" size="0.03 0.03 0.35"/>
    <geom class="picture" type="box" material="edge" pos="0.87 -0.67 -0.4" size="0.03 0.03 0.35"/>
"""
# Seen from the flange: z is where the fingers point, they open along y, the camera sits at +x.
# Its pose relative to the gripper is sim-evals', whose gripper frame has x, y, −z for z, y, x.
_GRIPPER: Final = f"""
<body name="gripper" pos="0 0 {c.FLANGE}" gravcomp="1" childclass="arm">
  <inertial pos="0 0 0.055" mass="0.86" diaginertia="0.0012 0.0010 0.0006"/>
  <geom type="cylinder" material="metal" fromto="0 0 0 0 0 0.014" size="0.037"/>
  <geom type="cylinder" material="dark" fromto="0 0 0.014 0 0 0.045" size="0.037"/>
  <geom type="box" material="dark" pos="0 0 0.067" size="0.021 0.055 0.024"/>
  <geom name="{WRIST_CAMERA[0]}" type="box" material="dark" pos="0.052 0 -0.004"
    size="0.018 0.02 0.005"/>
  <geom name="{WRIST_CAMERA[1]}" type="box" material="metal" pos="0.075 0 -0.010"
    size="0.012 0.062 0.013"/>
  <camera name="wrist" pos="0.074 -0.031 0.011" fovy="{c.WRIST_FOVY}"
    xyaxes="-0.0176 0.9998 0.0022 0.9496 0.0160 0.3130"/>
  <site name="tool" pos="0 0 {c.TOOL}" size="0.004" group="4"/>
  {{fingers}}
</body>
"""
_FINGER: Final = """
<body name="{name}" gravcomp="1">
  <inertial pos="0 {y} 0.125" mass="0.03" diaginertia="0.00001 0.00001 0.000004"/>
  <joint name="{name}" type="slide" axis="0 {axis} 0" range="0 {stroke}" damping="180"
    armature="0.05"/>
  <geom type="box" material="dark" pos="0 {knuckle} 0.106" size="0.011 0.008 0.016"/>
  <geom type="box" material="metal" pos="0 {back} 0.137" size="0.010 0.004 0.021"/>
  <geom name="{name}_pad" class="pad" pos="0 {pad} 0.143" size="0.011 0.004 0.017"/>
</body>
"""
_CAN: Final = """
<body name="can" pos="0.5 0.3 0.04">
  <freejoint name="can"/>
  <geom name="can" type="cylinder" material="green" size="0.028 0.04" mass="0.2"/>
  <geom class="picture" type="cylinder" material="metal" pos="0 0 0.0405" size="0.025 0.001"/>
</body>
"""
_BOX: Final = """
<body name="box" pos="0.6 0.3 0.03">
  <freejoint name="box"/>
  <geom name="box" type="box" material="yellow" size="0.038 0.026 0.03" mass="0.2"/>
  <geom class="picture" type="box" material="joint" size="0.0384 0.008 0.0304"/>
</body>
"""
_TAIL: Final = """
  <equality>
    <joint joint1="left_finger" joint2="right_finger" polycoef="0 1 0 0 0" solref="0.005 1"/>
  </equality>
"""


def mirrored_quaternion(quaternion: tuple[float, ...]) -> tuple[float, ...]:
    """Return the orientation w, x, y, z of a camera mirrored in y (its picture's x flips too).

    With M = diag(1, −1, 1) and F = diag(−1, 1, 1) the mirrored frame is M R F. A reflection on
    both sides is a rotation again: M R F = (M R M) (M F), of which the first factor has the
    quaternion (w, −x, y, −z) and the second is half a turn about z.
    """
    w, x, y, z = quaternion
    w, x, y, z = w, -x, y, -z
    return (-z, y, -x, w)


def _numbers(values: tuple[float, ...]) -> str:
    return ' '.join(f'{value:.6g}' for value in values)


def _bowl() -> Iterator[str]:
    """Yield the bowl: a floor, and two rings of boxes, the upper one steeper."""
    segments = 20
    thickness = 0.003
    yield """
<body name="bowl" pos="0.47 -0.27 0">
  <freejoint name="bowl"/>
  <inertial pos="0 0 0.02" mass="0.35" diaginertia="0.0009 0.0009 0.0014"/>
  <geom type="cylinder" material="blue" pos="0 0 0.004" size="0.052 0.004" mass="0"/>"""
    profile = ((0.050, 0.006), (0.070, 0.024), (c.BOWL_RIM, c.BOWL_HEIGHT))
    for (low, bottom), (high, top) in pairwise(profile):
        radius, height = (low + high) / 2, (bottom + top) / 2
        half = math.hypot(high - low, top - bottom) / 2
        slope = math.atan2(high - low, top - bottom)
        half_width = (high + 2 * thickness) * math.tan(math.pi / segments)
        for index in range(segments):
            turn = 2 * math.pi * index / segments
            # The inner face lies on the profile: the box's middle is half a thickness outside.
            middle = radius + thickness * math.cos(slope)
            position = (
                middle * math.cos(turn),
                middle * math.sin(turn),
                height - thickness * math.sin(slope),
            )
            half_turn, half_slope = turn / 2, slope / 2
            quaternion = (
                math.cos(half_turn) * math.cos(half_slope),
                -math.sin(half_turn) * math.sin(half_slope),
                math.cos(half_turn) * math.sin(half_slope),
                math.sin(half_turn) * math.cos(half_slope),
            )
            yield (
                f'  <geom type="box" material="blue" pos="{_numbers(position)}" mass="0" '
                f'quat="{_numbers(quaternion)}" '
                f'size="{_numbers((thickness, half_width, half + 0.001))}"/>'
            )
    yield '</body>'


def _finger(name: str, side: int) -> str:
    """Return one finger; side is the sign of its y."""
    return _FINGER.format(
        name=name,
        axis=-side,
        stroke=c.STROKE,
        y=side * c.STROKE,
        pad=side * (c.STROKE + 0.004),
        back=side * (c.STROKE + 0.012),
        knuckle=side * (c.STROKE + 0.012),
    )


def _arm() -> str:
    """Return base, seven links and gripper, one inside the other."""
    inner = _GRIPPER.format(fingers=_finger('left_finger', 1) + _finger('right_finger', -1))
    for number, link in reversed(list(enumerate(LINKS, start=1))):
        shapes = ''.join(f'<geom {shape}/>' for shape in _SHAPES[number])
        inner = f"""
<body name="{ARM}{number}" pos="{link.position}" quat="{link.quaternion}" gravcomp="1">
  <inertial pos="{link.centre}" mass="{link.mass}" fullinertia="{link.inertia}"/>
  <joint name="{c.JOINT_NAMES[number - 1]}" axis="0 0 1"
    range="{c.LOWER[number - 1]} {c.UPPER[number - 1]}"/>
  {shapes}{inner}
</body>"""
    base = ''.join(f'<geom {shape}/>' for shape in _SHAPES[0])
    inertia = (
        '<inertial pos="-0.0172 0.0004 0.0745" mass="2.3966" '
        'fullinertia="0.0090 0.0115 0.0085 0 0.0020 0"/>'
    )
    return f'<body name="{ARM}0" childclass="arm">{inertia}{base}{inner}</body>'


def _cameras() -> str:
    x, y, z = c.EXTERIOR_POSITION
    second = mirrored_quaternion(c.EXTERIOR_QUATERNION)
    return f"""
    <camera name="exterior_1" pos="{x} {y} {z}" fovy="{c.EXTERIOR_FOVY}"
      quat="{_numbers(c.EXTERIOR_QUATERNION)}"/>
    <camera name="exterior_2" pos="{x} {-y} {z}" fovy="{c.EXTERIOR_FOVY}"
      quat="{_numbers(second)}"/>"""


def _actuators() -> Iterator[str]:
    yield '<actuator>'
    for index, name in enumerate(c.JOINT_NAMES):
        yield (
            f'  <position name="{name}" joint="{name}" kp="{c.STIFFNESS}" kv="{c.DAMPING}" '
            f'ctrlrange="{c.LOWER[index]} {c.UPPER[index]}" '
            f'forcerange="-{c.TORQUE[index]} {c.TORQUE[index]}"/>'
        )
    # Saturates at once, so that the fingers' damping sets their speed and this their grip.
    yield (
        f'  <position name="gripper" joint="left_finger" kp="6000" ctrlrange="0 {c.STROKE}" '
        'forcerange="-40 40"/>'
    )
    yield '</actuator>'


def build_xml() -> str:
    """Return the model as MJCF."""
    size = _numbers((c.CUBE_HALF,) * 3)
    cube = f"""
<body name="cube" pos="0.47 0.05 {c.CUBE_HALF}">
  <freejoint name="cube"/>
  <geom name="cube" type="box" material="red" size="{size}" mass="{c.CUBE_MASS}" condim="4"
    friction="1.0 0.01 0.0001"/>
</body>"""
    world = [_FURNITURE, _cameras(), _arm(), cube, *_bowl(), _CAN, _BOX]
    return '\n'.join(
        [_HEAD, '<worldbody>', *world, '</worldbody>', _TAIL, *_actuators(), '</mujoco>']
    )
