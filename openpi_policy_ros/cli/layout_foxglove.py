# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Write a layout for Foxglove and for Lichtblick, which reads the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from openpi_policy_ros.cli.layout_scene import Scene, View

TITLES = ('foxglovePanelTitle', 'lichtblickPanelTitle')
"""Keys under which the two programs look for a panel's title."""

CAMERA_STATE = {
    'distance': 2.2,
    'perspective': True,
    'phi': 65,
    'target': [0, 0, 0],
    'targetOffset': [0.3, 0, 0.4],
    'targetOrientation': [0, 0, 0, 1],
    'thetaOffset': 45,
    'fovy': 45,
    'near': 0.01,
    'far': 100,
}
RED, GREEN, GREY = '#c62828', '#2e7d32', '#616161'

Node = str | dict[str, Any]


def foxglove_layout(scene: Scene) -> str:
    """Return the layout as JSON."""
    panels: dict[str, dict[str, Any]] = {}

    def panel(kind: str, mark: str, title: str, **config: Any) -> str:
        identity = f'{kind}!{mark}'
        panels[identity] = {**dict.fromkeys(TITLES, title), **config}
        return identity

    views: list[Node] = [
        panel('Image', f'camera{number}', view.name, imageMode=_image(view))
        for number, view in enumerate(scene.cameras)
    ]
    left: list[Node] = [panel('3D', 'robot', _title(scene, 'robot'), **_space(scene))]
    if views:
        left.append(_beside('row', views))
    buttons: list[Node] = [
        panel('CallService', mark, text, **_button(scene, service, request, text, colour))
        for mark, text, service, request, colour in (
            ('enable', 'Enable', '~/enable', '{"data": true}', GREEN),
            ('disable', 'Disable', '~/enable', '{"data": false}', GREY),
            ('hold', 'Hold', '~/hold', '{}', RED),
            ('reset', 'Reset', '~/reset', '{}', GREY),
        )
    ]
    prompt = panel(
        'Publish',
        'prompt',
        'Prompt',
        topicName=scene.topic('prompt'),
        datatype='std_msgs/msg/String',
        value=json.dumps({'data': 'pick up the block'}),
        buttonText='Send the prompt',
        advancedView=True,
    )
    told: list[Node] = [
        panel('RawMessages', mark, title, **_raw(scene.topic(topic)))
        for mark, title, topic in (
            ('status', 'Status', '~/status'),
            ('told', 'Prompt in use', '~/current_prompt'),
        )
    ]
    diagnostics: list[Node] = [
        panel(
            'DiagnosticSummary',
            'all',
            'Diagnostics',
            topicToRender='/diagnostics',
            hardwareIdFilter='',
            minLevel=0,
            pinnedIds=[],
            sortByLevel=True,
        ),
        panel(
            'DiagnosticStatusPanel', 'one', 'Diagnostics in detail', topicToRender='/diagnostics'
        ),
    ]
    plots: list[Node] = [panel('Plot', 'chunk', 'Chunk by action', **_chunk_plot(scene))]
    if scene.measured:
        plots.append(panel('Plot', 'joints', 'Measured joints', **_joint_plot(scene)))
    rows: list[Node] = [
        _beside('row', buttons),
        _beside('row', [told[0], _beside('column', [prompt, told[1]])]),
        _beside('row', diagnostics),
    ]
    right = _beside('column', [*rows, *plots], share=12)
    layout = {
        'configById': panels,
        'globalVariables': {},
        'userNodes': {},
        'playbackConfig': {'speed': 1},
        'layout': {
            'direction': 'row',
            'first': _beside('column', left, share=65),
            'second': right,
            'splitPercentage': 50,
        },
    }
    return json.dumps(layout, indent=2, ensure_ascii=False) + '\n'


def _title(scene: Scene, what: str) -> str:
    return f'{scene.title} {what}'.strip()


def _beside(direction: str, nodes: Sequence[Node], share: int | None = None) -> Node:
    """Return nodes side by side, each as large, or the first with a share in percent."""
    if len(nodes) == 1:
        return nodes[0]
    return {
        'direction': direction,
        'first': nodes[0],
        'second': _beside(direction, nodes[1:]),
        'splitPercentage': share or round(100 / len(nodes)),
    }


def _image(view: View) -> dict[str, Any]:
    return {'imageTopic': view.topic, 'synchronize': False}


def _space(scene: Scene) -> dict[str, Any]:
    topics = {scene.topic('~/planned_path'): {'visible': True}} if scene.draws_path else {}
    return {
        'cameraState': CAMERA_STATE,
        'followMode': 'follow-pose',
        'followTf': scene.frame,
        'scene': {'transforms': {'showLabel': False, 'axisScale': 0.3}},
        'transforms': {},
        'topics': topics,
        'layers': {
            'grid': {
                'instanceId': 'grid',
                'layerId': 'foxglove.Grid',
                'label': 'Grid',
                'visible': True,
                'frameLocked': True,
                'size': 3,
                'divisions': 12,
                'lineWidth': 1,
                'color': '#a0a0a480',
                'position': [0, 0, 0],
                'rotation': [0, 0, 0],
                'order': 1,
            },
            'robot': {
                'instanceId': 'robot',
                'layerId': 'foxglove.Urdf',
                'label': 'Robot',
                'visible': True,
                'frameLocked': True,
                'sourceType': 'topic',
                'topic': scene.topic('robot_description'),
                'framePrefix': scene.frame_prefix,
                'displayMode': 'auto',
                'order': 2,
            },
        },
        'imageMode': {},
    }


def _button(scene: Scene, service: str, request: str, text: str, colour: str) -> dict[str, Any]:
    return {
        'serviceName': scene.topic(service),
        'requestPayload': request,
        'layout': 'vertical',
        'buttonText': text,
        'buttonColor': colour,
    }


def _raw(topic: str) -> dict[str, Any]:
    return {
        'topicPath': topic,
        'diffEnabled': False,
        'diffMethod': 'custom',
        'diffTopicPath': '',
        'showFullMessageForDiff': False,
        'expansion': 'all',
    }


def _chunk_plot(scene: Scene) -> dict[str, Any]:
    """Show the newest chunk: actions from left to right, a line for each joint."""
    chunk = scene.topic('~/action_chunk')
    paths = [
        _line(f'{chunk}.points[:].{scene.quantity}[{column}]', name)
        for column, name in enumerate(scene.joints)
    ]
    if not paths:
        numbers = f'{scene.topic("~/action_chunk_array")}.data[:]'
        paths = [_line(numbers, 'every number, row by row')]
    return _plot(paths, 'index')


def _joint_plot(scene: Scene) -> dict[str, Any]:
    """Show the measured joints over time, in the order in which they are published."""
    states = scene.topic('joint_states')
    paths = [_line(f'{states}.position[{i}]', f'position {i}') for i in range(scene.measured)]
    return _plot(paths, 'timestamp', followingViewWidth=10)


def _line(path: str, label: str) -> dict[str, Any]:
    return {'value': path, 'label': label, 'enabled': True, 'timestampMethod': 'receiveTime'}


def _plot(paths: list[dict[str, Any]], x: str, **more: Any) -> dict[str, Any]:
    return {
        'paths': paths,
        'xAxisVal': x,
        'isSynced': x == 'timestamp',
        'showLegend': True,
        'legendDisplay': 'floating',
        'showPlotValuesInLegend': False,
        'showXAxisLabels': True,
        'showYAxisLabels': True,
        'sidebarDimension': 240,
        **more,
    }
