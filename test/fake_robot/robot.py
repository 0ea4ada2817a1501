# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The fake robot: controllers that follow, sensors that can be spoilt, and a record of it all.

It runs beside the test, in two threads: one hears what the node sends, the other publishes joints
at 100 Hz, cameras at 33 Hz, the interlock at 25 Hz and, with simulated time, /clock.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from arm import (
    CAMERAS,
    HOME,
    INTERLOCK,
    JOINTS,
    MAX_LOOKAHEAD,
    OWNED,
    RATE,
    TOPICS,
    judged_outputs,
)
from diagnostic_msgs.msg import DiagnosticStatus
from judge import NANOSECONDS, Judge, Record, told
from node_process import (
    BEST_EFFORT,
    LATCHED,
    RELIABLE,
    WAIT,
    Peer,
    image_message,
    set_stamp,
)
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image
from std_msgs.msg import Bool, Float64MultiArray, String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from openpi_policy_ros.fake_robot.controller_topics import read_trajectory
from openpi_policy_ros.fake_robot.forward_controller import ForwardController
from openpi_policy_ros.fake_robot.trajectory_controller import TrajectoryController

PERIOD = 0.01
"""Of the joints, s."""
CAMERA_TICKS, INTERLOCK_TICKS = 3, 4


@dataclass
class CameraFaults:
    """What is wrong with a camera.

    Attributes:
        stopped: it sends nothing.
        drop: share of images that are lost.
        delay: seconds that an image comes late, under its true stamp.
        skew: seconds that its stamps lag behind.
        encoding: that it claims to send; '' = the right one.

    """

    stopped: bool = False
    drop: float = 0.0
    delay: float = 0.0
    skew: float = 0.0
    encoding: str = ''


@dataclass
class Faults:
    """What is wrong with the robot; all is well by default.

    Attributes:
        cameras: of each.
        joints_stopped: joint_states falls silent.
        joints_behind: readings of the joints by which they follow their controllers late (100 Hz).
        without: joints that joint_states leaves out.
        interlock: its value.
        interlock_silent: it falls silent.

    """

    cameras: dict[str, CameraFaults] = field(
        default_factory=lambda: {name: CameraFaults() for name in CAMERAS}
    )
    joints_stopped: bool = False
    joints_behind: int = 0
    without: tuple[str, ...] = ()
    interlock: bool = True
    interlock_silent: bool = False


@dataclass(frozen=True)
class Said:
    """One ``~/status``.

    Attributes:
        time_ns: of its sending, system clock.
        state: ENABLED, HOLD, …
        reason: why.
        values: every key and value of it.

    """

    time_ns: int
    state: str
    reason: str
    values: Mapping[str, str] = field(default_factory=dict)


class FakeRobot:
    """Lives in one ROS domain, with or without a node that drives it.

    Attributes:
        faults: to be changed at any time.
        simulated: seconds that its clock is ahead of the system's; None = that clock is used and
            /clock is not published.

    """

    def __init__(self, domain: int, *, simulated: float | None = None, namespace: str = '') -> None:
        self.faults = Faults()
        self.simulated = simulated
        self.peer = Peer(domain, namespace)
        self._lock = threading.Lock()
        self._models: dict[str, TrajectoryController | ForwardController] = {
            name: (TrajectoryController if name == 'arm' else ForwardController)(
                joints, [HOME[one] for one in joints]
            )
            for name, joints in OWNED.items()
        }
        self._random = random.Random(0)
        self._followed: deque[dict[str, float]] = deque(maxlen=100)
        self._late: list[tuple[float, str, Image]] = []
        self._image = image_message(np.full((24, 32, 3), 90, np.uint8), stamp_ns=0)
        node = self.peer.node
        for name in OWNED:
            kind = JointTrajectory if name == 'arm' else Float64MultiArray
            node.create_subscription(kind, TOPICS[name], self._hears(name), RELIABLE)
        node.create_subscription(DiagnosticStatus, 'openpi_policy/status', self._reads, LATCHED)
        self.peer.listen('openpi_policy/current_prompt', String, LATCHED)
        self._clients = {
            name: node.create_client(kind, f'openpi_policy/{name}')
            for name, kind in (('enable', SetBool), ('hold', Trigger), ('reset', Trigger))
        }
        self._records: list[Record] = []
        self._said: list[Said] = []
        self.begin()
        self._going_on = True
        self._thread = threading.Thread(target=self._live, name='fake-robot', daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._going_on = False
        self._thread.join(WAIT)
        self.peer.close()

    def begin(self) -> None:
        """Begin a new record from where the robot stands; it must not be enabled."""
        with self._lock:
            self._records = []
            self._judge = Judge(
                judged_outputs(self._desired()),
                round(NANOSECONDS / RATE),
                round(NANOSECONDS * MAX_LOOKAHEAD),
            )

    def records(self) -> list[Record]:
        """Return what was recorded since ``begin``."""
        with self._lock:
            return list(self._records)

    def violations(self) -> str:
        """Return everything that the node did wrong since ``begin``, '' = nothing."""
        with self._lock:
            records, judge = list(self._records), self._judge
        return told(judge.violations(records), records)

    def commands(self, output: str) -> list[Record]:
        """Return the commands of an output since ``begin``."""
        return [one for one in self.records() if (one.kind, one.name) == ('command', output)]

    def states(self) -> list[str]:
        """Return the node's states since ``begin``, each once for as long as it lasted."""
        said = [one.value for one in self.records() if one.kind == 'status']
        return [str(b) for a, b in zip([None, *said], said, strict=False) if a != b]

    def said(self) -> Said:
        """Return the node's newest status."""
        with self._lock:
            return self._said[-1] if self._said else Said(0, '', '')

    def counter(self, name: str) -> int:
        """Return a counter of the node's newest status."""
        return int(self.said().values[name])

    def positions(self) -> dict[str, float]:
        """Return where the joints are."""
        with self._lock:
            return self._desired()

    def motion_ends_ns(self) -> int:
        """Return when the trajectory that runs ends, on the system clock."""
        model = self._models['arm']
        assert isinstance(model, TrajectoryController)
        with self._lock:
            return model.ends_ns

    def note(self, kind: Any, value: bool = False) -> None:
        """Record something that the test did."""
        with self._lock:
            self._records.append(
                Record(kind, time.time_ns(), value=value, steady_ns=time.monotonic_ns())
            )

    def enable(self, on: bool = True) -> tuple[bool, str]:
        """Call ~/enable; return (done, text)."""
        self.note('asked', on)
        answer = self._call('enable', SetBool.Request(data=on))
        self.note('answered', bool(answer.success))
        return bool(answer.success), str(answer.message)

    def hold(self) -> tuple[bool, str]:
        """Call ~/hold; return (done, text)."""
        answer = self._call('hold', Trigger.Request())
        return bool(answer.success), str(answer.message)

    def reset(self) -> tuple[bool, str]:
        """Call ~/reset; return (done, text)."""
        answer = self._call('reset', Trigger.Request())
        return bool(answer.success), str(answer.message)

    def prompt(self, text: str) -> None:
        """Tell the node what to do, and wait until it has taken it in."""
        publisher = self.peer.publisher('prompt', String, RELIABLE)
        self.wait_until('the prompt is heard', publisher.get_subscription_count)
        publisher.publish(String(data=text))

        def echoed() -> bool:
            heard = self.peer.heard('openpi_policy/current_prompt')
            return bool(heard) and heard[-1].data == text

        self.wait_until(f'the prompt {text!r} is in use', echoed)

    def jump(self, by: float) -> None:
        """Let simulated time jump by so many seconds."""
        assert self.simulated is not None
        self.simulated += by

    def wait_for(self, state: str, reason: str = '') -> Said:
        """Block until the node says a state, and a reason that holds ``reason``; return it."""

        def found() -> Said | None:
            said = self.said()
            return said if said.state == state and reason in said.reason else None

        return self.wait_until(f'{state} ({reason or "any reason"})', found)

    def wait_until(self, what: str, condition: Callable[[], Any], patience: float = WAIT) -> Any:
        """Block until ``condition`` returns something true; return that."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            result = condition()
            if result:
                return result
            time.sleep(0.01)
        said = self.said()
        raise AssertionError(f'{what}: did not happen; the node says {said.state}: {said.reason}')

    def _call(self, name: str, request: Any) -> Any:
        client = self._clients[name]
        assert client.wait_for_service(WAIT), f'no service {name}'
        future = client.call_async(request)
        self.wait_until(f'an answer of ~/{name}', future.done)
        return future.result()

    def _desired(self) -> dict[str, float]:
        now = time.time_ns()
        return {
            joint: float(value)
            for name, joints in OWNED.items()
            for joint, value in zip(joints, self._models[name].desired(now), strict=True)
        }

    def _hears(self, output: str) -> Callable[[Any, Any], None]:
        def heard(message: Any, info: Any) -> None:
            value = read_trajectory(message) if output == 'arm' else tuple(message.data)
            sent = _sent_ns(info)
            with self._lock:
                self._models[output].take(value, sent)
                self._records.append(
                    Record('command', sent, output, value, time.monotonic_ns(), self._stamp_ns())
                )

        return heard

    def _reads(self, message: DiagnosticStatus, info: Any) -> None:
        values = {pair.key: pair.value for pair in message.values}
        sent = _sent_ns(info)
        with self._lock:
            self._said.append(Said(sent, values['state'], values['reason'], values))
            self._records.append(
                Record('status', sent, '', values['state'], time.monotonic_ns(), self._stamp_ns())
            )

    def _stamp_ns(self) -> int:
        ahead = self.simulated
        return time.time_ns() + (0 if ahead is None else round(ahead * NANOSECONDS))

    def _live(self) -> None:
        due = time.monotonic()
        tick = 0
        while self._going_on:
            due = max(due + PERIOD, time.monotonic() - PERIOD)
            time.sleep(max(0.0, due - time.monotonic()))
            tick += 1
            self._publish(tick)

    def _publish(self, tick: int) -> None:
        faults, now = self.faults, self._stamp_ns()
        if self.simulated is not None:
            clock = Clock()
            clock.clock.sec, clock.clock.nanosec = divmod(now, NANOSECONDS)
            self.peer.publisher('/clock', Clock, BEST_EFFORT).publish(clock)
            # What was measured when the clock stood there comes a moment later.
            now -= 10_000_000
        self._followed.append(self.positions())
        if not faults.joints_stopped:
            where = self._followed[max(-1 - faults.joints_behind, -len(self._followed))]
            self.peer.publish_joints(
                {joint: where[joint] for joint in JOINTS if joint not in faults.without},
                stamp_ns=now,
            )
        if tick % INTERLOCK_TICKS == 0 and not faults.interlock_silent:
            self.peer.publisher(INTERLOCK, Bool, RELIABLE).publish(Bool(data=faults.interlock))
        if tick % CAMERA_TICKS == 0:
            for name, wrong in faults.cameras.items():
                self._shoot(name, wrong, now)
        ready = [one for one in self._late if one[0] <= time.monotonic()]
        for one in ready:
            self._late.remove(one)
            self.peer.publisher(f'{one[1]}/image_raw', Image, BEST_EFFORT).publish(one[2])

    def _shoot(self, name: str, wrong: CameraFaults, now: int) -> None:
        if wrong.stopped or self._random.random() < wrong.drop:
            return
        image = Image(
            height=self._image.height,
            width=self._image.width,
            encoding=wrong.encoding or 'rgb8',
            step=self._image.step,
            data=self._image.data,
        )
        set_stamp(image, now - round(wrong.skew * NANOSECONDS))
        self._late.append((time.monotonic() + wrong.delay, name, image))


def _sent_ns(info: Any) -> int:
    """Return when a message was sent; its arrival where the middleware does not tell."""
    return int(info['source_timestamp']) or time.time_ns()
