# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Write a configuration for RViz 2, of Humble and later."""

from __future__ import annotations

from typing import Any

import yaml

from openpi_policy_ros.cli.layout_scene import Scene

HEAD = """\
# RViz 2: cameras, robot and planned path. Start it with: rviz2 -d THIS_FILE
# Made by openpi-policy layout, which makes one for any robot file: docs/visualisation.md.
"""
PLUGINS = 'rviz_default_plugins'


def rviz_config(scene: Scene) -> str:
    """Return the configuration as YAML."""
    displays = [_grid(), _robot(scene), _frames()]
    if scene.draws_path:
        displays.append(_path(scene))
    displays += [
        _display(
            'Image',
            view.name,
            # A subscriber that asks for best effort hears both kinds of publishers. image_transport
            # reads the transport from the last part of the topic.
            _topic(view.topic, reliability='Best Effort'),
            **{'Max Value': 1, 'Median window': 5, 'Min Value': 0, 'Normalize Range': True},
        )
        for view in scene.cameras
    ]
    config = {
        'Panels': [
            {'Class': 'rviz_common/Displays', 'Name': 'Displays'},
            {'Class': 'rviz_common/Views', 'Name': 'Views'},
            {'Class': 'rviz_common/Time', 'Name': 'Time', 'SyncMode': 0, 'SyncSource': ''},
        ],
        'Visualization Manager': {
            'Class': '',
            'Displays': displays,
            'Enabled': True,
            'Global Options': {
                'Background Color': '48; 48; 48',
                'Fixed Frame': scene.frame,
                'Frame Rate': 30,
            },
            'Name': 'root',
            'Tools': [
                {'Class': f'{PLUGINS}/{name}'}
                for name in ('Interact', 'MoveCamera', 'Select', 'FocusCamera', 'Measure')
            ],
            'Transformation': {'Current': {'Class': f'{PLUGINS}/TF'}},
            'Value': True,
            'Views': {'Current': _view(), 'Saved': None},
        },
        'Window Geometry': {'Height': 1000, 'Width': 1600},
    }
    return HEAD + yaml.safe_dump(config, sort_keys=False, allow_unicode=True)


def _display(kind: str, name: str, topic: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        'Class': f'{PLUGINS}/{kind}',
        'Enabled': True,
        'Name': name,
        **more,
        'Topic': topic,
        'Value': True,
    }


def _topic(
    name: str, *, reliability: str = 'Reliable', durability: str = 'Volatile', depth: int = 5
) -> dict[str, Any]:
    return {
        'Depth': depth,
        'Durability Policy': durability,
        'History Policy': 'Keep Last',
        'Reliability Policy': reliability,
        'Value': name,
    }


def _grid() -> dict[str, Any]:
    return {
        'Alpha': 0.5,
        'Cell Size': 0.25,
        'Class': f'{PLUGINS}/Grid',
        'Color': '160; 160; 164',
        'Enabled': True,
        'Name': 'Grid',
        'Plane': 'XY',
        'Plane Cell Count': 12,
        'Reference Frame': '<Fixed Frame>',
        'Value': True,
    }


def _robot(scene: Scene) -> dict[str, Any]:
    return {
        'Alpha': 1,
        'Class': f'{PLUGINS}/RobotModel',
        'Collision Enabled': False,
        'Description Source': 'Topic',
        # Latched: robot_state_publisher sends it once.
        'Description Topic': _topic(
            scene.topic('robot_description'), durability='Transient Local', depth=1
        ),
        'Enabled': True,
        'Name': 'Robot',
        # RViz puts the slash between prefix and link.
        'TF Prefix': scene.frame_prefix.rstrip('/'),
        'Update Interval': 0,
        'Value': True,
        'Visual Enabled': True,
    }


def _frames() -> dict[str, Any]:
    return {
        'Class': f'{PLUGINS}/TF',
        'Enabled': False,
        'Frame Timeout': 15,
        'Marker Scale': 0.3,
        'Name': 'TF',
        'Show Arrows': False,
        'Show Axes': True,
        'Show Names': True,
        'Update Interval': 0,
        'Value': False,
    }


def _path(scene: Scene) -> dict[str, Any]:
    return _display(
        'MarkerArray', 'Planned path', _topic(scene.topic('~/planned_path')), Namespaces={}
    )


def _view() -> dict[str, Any]:
    return {
        'Class': f'{PLUGINS}/Orbit',
        'Distance': 2.2,
        'Focal Point': {'X': 0.3, 'Y': 0.0, 'Z': 0.4},
        'Name': 'Current View',
        'Near Clip Distance': 0.01,
        'Pitch': 0.45,
        'Target Frame': '<Fixed Frame>',
        'Value': 'Orbit (rviz)',
        'Yaw': 0.8,
    }
