# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Without control_msgs a robot with a gripper is refused, and goes on with what the page says."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip('rclpy')

from node_process import NodeProcess, new_domain, peer_of, start_node

pytestmark = [
    pytest.mark.ros,
    pytest.mark.skipif(
        importlib.util.find_spec('control_msgs') is not None, reason='control_msgs is installed'
    ),
]
DOCS = Path(__file__).resolve().parents[2] / 'docs'


def start(scratch: Path, domain: int, *arguments: str) -> NodeProcess:
    parameters = {'robot': 'fr3', 'policy': 'rehearsal', 'port': 0}
    return start_node(scratch, domain, parameters, *arguments)


@pytest.mark.parametrize('page', ['robots.md', 'controllers.md'])
def test_the_arm_alone_goes_on_with_the_argument_of_the_page(tmp_path: Path, page: str) -> None:
    (text,) = re.findall(r'-p output_names:=\S+"', (DOCS / page).read_text(encoding='utf-8'))
    domain = new_domain()
    process = start(tmp_path, domain, *shlex.split(text))
    try:
        with peer_of(domain) as peer:
            assert peer.get_parameters('output_names') == [['arm']]
            peer.wait_until(
                'the output',
                lambda: peer.node.get_publishers_info_by_topic(
                    '/fr3_arm_controller/joint_trajectory'
                ),
            )
    finally:
        process.kill()


def test_without_it_the_start_is_refused_with_the_output(tmp_path: Path) -> None:
    process = start(tmp_path, new_domain())
    try:
        assert process.join() == 1
        said = process.text()
        assert 'outputs.hand.type: gripper needs the package control_msgs' in said
        assert 'leave hand out of output_names' in said
    finally:
        process.kill()
