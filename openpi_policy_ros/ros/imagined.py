# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Show on ``~/imagined`` the future that the policy imagined with its last chunk.

``sensor_msgs/Image``, rgb8, one frame after the other at a low rate; a newer chunk takes the place
of what is left of the one before. A thread of its own, and none is made while nobody looks on.
"""

from __future__ import annotations

import logging
import threading
import time

import numpy as np
import numpy.typing as npt
from builtin_interfaces.msg import Time
from rclpy.node import Node
from rclpy.qos import ReliabilityPolicy
from sensor_msgs.msg import Image

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.buffers import NANOSECONDS
from openpi_policy_ros.engine import Engine
from openpi_policy_ros.policies.base import ActionChunk
from openpi_policy_ros.recording.imagined import (
    ImaginedFiles,
    check_frames,
    require_imagined,
    tell_no_dreams,
)
from openpi_policy_ros.ros.listener import RobotListener
from openpi_policy_ros.ros.sensors import qos

_log = logging.getLogger('openpi_policy_ros.ros.imagined')

TOPIC = '~/imagined'
FACT = 'imagined'
"""Key in ``~/status`` under which it is told what is shown, or why nothing is."""

NONE = 'not shown: the policy imagines nothing, or is not told to (imagined of the policy file)'

_JOIN = 5.0


def image_message(frame: npt.NDArray[np.uint8], stamp_ns: int) -> Image:
    """Return a frame, uint8 RGB [H, W, 3], as a message.

    Args:
        frame: the picture.
        stamp_ns: when it would be seen, ROS time.

    """
    height, width = frame.shape[:2]
    message = Image(height=height, width=width, encoding='rgb8', step=3 * width)
    message.header.stamp = Time(sec=stamp_ns // NANOSECONDS, nanosec=stamp_ns % NANOSECONDS)
    # Many times faster than an assignment, which looks at every byte.
    message.data.frombytes(frame.tobytes())
    return message


class ImaginedTopic(RobotListener):
    """Publishes the frames of the newest chunk.

    Args:
        node: owns the topic.
        rate: frames per second.

    """

    def __init__(self, node: Node, rate: float) -> None:
        self._node = node
        self._period = 1.0 / rate
        self._told = NONE
        # What the thread has to do next; a newer one takes the place of one not yet begun.
        self._news = threading.Condition()
        self._chunk: tuple[ActionChunk, int] | None = None
        self._ending = False
        self._publisher = node.create_publisher(Image, TOPIC, qos(1, ReliabilityPolicy.RELIABLE))
        self._thread = threading.Thread(target=self._run, name='imagined', daemon=True)
        self._thread.start()
        _log.info('%s: %g frames per second, while somebody subscribes', TOPIC, rate)

    @property
    def facts(self) -> dict[str, str]:
        """Return what ``~/status`` says of it."""
        return {FACT: self._told}

    def on_chunk(self, chunk: ActionChunk, t_obs_ns: int) -> None:
        """Let the thread show it."""
        if chunk.imagined is None:
            self._told = NONE
            return
        with self._news:
            self._chunk = chunk, t_obs_ns
            self._news.notify()

    def close(self) -> None:
        """End the thread and take the topic back."""
        with self._news:
            self._ending = True
            self._news.notify()
        self._thread.join(_JOIN)
        self._node.destroy_publisher(self._publisher)

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(self._has_news)
                if self._ending or self._chunk is None:
                    return
                (chunk, t_obs_ns), self._chunk = self._chunk, None
            try:
                self._show(chunk, t_obs_ns)
            except Exception as error:
                told = f'not shown: {type(error).__name__}: {error}'
                if told != self._told:
                    self._told = told
                    _log.exception('%s cannot be shown', TOPIC)

    def _has_news(self) -> bool:
        return self._ending or self._chunk is not None

    def _show(self, chunk: ActionChunk, t_obs_ns: int) -> None:
        frames, fps = chunk.imagined, chunk.imagined_fps
        assert frames is not None
        check_frames(frames)
        count, height, width = frames.shape[:3]
        self._told = f'{count} frames of {width}x{height} with each chunk'
        due = time.monotonic()
        for number, frame in enumerate(frames):
            if not self._publisher.get_subscription_count():
                return
            # The first is what was observed, as far as anybody said how far apart they are.
            ahead_ns = round(number * NANOSECONDS / fps) if fps else 0
            self._publisher.publish(image_message(frame, t_obs_ns + ahead_ns))
            due += self._period
            with self._news:
                if self._news.wait_for(self._has_news, max(0.0, due - time.monotonic())):
                    return


class ImaginedRecording(RobotListener):
    """Lets a file be written for every session of the engine, until ``close``."""

    def __init__(self, directory: str, engine: Engine) -> None:
        self._engine = engine
        self._files = ImaginedFiles(require_imagined(directory, 'imagined_dir'))
        tell_no_dreams(engine.spec, 'imagined_dir')
        engine.add_tap(self._files)

    @property
    def facts(self) -> dict[str, str]:
        """Return what ``~/status`` says of it."""
        stats = self._files.stats
        if stats.stopped:
            return {'imagined_files': f'stopped: {stats.stopped}'}
        lost = f', {stats.dropped} chunks dropped' if stats.dropped else ''
        return {'imagined_files': f'{stats.frames} frames in {stats.files} files{lost}'}

    def close(self) -> None:
        """Finish every file."""
        self._engine.remove_tap(self._files)
        self._files.close()


def make_imagined_topic(node: Node, robot: RobotConfig) -> RobotListener | None:
    """Return what shows the imagined future, None = the robot file does not ask for it."""
    rate = robot.visual.imagined_rate
    return ImaginedTopic(node, rate) if rate else None
