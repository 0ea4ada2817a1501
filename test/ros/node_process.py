# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Run the real node in its own process, and talk to it over DDS."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import rclpy
import yaml
from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import DescribeParameters, GetParameters, SetParameters
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

HERE = Path(__file__).resolve().parent
WAIT = 20.0
"""Longest wait for anything, s."""
RELIABLE = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
LATCHED = QoSProfile(
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
BEST_EFFORT = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
JOINTS = [*(f'panda_joint{i}' for i in range(1, 8)), 'finger_joint']

_numbers = itertools.count(os.getpid())
_taken: dict[int, IO[str]] = {}


def new_domain() -> int:
    """Return a ROS domain that no other test uses: of this process, or beside it on this machine.

    A process keeps what it has taken until it ends, and after a hundred it takes its own again.
    """
    for number in itertools.islice(_numbers, 100):
        domain = 1 + number % 100
        if domain in _taken:
            return domain
        lock = (Path(tempfile.gettempdir()) / f'openpi_policy_ros_domain_{domain}').open('w')
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        _taken[domain] = lock
        return domain
    raise AssertionError('all ROS domains from 1 to 100 are taken by other tests')


def environment(domain: int, scratch: Path) -> dict[str, str]:
    """Return the environment of a node; conftest has set discovery and the DDS profile."""
    return {
        **os.environ,
        'ROS_DOMAIN_ID': str(domain),
        'ROS_LOG_DIR': str(scratch / 'ros_log'),
        'ROS_PYTHON_CHECK_FIELDS': '1',
        'PYTHONUNBUFFERED': '1',
        'OMP_NUM_THREADS': '1',
        'RCUTILS_COLORIZED_OUTPUT': '0',
    }


def install_digest_policy(directory: Path) -> tuple[Path, str]:
    """Make the digest policy an installed package; return (policy file, PYTHONPATH)."""
    return install_policy(directory, 'digest', HERE)


def install_policy(directory: Path, name: str, folder: Path) -> tuple[Path, str]:
    """Make ``<name>_policy.py`` of a folder a package; return (policy file, PYTHONPATH)."""
    info = directory / f'{name}_policy-1.0.dist-info'
    info.mkdir()
    (info / 'METADATA').write_text(f'Metadata-Version: 2.1\nName: {name}-policy\nVersion: 1.0\n')
    (info / 'entry_points.txt').write_text(
        f'[openpi_policy_ros.policies]\n{name} = {name}_policy:PLUGIN\n'
    )
    policy = directory / f'{name}.yaml'
    policy.write_text(f'policy: {name}\n')
    path = os.pathsep.join([str(directory), str(folder), os.environ.get('PYTHONPATH', '')])
    return policy, path.rstrip(os.pathsep)


class NodeProcess:
    """The node's process, its log, and how it ended."""

    def __init__(self, arguments: list[str], env: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open('wb') as output:
            self.process = subprocess.Popen(
                [sys.executable, '-m', 'openpi_policy_ros.ros.main', *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )

    def text(self) -> str:
        """Return everything logged so far."""
        return self.log.read_text(errors='replace')

    def wait_for(self, text: str, count: int = 1) -> str:
        """Block until the log holds ``text`` that often; return the log."""
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            log = self.text()
            if log.count(text) >= count:
                return log
            if self.process.poll() is not None and self.text().count(text) < count:
                break
            time.sleep(0.02)
        raise AssertionError(f'{text!r} is not in the log ({count} times):\n{self.text()}')

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the node."""
        self.process.send_signal(number)

    def join(self) -> int:
        """Return the exit status."""
        try:
            return self.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f'the node does not end:\n{self.text()}') from None

    def kill(self) -> None:
        """End it if it still runs: by SIGTERM, since SIGKILL leaves DDS's shared memory behind."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(WAIT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def start_node(
    scratch: Path,
    domain: int,
    parameters: dict[str, Any],
    *arguments: str,
    python_path: str = '',
    robot: dict[str, Any] | None = None,
) -> NodeProcess:
    """Start the node with parameters in a file, and further ROS arguments.

    ``robot``: written to a robot file and passed as ``robot``.
    """
    if robot is not None:
        path = scratch / 'robot.yaml'
        path.write_text(yaml.safe_dump({'/**': {'ros__parameters': robot}}))
        parameters = {**parameters, 'robot': str(path)}
    file = scratch / 'parameters.yaml'
    file.write_text(yaml.safe_dump({'/**': {'ros__parameters': parameters}}))
    env = environment(domain, scratch)
    if python_path:
        env['PYTHONPATH'] = python_path
    return NodeProcess(
        ['--ros-args', '--params-file', str(file), *arguments], env, scratch / 'node.log'
    )


def without_empty(values: dict[str, Any]) -> dict[str, Any]:
    """Return what a ROS parameter file can hold."""
    kept = {k: without_empty(v) if isinstance(v, dict) else v for k, v in values.items()}
    return {k: v for k, v in kept.items() if v not in ([], {})}


class Peer:
    """The rest of the robot: publishes sensors, hears the node, calls its services."""

    def __init__(self, domain: int, namespace: str = '') -> None:
        self.context = rclpy.Context()
        rclpy.init(context=self.context, domain_id=domain)
        self.node = rclpy.create_node('peer', context=self.context, namespace=namespace)
        self._heard: dict[str, list[Any]] = {}
        self._news = threading.Condition()
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.node)
        self._going_on = True
        self._thread = threading.Thread(target=self._spin, name='peer', daemon=True)
        self._publishers: dict[str, Any] = {}
        self._thread.start()

    def _spin(self) -> None:
        while self._going_on:
            self._executor.spin_once(timeout_sec=0.2)

    def close(self) -> None:
        """Leave."""
        self._going_on = False
        self._thread.join(WAIT)
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)

    def listen(self, topic: str, message_type: type[Any], qos: QoSProfile = RELIABLE) -> None:
        """Keep what comes on a topic."""
        self._heard[topic] = []

        def note(message: Any) -> None:
            with self._news:
                self._heard[topic].append(message)
                self._news.notify_all()

        self.node.create_subscription(message_type, topic, note, qos)

    def listen_to_node(self) -> None:
        """Keep everything the node says."""
        self.listen('openpi_policy/action_chunk', JointTrajectory)
        self.listen('openpi_policy/action_chunk_array', Float64MultiArray)
        self.listen('openpi_policy/status', DiagnosticStatus, LATCHED)
        self.listen('openpi_policy/current_prompt', String, LATCHED)

    def heard(self, topic: str) -> list[Any]:
        """Return what came on a topic so far."""
        with self._news:
            return list(self._heard[topic])

    def forget(self, topic: str) -> None:
        """Drop what came on a topic so far."""
        with self._news:
            self._heard[topic].clear()

    def wait_until(
        self, what: str, condition: Callable[[], Any], repeat: Callable[[], Any] | None = None
    ) -> Any:
        """Block until ``condition`` returns something true; call ``repeat`` at 30 Hz meanwhile."""
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            if repeat is not None:
                repeat()
            with self._news:
                self._news.wait(1 / 30)
            result = condition()
            if result:
                return result
        raise AssertionError(f'{what}: did not happen; status: {self.status_text()}')

    def status(self) -> dict[str, str]:
        """Return the newest status as keys and values."""
        said = self.heard('openpi_policy/status')
        return {pair.key: pair.value for pair in said[-1].values} if said else {}

    def status_text(self) -> str:
        """Return the newest status in one line."""
        said = self.heard('openpi_policy/status') if 'openpi_policy/status' in self._heard else []
        return said[-1].message if said else ''

    def publisher(self, topic: str, message_type: type[Any], qos: QoSProfile) -> Any:
        """Return the publisher of a topic."""
        if topic not in self._publishers:
            self._publishers[topic] = self.node.create_publisher(message_type, topic, qos)
        return self._publishers[topic]

    def publish_image(self, topic: str, pixels: np.ndarray, **options: Any) -> None:
        """Publish pixels as they are, on a best-effort topic."""
        message = image_message(pixels, **{'stamp_ns': self.now(), **options})
        self.publisher(topic, Image, BEST_EFFORT).publish(message)

    def publish_compressed(
        self, topic: str, data: bytes, image_format: str, stamp_ns: int | None = None
    ) -> None:
        """Publish an encoded image."""
        message = CompressedImage(format=image_format)
        message.data.frombytes(data)
        set_stamp(message, self.now() if stamp_ns is None else stamp_ns)
        self.publisher(topic, CompressedImage, BEST_EFFORT).publish(message)

    def publish_joints(
        self, positions: dict[str, float], stamp_ns: int | None = None, topic: str = 'joint_states'
    ) -> None:
        """Publish joint positions."""
        message = JointState(name=list(positions), position=list(positions.values()))
        set_stamp(message, self.now() if stamp_ns is None else stamp_ns)
        self.publisher(topic, JointState, BEST_EFFORT).publish(message)

    def publish_prompt(self, text: str) -> None:
        """Publish an instruction as `ros2 topic pub` does."""
        self.publisher('prompt', String, RELIABLE).publish(String(data=text))

    def wait_matched(self, *topics: str) -> None:
        """Block until the node hears these topics."""
        for topic in topics:
            publisher = self._publishers[topic]
            self.wait_until(f'{topic} is heard', publisher.get_subscription_count)

    def now(self) -> int:
        """Return the time in nanoseconds."""
        return self.node.get_clock().now().nanoseconds

    def call(self, name: str, service_type: type[Any], request: Any) -> Any:
        """Call a service of the node."""
        client = self.node.create_client(service_type, f'openpi_policy/{name}')
        try:
            assert client.wait_for_service(WAIT), f'no service {name}'
            future = client.call_async(request)
            deadline = time.monotonic() + WAIT
            while not future.done() and time.monotonic() < deadline:
                time.sleep(0.005)
            assert future.done(), f'{name} does not answer'
            return future.result()
        finally:
            self.node.destroy_client(client)

    def transition(self, label: str) -> bool:
        """Ask for a lifecycle transition; return whether it succeeded."""
        request = ChangeState.Request()
        request.transition.label = label
        return self.call('change_state', ChangeState, request).success

    def lifecycle_state(self) -> str:
        """Return the node's lifecycle state."""
        return self.call('get_state', GetState, GetState.Request()).current_state.label

    def reset(self) -> Trigger.Response:
        """Call ~/reset."""
        return self.call('reset', Trigger, Trigger.Request())

    def set_parameter(self, name: str, value: Any) -> Any:
        """Set a parameter; return rclpy's result."""
        request = SetParameters.Request()
        request.parameters = [Parameter(name, value=value).to_parameter_msg()]
        return self.call('set_parameters', SetParameters, request).results[0]

    def get_parameters(self, *names: str) -> list[Any]:
        """Return the values of parameters."""
        request = GetParameters.Request(names=list(names))
        values = self.call('get_parameters', GetParameters, request).values
        return [rclpy.parameter.parameter_value_to_python(value) for value in values]

    def describe_parameter(self, name: str) -> Any:
        """Return a parameter's descriptor."""
        request = DescribeParameters.Request(names=[name])
        return self.call('describe_parameters', DescribeParameters, request).descriptors[0]


@contextlib.contextmanager
def peer_of(domain: int) -> Iterator[Peer]:
    """Yield a peer and close it."""
    peer = Peer(domain)
    try:
        yield peer
    finally:
        peer.close()


def set_stamp(message: Any, stamp_ns: int) -> None:
    """Stamp a message."""
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 10**9)


def image_message(
    pixels: np.ndarray,
    *,
    stamp_ns: int,
    encoding: str = 'rgb8',
    padding: int = 0,
    height: int | None = None,
) -> Image:
    """Return pixels [H, W, C] as a message whose rows are padded by so many odd bytes.

    ``height``: of the picture, where the rows are more than those.
    """
    lines, width = pixels.shape[:2]
    height = lines if height is None else height
    rows = pixels.reshape(lines, -1).view(np.uint8)
    if padding:
        rows = np.pad(rows, ((0, 0), (0, padding)), constant_values=0xA5)
    message = Image(height=height, width=width, encoding=encoding, step=rows.shape[1])
    message.data.frombytes(memoryview(np.ascontiguousarray(rows)).cast('B'))
    set_stamp(message, stamp_ns)
    return message
