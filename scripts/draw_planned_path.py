#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Draw the picture of docs/visualisation.md: the markers of a chunk, beside the arm they belong to.

The robot, its URDF, forward kinematics and markers are the real ones; only the chunk is made up.
Needs matplotlib and ROS 2 (or its wheels): python scripts/draw_planned_path.py OUT.png
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import matplotlib

matplotlib.use('Agg')

import numpy as np
import visualization_msgs.msg as markers
from matplotlib import pyplot
from matplotlib.ticker import MultipleLocator

from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.control.kinematics import KinematicTree
from openpi_policy_ros.control.planned_path import PathPlanner
from openpi_policy_ros.policies.base import ActionChunk, PolicySpec, StateSpec
from openpi_policy_ros.ros.planned_path import ABOVE, path_messages

URDF = Path(__file__).resolve().parents[1] / 'test' / 'data' / 'fr3' / 'fr3.urdf'
JOINTS = [f'fr3_joint{i}' for i in range(1, 8)]
START = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
GOAL = np.array([0.75, 0.25, 0.0, -2.15, 0.0, 2.3, 0.785])
STEPS, SHOWN = 24, (0, 23)


def main(out: str) -> None:
    """Write the picture."""
    eased = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, STEPS + 1)[1:, None])
    arm = START + (GOAL - START) * eased
    arm[:, 1] -= 0.35 * np.sin(np.pi * eased[:, 0])
    rows = np.hstack([arm, np.ones((STEPS, 1))]).astype(np.float32)
    planner = PathPlanner(load_robot('fr3'), _spec())
    urdf = URDF.read_text(encoding='utf-8')
    planner.describe(urdf)
    paths = planner.plan(ActionChunk({'actions': rows}), {})
    line, dots = path_messages(markers, paths, planner.frame, 0, 1)

    figure = pyplot.figure(figsize=(6.0, 5.0), dpi=110)
    axes = figure.add_subplot(projection='3d')
    for step, shade in zip(SHOWN, ('0.3', '0.85'), strict=True):
        links = _skeleton(urdf, dict(zip(JOINTS, arm[step], strict=True)))
        axes.plot(*links.T, color=shade, linewidth=5, solid_capstyle='round')
        axes.scatter(*links.T, color='white', edgecolor=shade, s=22, depthshade=False)
    points = np.array([(point.x, point.y, point.z) for point in line.points])
    colours = [(one.r, one.g, one.b, one.a) for one in line.colors]
    for piece, colour in zip(pairwise(points), colours, strict=False):
        axes.plot(*np.transpose(piece), color=colour, linewidth=2)
    axes.scatter(
        *np.array([(point.x, point.y, point.z) for point in dots.points]).T,
        color=[(one.r, one.g, one.b, one.a) for one in dots.colors],
        s=36,
        depthshade=False,
    )
    axes.text(
        *(points[0] + np.array([0.0, 0.0, ABOVE])),
        'DRY_RUN',
        ha='center',
        bbox={'facecolor': 'white', 'edgecolor': 'none', 'alpha': 0.85, 'pad': 1.5},
        zorder=100,
    )
    axes.set(xlim=(-0.1, 0.7), ylim=(-0.3, 0.5), zlim=(0, 0.8))
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_major_locator(MultipleLocator(0.2))
    axes.set(xlabel='x, m', ylabel='y, m', zlabel='z, m', title=f'{line.ns}, seen from base')
    axes.set_box_aspect((1, 1, 1))
    axes.view_init(elev=24, azim=-72)
    figure.tight_layout()
    figure.savefig(out)


def _skeleton(urdf: str, positions: dict[str, float]) -> np.ndarray:
    tree = KinematicTree(urdf)
    chain = tree.chain('fr3_hand_tcp')
    links = [chain.root, *(joint.child for joint in chain.joints)]
    return np.array([tree.chain(link).poses(positions)[1] for link in links])


def _spec() -> PolicySpec:
    return PolicySpec(
        name='drawn',
        model='',
        cameras=(),
        state=StateSpec(('state',), 8),
        horizon=STEPS,
        action_dim=8,
        action_space='joint_position',
        action_names=tuple(f'column_{i}' for i in range(8)),
        output_shapes={'actions': (STEPS, 8)},
        handshake=None,
    )


if __name__ == '__main__':
    main(sys.argv[1])
