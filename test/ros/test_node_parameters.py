# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the node does with parameters that are wrong, and with those that only look wrong."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('rclpy')

from node_process import NodeProcess, install_digest_policy, new_domain, peer_of, start_node

from openpi_policy_ros.configuration.files import config_directory

pytestmark = pytest.mark.ros

Start = Callable[..., NodeProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    policy, python_path = install_digest_policy(tmp_path)
    started: list[NodeProcess] = []

    def start_it(
        parameters: dict[str, Any], *arguments: str, domain: int | None = None
    ) -> NodeProcess:
        started.append(
            start_node(
                tmp_path,
                new_domain() if domain is None else domain,
                {'policy': str(policy), 'port': 0, **parameters},
                *arguments,
                python_path=python_path,
            )
        )
        return started[-1]

    yield start_it
    for process in started:
        process.kill()


def test_every_wrong_parameter_is_in_one_message_and_the_node_ends(start: Start) -> None:
    process = start(
        {
            'robot': 'droit',
            'port': 'http',
            'modle': '/m',
            'timing': {'max_skew': 'wide', 'camera_max_age': -1.0},
            'autostart': True,
        },
        '-p',
        'revision:=1e5',
    )
    assert process.join() == 1
    log = process.text()
    for said in (
        'configure refused: parameters of openpi_policy: 7 problems',
        "robot: robot file: 'droit' is not shipped, did you mean 'droid'?",
        'port: Input should be a valid integer',
        "modle: unknown key; did you mean 'model'?",
        'model: required: a checkpoint directory or a hub id',
        'revision: expected text, found 100000.0',
        "timing.max_skew: Input should be a valid number (found 'wide')",
        'timing.camera_max_age: Input should be greater than 0',
        'stopping: the node could not start',
    ):
        assert said in log
    assert 'Traceback' not in log


def test_whole_numbers_and_a_robot_file_as_parameter_file_are_fine(start: Start) -> None:
    domain = new_domain()
    process = start(
        # null is what `ros2 param dump` writes for a parameter without value.
        {'model': 'digest', 'timing': {'max_skew': 1}, 'profile': {'ignore_keys': None}},
        '--params-file',
        str(config_directory() / 'droid.yaml'),
        '-p',
        'timing.action_rate:=12',
        '-p',
        'profile.delta_mask:=[false, false]',
        domain=domain,
    )
    process.wait_for('active')
    with peer_of(domain) as peer:
        assert peer.get_parameters(
            'timing.action_rate', 'timing.max_skew', 'camera_names', 'profile.crop_rows'
        ) == [12.0, 1.0, ['exterior_1', 'wrist'], 10]
        assert list(peer.get_parameters('profile.delta_mask')[0]) == [False, False]
        assert peer.get_parameters('profile.ignore_keys') == [None]
        unset = peer.describe_parameter('profile.ignore_keys')
        assert 'Wire keys of images' in unset.description
        assert unset.additional_constraints == (
            'list of texts; absent = none; takes effect when the node is configured'
        )
    process.signal(signal.SIGTERM)
    assert process.join() == 0


def test_a_robot_that_does_not_fit_the_policy_ends_the_node(start: Start) -> None:
    process = start(
        {
            'model': 'digest',
            'robot': 'droid',
            'cameras': {'wrist': {'key': 'observation/wrist_image_lft'}},
        }
    )
    assert process.join() == 1
    assert "did you mean 'observation/wrist_image_left'?" in process.text()


def test_outputs_that_cannot_be_opened_are_told_with_all_else_before_the_warm_up(
    start: Start,
) -> None:
    process = start(
        {
            # Such a model takes longer to warm up than the test waits.
            'model': 'slow',
            'robot': 'droid',
            'camera_names': ['wrist'],
            'output_names': ['arm'],
            'outputs': {
                'arm': {
                    'type': 'array',
                    'topic': '/rosout',
                    'joints': ['panda_joint1'],
                    'action_indices': [0],
                }
            },
        }
    )
    assert process.join() == 1
    assert "cameras: none carries 'observation/exterior_image_1_left'" in process.text()
    assert "outputs.arm.topic: '/rosout' is refused by ROS" in process.text()
    assert 'Traceback' not in process.text()


def test_a_checkpoint_that_cannot_be_served_ends_the_node(start: Start) -> None:
    process = start({'model': 'broken'})
    assert process.join() == 1
    assert 'configure refused: broken has no weights; download them' in process.text()
    assert 'Traceback' not in process.text()


@pytest.mark.parametrize(
    'arguments',
    [
        ['--params-file', '/nowhere/parameters.yaml'],
        ['-p', 'port'],
        ['-r', '__node:=not a name'],
        ['--', '--model', '/m'],
    ],
)
def test_arguments_that_ros_refuses_end_in_a_sentence(start: Start, arguments: list[str]) -> None:
    process = start({'model': 'digest'}, *arguments)
    assert process.join() == 2
    assert 'openpi_policy_node: ' in process.text()
    assert 'Traceback' not in process.text()
