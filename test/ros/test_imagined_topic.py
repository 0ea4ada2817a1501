# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the thread that shows an imagined future does, without a graph."""

from __future__ import annotations

import logging
import threading
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')

from openpi_policy_ros.policies.base import ActionChunk
from openpi_policy_ros.ros.imagined import FACT, NONE, ImaginedTopic, image_message

pytestmark = pytest.mark.ros

T_OBS = 5_000_000_123
WAIT = 10.0


class StandInNode:
    """Its own publisher."""

    def __init__(self, listeners: int = 1) -> None:
        self.listeners = listeners
        self.heard: list[tuple[int, int]] = []
        self.asked = threading.Event()
        self._news = threading.Condition()

    def create_publisher(self, *_: Any) -> StandInNode:
        return self

    def destroy_publisher(self, _: Any) -> None:
        self.heard.append((-1, -1))

    def get_subscription_count(self) -> int:
        self.asked.set()
        return self.listeners

    def publish(self, message: Any) -> None:
        stamp = message.header.stamp
        with self._news:
            self.heard.append((message.data[0], stamp.sec * 10**9 + stamp.nanosec))
            self._news.notify_all()

    def wait(self, count: int) -> list[int]:
        with self._news:
            assert self._news.wait_for(lambda: len(self.heard) >= count, WAIT), self.heard
            return [grey for grey, _ in self.heard]


def chunk(first: int, count: int = 3, fps: float | None = None) -> ActionChunk:
    grey = np.arange(first, first + count, dtype=np.uint8)
    frames = np.broadcast_to(grey[:, None, None, None], (count, 4, 5, 3))
    return ActionChunk({}, imagined=np.array(frames), imagined_fps=fps)


def test_a_frame_becomes_an_image_of_its_pixels_and_moment() -> None:
    frame = np.arange(4 * 10 * 3, dtype=np.uint8).reshape(4, 10, 3)[:, ::2]
    message = image_message(frame, T_OBS)
    assert (message.height, message.width, message.step) == (4, 5, 15)
    assert (message.encoding, message.is_bigendian) == ('rgb8', 0)
    assert bytes(message.data) == frame.tobytes()
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (5, 123)


def test_a_newer_chunk_takes_the_place_of_what_is_left() -> None:
    node = StandInNode()
    topic = ImaginedTopic(node, 1e-3)  # type: ignore[arg-type]
    topic.on_chunk(chunk(10), T_OBS)
    assert node.wait(1) == [10]
    # The next frame would be due in a quarter of an hour.
    topic.on_chunk(chunk(20), T_OBS)
    assert node.wait(2) == [10, 20]
    topic.close()
    assert node.heard[-1] == (-1, -1)


@pytest.mark.parametrize(('fps', 'step'), [(5.0, 200_000_000), (None, 0)])
def test_stamps_are_those_of_the_moments_shown(fps: float | None, step: int) -> None:
    node = StandInNode()
    topic = ImaginedTopic(node, 1000.0)  # type: ignore[arg-type]
    topic.on_chunk(chunk(1, fps=fps), T_OBS)
    node.wait(3)
    topic.close()
    assert node.heard[:3] == [(1 + i, T_OBS + i * step) for i in range(3)]


def test_nothing_is_made_while_nobody_looks() -> None:
    node = StandInNode(listeners=0)
    topic = ImaginedTopic(node, 1000.0)  # type: ignore[arg-type]
    topic.on_chunk(chunk(1), T_OBS)
    assert node.asked.wait(WAIT)
    # Give what would be published the time to come.
    threading.Event().wait(0.05)
    node.listeners = 1
    topic.on_chunk(chunk(50), T_OBS)
    assert node.wait(3) == [50, 51, 52]
    topic.close()


def test_what_is_no_video_is_told_once_and_the_next_is_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = StandInNode()
    topic = ImaginedTopic(node, 1000.0)  # type: ignore[arg-type]
    assert topic.facts == {FACT: NONE}
    wrong = ActionChunk({}, imagined=np.zeros((2, 3), np.uint8))
    with caplog.at_level(logging.ERROR):
        topic.on_chunk(wrong, T_OBS)
        for _ in range(1000):
            if 'not shown: ValueError' in topic.facts[FACT]:
                break
            threading.Event().wait(0.01)
        assert 'expected uint8 [T, H, W, 3]' in topic.facts[FACT]
        topic.on_chunk(chunk(7), T_OBS)
        node.wait(3)
        assert topic.facts[FACT] == '3 frames of 5x4 with each chunk'
    topic.on_chunk(ActionChunk({}), T_OBS)
    assert topic.facts[FACT] == NONE
    topic.close()
    assert caplog.text.count('cannot be shown') == 1
