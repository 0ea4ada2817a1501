# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The ROS shell of the simulated robot: its clock, its sensors, and its controllers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import ReliabilityPolicy
from rosgraph_msgs.msg import Clock

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.fake_robot.controller_topics import ControllerTopics
from openpi_policy_ros.fake_robot.sensor_topics import SensorTopics, publish_description
from openpi_policy_ros.ros.sensors import qos
from openpi_policy_ros_sim.environment import Environment
from openpi_policy_ros_sim.errors import SimulationError
from openpi_policy_ros_sim.ros.arm import NANOSECONDS, SERVO_RATE, SimulatedArm
from openpi_policy_ros_sim.ros.pace import Pace
from openpi_policy_ros_sim.state import State
from openpi_policy_ros_sim.urdf import build_urdf

FIRST_NS = 10 * NANOSECONDS
"""Where simulated time begins: 0 means that no clock is known. Far from the time of day, so that a
node that goes by that refuses every stamp by name."""


class Interrupted(Exception):
    """The user wants to stop."""


@dataclass(frozen=True)
class Options:
    """How the robot lives.

    Attributes:
        size: (width, height) of the images.
        camera_rate: images per simulated second and camera; divides 120.
        rate: most simulated seconds per second, 0 = as fast as it goes.
        wall_clock: stamp with the time of day, and publish no ``/clock``.

    """

    size: tuple[int, int] = (224, 126)
    camera_rate: int = 15
    rate: float = 1.0
    wall_clock: bool = False

    def __post_init__(self) -> None:
        """Refuse rates that cannot be."""
        if self.camera_rate < 1 or round(SERVO_RATE) % self.camera_rate:
            raise SimulationError(
                f'camera rate {self.camera_rate} Hz', expected='one that divides 120: 15, 30, …'
            )
        if self.wall_clock and self.rate != 1.0:
            raise SimulationError(
                f'--rate {self.rate:g} with --wall-clock',
                expected='1: the time of day goes at no other rate',
            )


class SimulatedRobotNode(Node):
    """The robot on its topics. Everything happens in the thread that calls ``turn``.

    Simulated time stands still while cameras draw, so that it never gets ahead of what is seen; it
    goes on over resets of the scene, so that for others it never jumps back.

    Args:
        robot: the robot file, checked.
        environment: stays open.
        options: sizes and rates.
        interrupted: returns whether the user wants to stop.

    Attributes:
        arm: the physics and its controllers.
        pace: how fast simulated time goes.
        turns: steps of 1/120 s so far.

    """

    def __init__(
        self,
        robot: RobotConfig,
        environment: Environment,
        options: Options,
        interrupted: Callable[[], bool],
    ) -> None:
        super().__init__('sim_robot')
        self._options = options
        self._interrupted = interrupted
        self._cameras = list(robot.camera_names)
        self.turns = 0
        self.arm = SimulatedArm(robot, environment, self.time_ns)
        self.pace = Pace(options.rate)
        self._clock_topic = (
            None
            if options.wall_clock
            else self.create_publisher(Clock, '/clock', qos(1, ReliabilityPolicy.RELIABLE))
        )
        self._sensors = SensorTopics(self, robot)
        publish_description(self, build_urdf())
        self._controllers = ControllerTopics(
            self, robot, lambda: self.arm.model, lambda: self.time_ns
        )
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self)

    @property
    def time_ns(self) -> int:
        """Return the time on the robot's clock."""
        if self._options.wall_clock:
            return int(self.get_clock().now().nanoseconds)
        return FIRST_NS + round(self.turns * NANOSECONDS / SERVO_RATE)

    def reset(self, seed: int) -> State:
        """Put everything where a seed says; whoever drives the arm should be disabled."""
        return self.arm.reset(seed, self.time_ns)

    def turn(self) -> None:
        """Say what is now, hear what is wanted until the next step is due, and make that step.

        Raises:
            Interrupted: the user wants to stop; no step was made.

        """
        now = self.time_ns
        if self._clock_topic is not None:
            clock = Clock()
            clock.clock.sec, clock.clock.nanosec = divmod(now, NANOSECONDS)
            self._clock_topic.publish(clock)
        self._sensors.publish_joints(self.arm.positions(), now)
        if self.turns % (round(SERVO_RATE) // self._options.camera_rate) == 0:
            width, height = self._options.size
            for camera in self._cameras:
                picture = self.arm.environment.render(camera, height, width)
                self._sensors.publish_image(camera, picture, now)
        self._listen(self.pace.advance(round(NANOSECONDS / SERVO_RATE)))
        self.arm.step(self.time_ns)
        self.turns += 1

    def close(self) -> None:
        """Leave the graph."""
        self._executor.shutdown()
        self.destroy_node()

    def _listen(self, patience_ns: int) -> None:
        """Run callbacks for so long, and at least all that wait now."""
        until = time.monotonic_ns() + patience_ns
        while True:
            if self._interrupted():
                raise Interrupted
            left = until - time.monotonic_ns()
            if left <= 0:
                break
            self._executor.spin_once(timeout_sec=left / NANOSECONDS)
        # Late: hear a few, so that commands do not pile up however slow the machine is.
        for _ in range(_AT_LEAST):
            self._executor.spin_once(timeout_sec=0.0)


_AT_LEAST = 4
"""Callbacks after every step: commands and status come less than once in a step."""
