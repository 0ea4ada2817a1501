# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Subscribe cameras, joints, the prompt and the interlock. Callbacks store and decode nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.exceptions import NameValidationException
from rclpy.node import Node
from rclpy.qos import (
    DurabilityPolicy,
    HistoryPolicy,
    QoSProfile,
    ReliabilityPolicy,
    qos_policy_name_from_kind,
)
from rclpy.subscription import Subscription
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Bool, String

from openpi_policy_ros.configuration.robot import Camera, RobotConfig
from openpi_policy_ros.control.delivery import incompatible_qos
from openpi_policy_ros.control.joints import put_prefix
from openpi_policy_ros.control.observation import Assembler
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.ros.watch import CameraWatch

try:
    from rclpy.event_handler import SubscriptionEventCallbacks, UnsupportedEventTypeError
except ImportError:  # Humble
    from rclpy.qos_event import SubscriptionEventCallbacks, UnsupportedEventTypeError

_log = logging.getLogger('openpi_policy_ros.ros.sensors')

PROMPT = 'prompt'
INTERLOCK = 'interlock'
RELIABILITY = {
    'best_effort': ReliabilityPolicy.BEST_EFFORT,
    'reliable': ReliabilityPolicy.RELIABLE,
}


def qos(depth: int, reliability: ReliabilityPolicy, *, latched: bool = False) -> QoSProfile:
    """Return a keep-last profile; latched = late subscribers get the last message."""
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=depth,
        reliability=reliability,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


class Sensors:
    """The subscriptions of one configured robot, each in its own callback group.

    Args:
        node: owns the subscriptions.
        robot: which cameras, and how.
        assembler: takes the messages.
        on_prompt: called with every text on the prompt topic.
        on_news: called after every message of a sensor.
        on_joints: called with the usable positions of every message of joints.
        on_joint_state: called with every message of joints.
        on_interlock: called with every message of the interlock, where the robot has one.

    """

    def __init__(
        self,
        node: Node,
        robot: RobotConfig,
        assembler: Assembler,
        *,
        on_prompt: Callable[[str], None],
        on_news: Callable[[], None],
        on_joints: Callable[[Mapping[str, float]], None] | None = None,
        on_joint_state: Callable[[JointState], None] | None = None,
        on_interlock: Callable[[bool], None] | None = None,
    ) -> None:
        self._node = node
        self._assembler = assembler
        self._on_news = on_news
        self._on_joints = on_joints
        self._on_joint_state = on_joint_state
        self._subscriptions: list[Subscription] = []
        self._watch = CameraWatch(node, robot, assembler)
        for name in robot.camera_names:
            self._subscribe_camera(name, robot.cameras[name])
        if robot.joints.names:
            for topic, prefix in robot.joints.topics():
                self._subscribe(
                    f'joint states {prefix}'.rstrip(),
                    JointState,
                    topic,
                    qos(10, ReliabilityPolicy.BEST_EFFORT),
                    partial(self._take_joints, prefix),
                )
        self._subscribe(
            PROMPT,
            String,
            PROMPT,
            # Volatile: a transient-local subscriber would miss `ros2 topic pub`.
            qos(1, ReliabilityPolicy.RELIABLE),
            lambda message: on_prompt(message.data),
        )
        if robot.safety.interlock_topic and on_interlock is not None:
            self._subscribe(
                INTERLOCK,
                Bool,
                robot.safety.interlock_topic,
                qos(1, ReliabilityPolicy.RELIABLE),
                lambda message: on_interlock(message.data),
            )

    def lost(self, camera: str) -> int:
        """Return how many images the middleware knows were lost so far."""
        return self._watch.lost(camera)

    def close(self) -> None:
        """Unsubscribe from everything."""
        self._watch.close()
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        self._subscriptions.clear()

    def _subscribe_camera(self, name: str, camera: Camera) -> None:
        self._subscribe(
            f'camera {name!r}',
            CompressedImage if camera.transport == 'compressed' else Image,
            camera.topic,
            qos(1, RELIABILITY[camera.reliability]),
            partial(self._take_image, name),
            camera=name,
        )

    def _subscribe(
        self,
        who: str,
        message_type: type[Any],
        topic: str,
        profile: QoSProfile,
        take: Callable[[Any], None],
        *,
        camera: str = '',
    ) -> None:
        def callback(message: Any) -> None:
            # An exception in a callback would end the executor, and with it every other topic.
            try:
                take(message)
            except Exception:
                _log.exception('a message on %s could not be taken in', topic)

        try:
            events = SubscriptionEventCallbacks(
                incompatible_qos=partial(
                    self._incompatible, who, camera, self._node.resolve_topic_name(topic)
                ),
                message_lost=partial(self._watch.missed, camera) if camera else None,
            )
            subscribe = partial(
                self._node.create_subscription,
                message_type,
                topic,
                callback,
                profile,
                callback_group=MutuallyExclusiveCallbackGroup(),
                event_callbacks=events,
            )
            try:
                subscription = subscribe()
            except UnsupportedEventTypeError:
                # Then only silence tells that images are lost.
                events.message_lost = None
                subscription = subscribe()
        except (RuntimeError, NameValidationException) as error:
            # What rclpy raises for a name it refuses, or one in use with another type.
            self.close()
            raise ConfigurationError(
                f'subscription of {who}',
                [f'topic {topic!r} with {message_type.__name__}: {error}'],
            ) from error
        self._subscriptions.append(subscription)

    def _take_image(self, name: str, message: Any) -> None:
        self._watch.came(name)
        self._assembler.add_image(name, message)
        self._on_news()

    def _take_joints(self, prefix: str, message: Any) -> None:
        put_prefix(message, prefix)
        positions = self._assembler.add_joints(message)
        if self._on_joints is not None and positions:
            self._on_joints(positions)
        self._on_news()
        if self._on_joint_state is not None:
            self._on_joint_state(message)

    def _incompatible(self, who: str, camera: str, topic: str, event: Any) -> None:
        policy = qos_policy_name_from_kind(event.last_policy_kind)
        if camera:
            text = incompatible_qos(camera, topic, policy)
            self._assembler.explain_silence(camera, text)
        else:
            text = f'a publisher on {topic} offers an incompatible {policy}; change the publisher'
        _log.error('%s: %s: nothing is received from it', who, text)
