# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A command line that rcl does not take is explained, and what to write instead."""

from __future__ import annotations

import pytest

from openpi_policy_ros.ros.arguments import mistakes


@pytest.mark.parametrize(
    ('words', 'said'),
    [
        (
            '--ros-args -p robot=so101',
            '-p robot=so101: write name and value with :=: -p robot:=so101',
        ),
        ('--ros-args -p safety.velocity_scale=0.1', '-p safety.velocity_scale:=0.1'),
        ('--ros-args -p robot', '-p robot:=VALUE'),
        ('--ros-args -p', '-p: a parameter comes after it: -p NAME:=VALUE'),
        (
            '--ros-args robot:=so101',
            'robot:=so101: write -p before every parameter: -p robot:=so101',
        ),
        ('--ros-args --robot=so101', '-p robot:=so101'),
        ('robot:=so101', 'robot:=so101: write --ros-args before it: --ros-args -p robot:=so101'),
        ('--ros-args -p a:=1 -- model=/m', '--ros-args -p model:=/m'),
    ],
)
def test_a_mistake_is_quoted_with_what_to_write(words: str, said: str) -> None:
    (found,) = mistakes(words.split())
    assert said in found


def test_every_mistake_is_told() -> None:
    assert len(mistakes(['--ros-args', '-p', 'robot=so101', 'policy:=pi0', '-p', 'model:=/m'])) == 2


@pytest.mark.parametrize(
    'words',
    [
        '',
        '--ros-args -p robot:=so101 --param model:=/a=b -r __ns:=/left --log-level debug',
        '--ros-args -r prompt:=/say --params-file a=b.yaml -e /x --disable-rosout-logs',
        '--ros-args -p a:=1 -- --help',
    ],
)
def test_a_command_line_that_is_well_gets_no_word(words: str) -> None:
    assert mistakes(words.split()) == []
