# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot file becomes what RViz and Foxglove open, and the shipped files are such."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from openpi_policy_ros.cli import main
from openpi_policy_ros.cli.layout_foxglove import foxglove_layout
from openpi_policy_ros.cli.layout_rviz import rviz_config
from openpi_policy_ros.cli.layout_scene import Scene
from openpi_policy_ros.configuration.files import config_directory
from openpi_policy_ros.configuration.robot import load_robot

ROBOTS = sorted(
    path.stem for path in config_directory().glob('*.yaml') if '/**:' in path.read_text('utf-8')
)
# What each panel and display of these names needs; Humble, Jazzy and Kilted have all of them.
PANELS = {'3D', 'Image', 'CallService', 'RawMessages', 'Publish', 'Plot'}
PANELS |= {'DiagnosticSummary', 'DiagnosticStatusPanel'}
DISPLAYS = {'Grid', 'RobotModel', 'TF', 'MarkerArray', 'Image'}


def rviz(robot: str, *scene: str) -> Any:
    return yaml.safe_load(rviz_config(Scene(load_robot(robot), *scene)))['Visualization Manager']


def foxglove(robot: str, *scene: str) -> Any:
    return json.loads(foxglove_layout(Scene(load_robot(robot), *scene)))


def display(config: Any, kind: str) -> list[Any]:
    found = [one for one in config['Displays'] if one['Class'] == f'rviz_default_plugins/{kind}']
    assert found, kind
    return found


def panels(layout: Any, kind: str) -> list[Any]:
    found = [one for key, one in layout['configById'].items() if key.startswith(f'{kind}!')]
    assert found, kind
    return found


def shown(node: Any) -> Iterator[str]:
    """Yield the panels of a tree, from left to right."""
    if isinstance(node, str):
        yield node
        return
    assert node['direction'] in ('row', 'column')
    assert 0 < node['splitPercentage'] < 100
    yield from shown(node['first'])
    yield from shown(node['second'])


@pytest.mark.parametrize(
    ('form', 'file'),
    [('rviz', 'rviz/openpi_policy.rviz'), ('foxglove', 'foxglove/openpi_policy.json')],
)
def test_the_shipped_files_are_what_the_command_prints_for_droid(
    form: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['layout', '--robot', 'droid', '--format', form, '--frame', 'panda_link0']) == 0
    assert capsys.readouterr().out == (config_directory() / file).read_text(encoding='utf-8')


@pytest.mark.parametrize('robot', ROBOTS)
def test_rviz_shows_the_cameras_the_robot_and_the_path_of_every_robot_file(robot: str) -> None:
    config = rviz(robot, '', 'base')
    file = load_robot(robot)
    assert config['Global Options']['Fixed Frame'] == 'base'
    assert {one['Class'].split('/')[1] for one in config['Displays']} <= DISPLAYS
    if file.camera_names:
        images = display(config, 'Image')
        assert [one['Name'] for one in images] == file.camera_names
        for one in images:
            topic = one['Topic']
            assert topic['Value'] == f'/{file.cameras[one["Name"]].topic}'
            # Sensor drivers publish best effort: a reliable subscriber would hear nothing.
            assert topic['Reliability Policy'] == 'Best Effort'
    (model,) = display(config, 'RobotModel')
    assert model['Description Topic']['Value'] == '/robot_description'
    assert model['Description Topic']['Durability Policy'] == 'Transient Local'
    (path,) = display(config, 'MarkerArray')
    assert path['Topic']['Value'] == '/openpi_policy/planned_path'
    assert path['Topic']['Durability Policy'] == 'Volatile'


@pytest.mark.parametrize('robot', ROBOTS)
def test_foxglove_shows_every_panel_once_and_one_for_each_camera(robot: str) -> None:
    layout = foxglove(robot)
    places = list(shown(layout['layout']))
    assert sorted(places) == sorted(layout['configById'])
    assert {place.split('!')[0] for place in places} <= PANELS
    file = load_robot(robot)
    if file.camera_names:
        topics = [one['imageMode']['imageTopic'] for one in panels(layout, 'Image')]
        assert topics == [f'/{file.cameras[name].topic}' for name in file.camera_names]


def test_foxglove_plots_the_chunk_by_joint_and_has_the_buttons_of_the_node() -> None:
    layout = foxglove('droid', '/left')
    chunk, joints = panels(layout, 'Plot')
    names = load_robot('droid').joints.names
    assert [line['label'] for line in chunk['paths']] == names[:7]
    assert chunk['paths'][2]['value'] == '/left/openpi_policy/action_chunk.points[:].velocities[2]'
    assert chunk['xAxisVal'] == 'index'
    assert [line['value'] for line in joints['paths']] == [
        f'/left/joint_states.position[{i}]' for i in range(8)
    ]
    assert [
        (one['serviceName'], one['requestPayload']) for one in panels(layout, 'CallService')
    ] == [
        ('/left/openpi_policy/enable', '{"data": true}'),
        ('/left/openpi_policy/enable', '{"data": false}'),
        ('/left/openpi_policy/hold', '{}'),
        ('/left/openpi_policy/reset', '{}'),
    ]
    (space,) = panels(layout, '3D')
    assert space['topics'] == {'/left/openpi_policy/planned_path': {'visible': True}}
    assert space['layers']['robot']['topic'] == '/left/robot_description'
    (prompt,) = panels(layout, 'Publish')
    assert (prompt['topicName'], json.loads(prompt['value'])) == (
        '/left/prompt',
        {'data': 'pick up the block'},
    )


def test_a_robot_whose_chunks_hold_no_joints_has_all_numbers_plotted(tmp_path: Path) -> None:
    file = tmp_path / 'plain.yaml'
    file.write_text(
        '/**:\n  ros__parameters:\n    profile: {action_space: cartesian_position}\n'
        '    camera_names: [a]\n'
        '    cameras: {a: {topic: /cam/image/compressed, transport: compressed, key: a}}\n'
        '    visual: {planned_path: false, frame_prefix: left/}\n'
    )
    layout = foxglove(str(file), 'left/')
    (plot,) = panels(layout, 'Plot')
    assert [line['value'] for line in plot['paths']] == [
        '/left/openpi_policy/action_chunk_array.data[:]'
    ]
    (space,) = panels(layout, '3D')
    assert space['topics'] == {}
    assert space['layers']['robot']['framePrefix'] == 'left/'
    config = rviz(str(file), 'left/')
    assert [one['Class'].split('/')[1] for one in config['Displays']] == [
        'Grid',
        'RobotModel',
        'TF',
        'Image',
    ]
    # RViz tells the transport from the last part of the name.
    assert display(config, 'Image')[0]['Topic']['Value'] == '/cam/image/compressed'
    assert display(config, 'RobotModel')[0]['TF Prefix'] == 'left'


def test_a_name_is_resolved_as_the_node_does() -> None:
    scene = Scene(load_robot('droid'), '/a/b/')
    assert [scene.topic(name) for name in ('x/y', '/x', '~/x', '{node}/x', '/{ns}/x')] == [
        '/a/b/x/y',
        '/x',
        '/a/b/openpi_policy/x',
        '/a/b/openpi_policy/x',
        '/a/b/x',
    ]
    assert Scene(load_robot('droid')).topic('~/x') == '/openpi_policy/x'


@pytest.mark.parametrize(
    ('arguments', 'named'),
    [
        (['--robot', 'droyd', '--format', 'rviz'], "did you mean 'droid'"),
        (['--robot', 'droid', '--format', 'rviz', '--namespace', '/my robot'], '--namespace'),
    ],
)
def test_what_cannot_be_is_refused_with_what_was_meant(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['layout', *arguments]) == 2
    said = capsys.readouterr()
    assert named in said.err
    assert said.out == ''
