# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot description is read as it is, and refused where it can be read two ways."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from openpi_policy_ros.control.limits import from_urdf
from openpi_policy_ros.control.urdf import mimicked, read_urdf
from openpi_policy_ros.errors import ConfigurationError

TURN = '<joint name="turn" type="revolute"><limit lower="-1" upper="{}" velocity="1"/></joint>'


def test_joints_and_links_come_in_their_order_and_only_the_robots_own() -> None:
    urdf = read_urdf(
        '<robot name="r"><link name="b"/><link name="a"/><joint name="z"/><joint name="y"/>'
        '<ros2_control name="c"><joint name="z"/></ros2_control>'
        '<transmission name="t"><joint name="x"/></transmission></robot>'
    )
    assert list(urdf.joints) == ['z', 'y']
    assert urdf.links == ('b', 'a')


@pytest.mark.parametrize('inside', ['', '<mimic/>', '<mimic joint="a"/>'])
def test_a_joint_tells_what_it_mimics(inside: str) -> None:
    joint = read_urdf(f'<robot><joint name="j">{inside}</joint></robot>').joints['j']
    assert mimicked(joint) == {'': None, '<mimic/>': '', '<mimic joint="a"/>': 'a'}[inside]


@pytest.mark.parametrize(
    ('inside', 'named'),
    [
        (TURN.format(1) + TURN.format(2), "'turn' is the name of 2 joints"),
        ('<link name="a"/>' * 3, "'a' is the name of 3 links"),
        ('<joint type="fixed"/>', '1 joints have no name'),
        ('<link/><link/>', '2 links have no name'),
    ],
)
def test_names_that_are_not_unique_are_refused_not_settled(inside: str, named: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_urdf(f'<robot name="r">{inside}</robot>')
    (problem,) = caught.value.problems
    assert problem.startswith(named)


def test_a_joint_described_twice_has_no_limits_instead_of_the_last_ones() -> None:
    with pytest.raises(ConfigurationError, match="'turn' is the name of 2 joints"):
        from_urdf(f'<robot name="r">{TURN.format(1)}{TURN.format(9)}</robot>', ['turn'])


def test_a_long_text_is_parsed_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    # The parser does not let go of the interpreter, which the control thread needs every 20 ms.
    fed: list[int] = []

    class Parser(ElementTree.XMLParser):
        def feed(self, data: str) -> None:
            fed.append(len(data))
            super().feed(data)

    monkeypatch.setattr(ElementTree, 'XMLParser', Parser)
    links = [f'glied_ö_{number}' for number in range(3000)]
    body = ''.join(f'<link name="{name}"/>' for name in links)
    urdf = read_urdf(f'<?xml version="1.0" encoding="utf-16"?><robot name="lang">{body}</robot>')
    assert urdf.links == tuple(links)
    assert max(fed) < 10_000 < sum(fed)
