# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A chunk leads the tips where forward kinematics say, and what cannot be told is named."""

from __future__ import annotations

from typing import Any

import franka
import numpy as np
import pytest
from fakes import make_spec

from openpi_policy_ros.configuration.robot import RobotConfig, load_robot
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.control.kinematics import KinematicTree
from openpi_policy_ros.control.planned_path import PathPlanner, PathUnknown
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.base import ActionChunk

RATE = 15.0
ARM = {
    'type': 'trajectory',
    'topic': 'arm',
    'joints': franka.JOINTS,
    'action_indices': list(range(7)),
}
HAND = {
    'type': 'gripper',
    'topic': 'hand',
    'joints': ['fr3_finger_joint1'],
    'action_indices': [7],
}
MEASURED = {**dict(zip(franka.JOINTS, franka.READY, strict=True)), 'fr3_finger_joint1': 0.02}
TWO_ARMS = """<robot name="two">
  <link name="world"/><link name="l1"/><link name="l2"/><link name="r1"/><link name="r2"/>
  <joint name="lift" type="prismatic"><parent link="world"/><child link="l1"/>
    <axis xyz="0 0 1"/></joint>
  <joint name="left" type="revolute"><parent link="l1"/><child link="l2"/>
    <origin xyz="1 0 0"/><axis xyz="0 0 1"/></joint>
  <joint name="right" type="prismatic"><parent link="world"/><child link="r1"/>
    <origin xyz="0 -1 0"/><axis xyz="1 0 0"/></joint>
  <joint name="tool" type="fixed"><parent link="r1"/><child link="r2"/><origin xyz="0 0 1"/></joint>
</robot>"""


def make_robot(outputs: dict[str, Any] | None = None, **changes: Any) -> RobotConfig:
    names = [*franka.JOINTS, 'fr3_finger_joint1']
    outputs = {'arm': ARM, 'hand': HAND} if outputs is None else outputs
    values = {
        'joints': {'names': names, 'keys': ['state']},
        'timing': {'action_rate': RATE},
        'output_names': list(outputs),
        'outputs': outputs,
        **changes,
    }
    return validate(RobotConfig, values, 'test')


def planner(robot: RobotConfig, urdf: str = franka.URDF, **spec: Any) -> PathPlanner:
    made = PathPlanner(robot, make_spec(10, 8, **spec))
    made.describe(urdf)
    return made


def chunk(rows: Any) -> ActionChunk:
    return ActionChunk({'actions': np.asarray(rows, np.float32)})


def moving_rows(seed: int = 1) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.asarray(random.uniform(-1.0, 1.0, (10, 8)), np.float32)


def test_positions_lead_the_tip_where_the_table_of_the_maker_says() -> None:
    rows = moving_rows()
    (path,) = planner(make_robot()).plan(chunk(rows), {})
    assert (path.output, path.link) == ('arm', 'fr3_hand_tcp')
    expected = [franka.dh_pose(row[:7].astype(float))[:3, 3] for row in rows]
    np.testing.assert_allclose(path.points, expected, atol=1e-9)


def test_columns_are_in_the_order_of_the_robot_file_and_scaled_as_it_says() -> None:
    order = [3, 1, 0, 2, 6, 5, 4]
    joints = {
        'names': [*franka.JOINTS, 'fr3_finger_joint1'],
        'keys': ['state'],
        'scale': [2.0, -1.0, *[1.0] * 6],
        'offset': [0.5, *[0.0] * 7],
    }
    robot = make_robot({'arm': {**ARM, 'action_indices': order}}, joints=joints)
    rows = moving_rows()
    (path,) = planner(robot).plan(chunk(rows), {})
    angles = rows.astype(float)[:, order]
    angles[:, 0] = (angles[:, 0] - 0.5) / 2.0
    angles[:, 1] = -angles[:, 1]
    expected = [franka.dh_pose(row)[:3, 3] for row in angles]
    np.testing.assert_allclose(path.points, expected, atol=1e-9)


def test_velocities_are_summed_up_from_where_the_joints_were_measured() -> None:
    robot = make_robot({'arm': {**ARM, 'type': 'array'}})
    rows = moving_rows()
    (path,) = planner(robot, action_space='joint_velocity').plan(chunk(rows), MEASURED)
    angles = np.array(franka.READY) + np.cumsum(rows.astype(float)[:, :7] / RATE, axis=0)
    expected = [franka.dh_pose(row)[:3, 3] for row in angles]
    np.testing.assert_allclose(path.points, expected, atol=1e-9)


def test_velocities_without_a_measured_joint_are_no_path() -> None:
    robot = make_robot({'arm': {**ARM, 'type': 'array'}})
    made = planner(robot, action_space='joint_velocity')
    for wrong in ({}, {'fr3_joint3': float('nan')}):
        measured = {k: v for k, v in MEASURED.items() if k != 'fr3_joint3'} | wrong
        with pytest.raises(PathUnknown, match='position of fr3_joint3 is not measured'):
            made.plan(chunk(moving_rows()), measured)


def test_a_joint_on_the_way_that_no_action_moves_is_where_it_was_measured() -> None:
    outputs = {
        'left': {'type': 'array', 'topic': 'l', 'joints': ['left'], 'action_indices': [0]},
        'right': {'type': 'array', 'topic': 'r', 'joints': ['right'], 'action_indices': [1]},
    }
    joints = {'names': ['left', 'right'], 'keys': ['state']}
    visual = {'frame_prefix': 'two/'}
    made = planner(make_robot(outputs, joints=joints, visual=visual), TWO_ARMS)
    assert made.frame == 'two/world'
    assert made.links == ('l2', 'r2')
    rows = moving_rows()
    left, right = made.plan(chunk(rows), {'lift': 0.25})
    assert (left.output, right.output) == ('left', 'right')
    np.testing.assert_allclose(left.points, np.tile([1.0, 0.0, 0.25], (10, 1)))
    expected = [[x, -1.0, 1.0] for x in rows.astype(float)[:, 1]]
    np.testing.assert_allclose(right.points, expected)
    with pytest.raises(PathUnknown, match='position of lift is not measured'):
        made.plan(chunk(rows), {'left': 0.0})


def test_links_that_the_robot_file_names_are_drawn_instead() -> None:
    visual = {'tip_links': ['fr3_link4', 'fr3_leftfinger']}
    made = planner(make_robot(visual=visual))
    elbow, finger = made.plan(chunk(moving_rows()), MEASURED)
    assert [elbow.link, finger.link] == visual['tip_links']
    assert elbow.output == finger.output == 'arm'
    tree = KinematicTree(franka.URDF)
    angles = dict(zip(franka.JOINTS, moving_rows().astype(float)[:, :7].T, strict=True))
    expected = tree.chain('fr3_leftfinger').poses({**angles, 'fr3_finger_joint1': 0.02})[1]
    np.testing.assert_allclose(finger.points, expected, atol=1e-9)


@pytest.mark.parametrize(
    ('tips', 'named'),
    [
        (['fr3_hand_tcp', 'tcp'], "visual.tip_links: has no link 'tcp'"),
        (['fr3_link0'], "visual.tip_links: no joint of a chunk moves 'fr3_link0'"),
    ],
)
def test_a_named_link_that_cannot_be_drawn_is_refused(tips: list[str], named: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        planner(make_robot(visual={'tip_links': tips}))
    assert caught.value.problems == (named,)


def test_without_outputs_the_joints_of_each_observation_key_have_a_tip() -> None:
    robot = load_robot('droid').model_copy()
    urdf = franka.URDF.replace('fr3_joint', 'panda_joint')
    made = planner(robot, urdf, action_space='joint_velocity')
    assert made.links == ('fr3_hand_tcp',)
    jointpos = planner(load_robot('droid_jointpos'), urdf)
    assert jointpos.links == ('fr3_hand_tcp',)
    assert jointpos.left_out == (
        "joints of 'observation/gripper_position': the URDF has no joint 'finger_joint'",
    )


@pytest.mark.parametrize(
    ('before', 'after', 'named'),
    [
        ('fr3_joint4', 'other', "outputs.arm: the URDF has no joint 'fr3_joint4'"),
        (
            'name="fr3_joint4" type="revolute"',
            'name="fr3_joint4" type="fixed"',
            "outputs.arm: the URDF has 'fr3_joint4' fixed",
        ),
        (
            'name="fr3_base_joint" type="fixed"',
            'name="fr3_base_joint" type="floating"',
            "outputs.arm: 'fr3_base_joint' is floating between base and fr3_hand_tcp",
        ),
    ],
)
def test_a_urdf_that_does_not_lead_to_the_tip_is_refused_with_the_reason(
    before: str, after: str, named: str
) -> None:
    made = planner(make_robot())
    assert before in franka.URDF
    with pytest.raises(ConfigurationError) as caught:
        made.describe(franka.URDF.replace(before, after))
    assert caught.value.problems[0].startswith(named)
    assert made.links == ()


def test_a_commanded_joint_that_mimics_another_is_named() -> None:
    outputs = {
        'finger': {
            'type': 'array',
            'topic': 'f',
            'joints': ['fr3_finger_joint2'],
            'action_indices': [7],
        }
    }
    joints = {'names': ['fr3_finger_joint2'], 'keys': ['state']}
    with pytest.raises(ConfigurationError, match="'fr3_finger_joint2' mimic 'fr3_finger_joint1'"):
        planner(make_robot(outputs, joints=joints))


@pytest.mark.parametrize(
    ('robot', 'space', 'named'),
    [
        (make_robot(), 'cartesian_position', "the action space is 'cartesian_position'"),
        (make_robot(), '', 'the action space is not declared'),
        (make_robot({}), 'joint_position', 'names no joint for any action'),
        (make_robot({'hand': HAND}), 'joint_position', 'names no joint for any action'),
    ],
)
def test_chunks_that_say_nothing_of_joints_are_told_beforehand(
    robot: RobotConfig, space: str, named: str
) -> None:
    made = PathPlanner(robot, make_spec(10, 8, action_space=space))
    assert named in made.joints.why_not
    assert PathPlanner(make_robot(), make_spec(10, 8)).joints.why_not == ''


def test_velocities_of_a_robot_without_outputs_are_scaled_as_velocities() -> None:
    rows = moving_rows()
    urdf = franka.URDF.replace('fr3_joint', 'panda_joint')
    measured = {f'panda_joint{i + 1}': angle for i, angle in enumerate(franka.READY)}
    (path,) = planner(load_robot('droid'), urdf, action_space='joint_velocity').plan(
        chunk(rows), measured
    )
    # 1 is 3 rad/s: DROID's largest step of 0.2 rad, 15 times a second.
    angles = np.array(franka.READY) + np.cumsum(rows.astype(float)[:, :7] * 3.0 / RATE, axis=0)
    expected = [franka.dh_pose(row)[:3, 3] for row in angles]
    np.testing.assert_allclose(path.points, expected, atol=1e-9)


def test_a_named_link_belongs_to_the_output_of_the_joint_nearest_to_it() -> None:
    wrist = {'type': 'array', 'topic': 'w', 'joints': ['fr3_joint7'], 'action_indices': [6]}
    arm = {**ARM, 'joints': franka.JOINTS[:6], 'action_indices': list(range(6))}
    robot = make_robot({'wrist': wrist, 'arm': arm}, visual={'tip_links': ['fr3_hand_tcp']})
    (path,) = planner(robot).plan(chunk(moving_rows()), {})
    assert path.output == 'wrist'
    robot = make_robot({'arm': arm, 'wrist': wrist}, visual={'tip_links': ['fr3_link5']})
    (path,) = planner(robot).plan(chunk(moving_rows()), {})
    assert path.output == 'arm'
