# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Tell why a camera is silent or thin: nobody there, wrong type, wrong QoS, or images lost.

Nothing of ROS in here: who publishes a topic, and what the middleware counted, is handed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from openpi_policy_ros.configuration.robot import Camera

IMAGE = 'sensor_msgs/msg/Image'
COMPRESSED = 'sensor_msgs/msg/CompressedImage'

LOOKS = 5
"""How many looks back an account goes."""
TOLERATED = 0.1
"""Share of lost images that is not worth a word."""
_FEWEST = 5
"""Images below which no share is told."""


@dataclass(frozen=True)
class Sender:
    """Who publishes a topic.

    Attributes:
        node: full name of its node.
        message_type: e.g. ``sensor_msgs/msg/Image``.
        best_effort: whether its reliability is best effort.

    """

    node: str
    message_type: str
    best_effort: bool


@dataclass(frozen=True)
class Account:
    """What became of the images of the last looks.

    Attributes:
        received: how many came.
        lost: how many the middleware knows were sent and did not come.
        silent: whether for all these looks a fitting publisher was there and nothing came.

    """

    received: int
    lost: int
    silent: bool

    @property
    def losing(self) -> bool:
        """Return whether so many are lost that it must be told."""
        sent = self.received + self.lost
        return sent >= _FEWEST and self.lost > TOLERATED * sent


class Delivery:
    """Counts one camera's images; ``came`` and ``missed`` belong to one thread, ``look`` to one.

    An image that the middleware replaced by a newer one before it was taken is not lost: it came.
    """

    def __init__(self) -> None:
        self._received = self._lost = 0
        self._looks: deque[tuple[int, int, bool]] = deque(maxlen=LOOKS + 1)

    @property
    def lost(self) -> int:
        """Return how many images the middleware knows were lost so far."""
        return self._lost

    def came(self) -> None:
        """Count an image."""
        self._received += 1

    def missed(self, count: int) -> None:
        """Count images that the middleware tells were lost."""
        self._lost += count

    def look(self, matched: bool) -> Account:
        """Return the account of the last looks; call it at regular times.

        Args:
            matched: whether a publisher of the right type and QoS is there now.

        """
        self._looks.append((self._received, self._lost, matched))
        received = self._looks[-1][0] - self._looks[0][0]
        lost = self._looks[-1][1] - self._looks[0][1]
        # Fresh matches take a moment, so that only a silence of three looks means something.
        recent = list(self._looks)[-3:]
        silent = (
            len(recent) == 3
            and all(there for _, _, there in recent)
            and recent[0][:2] == recent[-1][:2]
        )
        return Account(received, lost, silent)


def wanted_type(camera: Camera) -> str:
    """Return the message type that a camera's subscription takes."""
    return COMPRESSED if camera.transport == 'compressed' else IMAGE


def incompatible_qos(name: str, topic: str, policy: str) -> str:
    """Return what to say of a publisher whose QoS never reaches the subscription."""
    return (
        f'a publisher on {topic} offers an incompatible {policy}; set '
        f'cameras.{name}.reliability: best_effort, or change the publisher'
    )


def fitting(camera: Camera, senders: Sequence[Sender]) -> bool:
    """Return whether one of the publishers can reach the subscription."""
    return any(
        one.message_type == wanted_type(camera)
        and not (one.best_effort and camera.reliability == 'reliable')
        for one in senders
    )


def explain(
    name: str, camera: Camera, topic: str, senders: Sequence[Sender], account: Account, remedy: str
) -> str:
    """Return why nothing or too little comes from a camera, '' = all is well or unknown.

    Args:
        name: of the camera in the robot file.
        camera: its settings.
        topic: its topic, resolved.
        senders: who publishes that topic now.
        account: what came and what was lost lately.
        remedy: what to do about lost images with this middleware.

    """
    if not senders:
        return f'nobody publishes {topic}; start the camera driver, or correct cameras.{name}.topic'
    wanted = wanted_type(camera)
    if all(one.message_type != wanted for one in senders):
        return _wrong_type(name, topic, senders[0], wanted)
    if not fitting(camera, senders):
        return incompatible_qos(name, topic, 'RELIABILITY')
    if account.losing:
        sent = account.received + account.lost
        return f'{account.lost} of its last {sent} images were lost on the way: {remedy}'
    if account.silent:
        nodes = ', '.join(sorted({one.node for one in senders if one.message_type == wanted}))
        return (
            f'{nodes} is there and fits, but nothing arrives: either it sends nothing, or every '
            f'image is lost on the way: {remedy}'
        )
    return ''


def _wrong_type(name: str, topic: str, sender: Sender, wanted: str) -> str:
    other = {IMAGE: 'raw', COMPRESSED: 'compressed'}.get(sender.message_type)
    remedy = (
        f'set cameras.{name}.transport: {other}'
        if other
        else f'point cameras.{name}.topic at an image topic'
    )
    return f'{sender.node} publishes {sender.message_type} on {topic}, expected {wanted}; {remedy}'
