# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a command line of ROS arguments, in words that rcl does not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

ROS, END, ASSIGN = '--ros-args', '--', ':='
PARAMETER = ('-p', '--param')
_WITH_VALUE = (
    *('-r', '--remap', '-e', '--enclave', '--params-file', '--log-level'),
    *('--log-config-file', '--log-file-name'),
)
"""Other options of rcl after which a word of any kind comes."""


def mistakes(arguments: Sequence[str]) -> list[str]:
    """Return a sentence for every word that is no ROS argument as it stands, and what to write."""
    return list(_mistakes(arguments))


def _mistakes(arguments: Sequence[str]) -> Iterator[str]:
    ros = False
    words = iter(arguments)
    for word in words:
        if word == ROS:
            ros = True
        elif not ros:
            if _name_and_value(word):
                yield f'{word}: write {ROS} before it: {ROS} -p {_assigned(word)}'
        elif word == END:
            ros = False
        elif word in PARAMETER:
            value = next(words, None)
            if value is None:
                yield f'{word}: a parameter comes after it: {word} NAME:=VALUE'
            elif not _is_assignment(value):
                written = _assigned(value) if _name_and_value(value) else f'{value}:=VALUE'
                yield f'{word} {value}: write name and value with {ASSIGN}: {word} {written}'
        elif word in _WITH_VALUE:
            next(words, None)
        elif _name_and_value(word):
            yield f'{word}: write -p before every parameter: -p {_assigned(word)}'


def _is_assignment(word: str) -> bool:
    name, assign, _ = word.partition(ASSIGN)
    return bool(name and assign)


def _name_and_value(word: str) -> bool:
    name, equals, _ = word.partition('=')
    return bool(equals) and name.rstrip(':').lstrip('-').replace('.', '_').isidentifier()


def _assigned(word: str) -> str:
    name, _, value = word.partition('=')
    return f'{name.rstrip(":").lstrip("-")}{ASSIGN}{value}'
