# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A silent or thin camera is explained: nobody there, wrong type, wrong QoS, or images lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpi_policy_ros.configuration.robot import Camera
from openpi_policy_ros.control.delivery import (
    COMPRESSED,
    IMAGE,
    LOOKS,
    Account,
    Delivery,
    Sender,
    explain,
)

FINE = Account(received=100, lost=0, silent=False)
SILENT = Account(received=0, lost=0, silent=True)
DRIVER = Sender('/driver', IMAGE, best_effort=True)


def said(senders: list[Sender], account: Account = SILENT, **settings: Any) -> str:
    camera = Camera(topic='wrist/image', key='k', **settings)
    return explain('wrist', camera, '/ns/wrist/image', senders, account, 'buy a wider road')


def test_nobody_there() -> None:
    assert said([]) == (
        'nobody publishes /ns/wrist/image; start the camera driver, or correct cameras.wrist.topic'
    )


@pytest.mark.parametrize(
    ('transport', 'sent', 'remedy'),
    [
        ('raw', COMPRESSED, 'set cameras.wrist.transport: compressed'),
        ('compressed', IMAGE, 'set cameras.wrist.transport: raw'),
        ('raw', 'sensor_msgs/msg/PointCloud2', 'point cameras.wrist.topic at an image topic'),
    ],
)
def test_the_wrong_type_is_told_with_who_sends_it(transport: str, sent: str, remedy: str) -> None:
    wanted = IMAGE if transport == 'raw' else COMPRESSED
    assert said([Sender('/driver', sent, True)], transport=transport) == (
        f'/driver publishes {sent} on /ns/wrist/image, expected {wanted}; {remedy}'
    )


def test_a_publisher_of_the_wrong_type_beside_the_right_one_does_not_matter() -> None:
    assert said([Sender('/other', COMPRESSED, False), DRIVER], FINE) == ''


def test_an_incompatible_qos_is_told_with_the_remedy() -> None:
    assert said([DRIVER], reliability='reliable') == (
        'a publisher on /ns/wrist/image offers an incompatible RELIABILITY; set '
        'cameras.wrist.reliability: best_effort, or change the publisher'
    )
    reliable = Sender('/driver', IMAGE, best_effort=False)
    assert said([DRIVER, reliable], FINE, reliability='reliable') == ''


def test_silence_of_a_publisher_that_fits_is_told_from_loss() -> None:
    assert said([DRIVER]).startswith('/driver is there and fits, but nothing arrives')
    assert said([DRIVER]).endswith('buy a wider road')
    lossy = Account(received=3, lost=27, silent=False)
    assert said([DRIVER], lossy) == (
        '27 of its last 30 images were lost on the way: buy a wider road'
    )


@pytest.mark.parametrize(
    ('received', 'lost', 'losing'),
    [(0, 0, False), (0, 4, False), (0, 5, True), (135, 15, False), (134, 16, True), (4, 1, True)],
)
def test_a_tenth_may_be_lost_and_few_images_tell_nothing(
    received: int, lost: int, losing: bool
) -> None:
    assert Account(received, lost, False).losing is losing


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=20))
def test_an_account_covers_the_last_looks(seconds: list[tuple[int, int]]) -> None:
    delivery = Delivery()
    account = delivery.look(True)
    for came, missed in seconds:
        for _ in range(came):
            delivery.came()
        delivery.missed(missed)
        account = delivery.look(True)
    recent = seconds[-LOOKS:]
    assert account.received == sum(came for came, _ in recent)
    assert account.lost == sum(missed for _, missed in recent)
    last_two = seconds[-2:]
    assert account.silent == (len(last_two) == 2 and not any(map(any, last_two)))


def test_a_publisher_that_has_just_come_is_not_called_silent() -> None:
    delivery = Delivery()
    assert [delivery.look(one).silent for one in (False, False, True, True, True)] == [
        False,
        False,
        False,
        False,
        True,
    ]
