# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Show both doors on this machine, end by itself: status 0, or the reason why not.

A small random π0 checkpoint, the real node, a robot that sends three photographs and moving
joints over DDS, and the stock openpi-client on both WebSocket paths. demo.sh makes the environment
and calls this.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).resolve().parent
PHOTOS = SCRIPTS.parent / 'test' / 'data' / 'photos'
WORK = SCRIPTS.parent / '.demo'
OPENPI_PATH = '/v1/realtime/robot/openpi'
PROMPT = 'pick up the cup'
SEED = 7
CALLS = 10
OVERALL_S = 240
READY_S = 120
ROS_S = 30
STOP_S = 30
WRAP = textwrap.TextWrapper(
    width=100, subsequent_indent=26 * ' ', break_long_words=False, drop_whitespace=True
)


class DemoError(Exception):
    """The demo cannot go on; its text says why and what to do."""


def step(number: int, title: str) -> None:
    """Print the heading of the next step."""
    print(f'\n[{number}] {title}', flush=True)


def tell(label: str, value: object) -> None:
    """Print one fact, wrapped under its label."""
    print(WRAP.fill(f'    {label:<21} {value}'), flush=True)


def command(name: str) -> str:
    """Return the path of an executable of this environment."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        raise DemoError(f'{name} is not installed; run scripts/demo.sh, which installs it')
    return found


def log_tail(log: Path, lines: int = 15) -> str:
    """Return the last lines of a log file, indented."""
    text = log.read_text(encoding='utf-8', errors='replace').splitlines()
    return '\n'.join(f'      | {line}' for line in text[-lines:])


@contextmanager
def process(name: str, arguments: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process with its output in .demo/<name>.log; stop it by its pid at the end."""
    log = WORK / f'{name}.log'
    with log.open('wb') as output:
        # A session of its own: Ctrl-C reaches the demo, and the demo stops what it started.
        child = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield child
    finally:
        stop(child)


def stop(child: subprocess.Popen[bytes]) -> int:
    """End a process with SIGTERM, with SIGKILL if it does not listen; return its status."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    return child.returncode


def make_checkpoint() -> Path:
    """Write the small checkpoint once; return its folder."""
    folder = WORK / 'pi0_small'
    if not (folder / 'model.safetensors').exists():
        fresh = WORK / f'pi0_small.{os.getpid()}'
        arguments = [command('openpi-policy'), 'make-checkpoint', str(fresh), '--seed', '1']
        done = subprocess.run(
            arguments, capture_output=True, text=True, timeout=READY_S, check=False
        )
        if done.returncode != 0:
            shutil.rmtree(fresh, ignore_errors=True)
            raise DemoError(f'openpi-policy make-checkpoint failed:\n{done.stdout}{done.stderr}')
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    size = sum(path.stat().st_size for path in folder.rglob('*') if path.is_file())
    tell('folder', f'{folder} ({size / 1e6:.1f} MB, random weights, real layout)')
    return folder


def free_port() -> int:
    """Return a TCP port that is free right now."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def wait_until_ready(node: subprocess.Popen[bytes], port: int) -> dict[str, Any]:
    """Wait for /readyz to answer 200; return its body."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if node.poll() is not None:
            raise DemoError(
                f'the node ended with status {node.returncode}; its last words:\n'
                + log_tail(WORK / 'node.log')
            )
        try:
            with urllib.request.urlopen(f'http://127.0.0.1:{port}/readyz', timeout=2) as reply:
                return json.loads(reply.read())
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise DemoError(
        f'the node was not ready after {READY_S} s; its last words:\n{log_tail(WORK / "node.log")}'
    )


def show_ros_door() -> None:
    """Listen to the node's topics like any ROS node would; print what comes."""
    import rclpy
    from diagnostic_msgs.msg import DiagnosticStatus
    from rclpy.qos import DurabilityPolicy, QoSProfile
    from rclpy.signals import SignalHandlerOptions
    from std_msgs.msg import Float64MultiArray
    from trajectory_msgs.msg import JointTrajectory

    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    listener = rclpy.create_node('demo_listener')
    seen: dict[str, list[Any]] = {'action_chunk': [], 'action_chunk_array': [], 'status': []}
    delays: list[float] = []

    def on_chunk(message: JointTrajectory) -> None:
        now = listener.get_clock().now().nanoseconds * 1e-9
        delays.append(now - message.header.stamp.sec - message.header.stamp.nanosec * 1e-9)
        seen['action_chunk'].append(message)

    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    base = '/openpi_policy'
    listener.create_subscription(JointTrajectory, f'{base}/action_chunk', on_chunk, 10)
    listener.create_subscription(
        Float64MultiArray, f'{base}/action_chunk_array', seen['action_chunk_array'].append, 10
    )
    listener.create_subscription(DiagnosticStatus, f'{base}/status', seen['status'].append, latched)
    deadline = time.monotonic() + ROS_S
    complete = False
    while not complete and time.monotonic() < deadline:
        rclpy.spin_once(listener, timeout_sec=0.1)
        complete = len(delays) >= CALLS and all(seen.values())
    listener.destroy_node()
    rclpy.shutdown()
    for topic, messages in seen.items():
        if not messages:
            status = f'{base}/status: {seen["status"][-1].message}' if seen['status'] else ''
            raise DemoError(
                f'nothing came on {base}/{topic} within {ROS_S} s; {status}\n'
                + log_tail(WORK / 'node.log')
            )
    chunk, array = seen['action_chunk'][-1], seen['action_chunk_array'][-1]
    first, last = chunk.points[0], chunk.points[-1]

    def seconds(point: Any) -> float:
        return point.time_from_start.sec + point.time_from_start.nanosec * 1e-9

    tell('~/action_chunk', f'{len(chunk.points)} points x {len(chunk.joint_names)} joints')
    tell('joints', ' '.join(chunk.joint_names))
    tell('first point', f'{seconds(first):.3f} s  {numbers(first.positions)}')
    tell('last point', f'{seconds(last):.3f} s  {numbers(last.positions)}')
    sizes = [f'{dim.label}={dim.size}' for dim in array.layout.dim]
    tell('~/action_chunk_array', ', '.join(sizes))
    tell(
        'camera to chunk',
        f'{spread([1000 * delay for delay in delays])} (this machine, DDS included)',
    )
    tell('~/status', seen['status'][-1].message)


def show_openpi_client(target: str, port: int | None, observation: dict[str, Any]) -> Any:
    """Connect the stock client, infer a few times, print what comes; return the last chunk."""
    from openpi_client.websocket_client_policy import WebsocketClientPolicy

    client = WebsocketClientPolicy(target, port)
    tell('handshake', mapping(client.get_server_metadata()))
    latencies = []
    for _ in range(CALLS):
        start = time.perf_counter()
        reply = client.infer(observation)
        latencies.append(1000 * (time.perf_counter() - start))
    if isinstance(reply, dict):
        tell('reply', f'mapping: {", ".join(sorted(reply))}')
        tell('server_timing, ms', mapping({k: round(v) for k, v in reply['server_timing'].items()}))
        chunk = reply['actions']
    else:
        tell('reply', 'bare array')
        chunk = reply
    tell('chunk', f'{chunk.dtype} {chunk.shape}')
    tell('first action', numbers(chunk[0]))
    tell('round trip', f'{spread(latencies)}, {CALLS} calls')
    return chunk


def load_observation() -> dict[str, Any]:
    """Return one observation as a remote client of demo_robot.yaml would send it."""
    import cv2
    import numpy as np

    def photo(name: str) -> np.ndarray:
        return np.ascontiguousarray(cv2.imread(str(PHOTOS / name))[:, :, ::-1])

    return {
        'observation/base_image': photo('chelsea.png'),
        'observation/left_wrist_image': photo('coffee.png'),
        'observation/right_wrist_image': photo('rocket.jpg'),
        'observation/joint_position': np.linspace(-0.5, 0.5, 7, dtype=np.float32),
        'prompt': PROMPT,
        'seed': SEED,
    }


def mapping(values: dict[str, Any]) -> str:
    """Return a mapping for people."""
    return ', '.join(f'{name} {value}' for name, value in values.items() if value != '')


def numbers(values: Any) -> str:
    """Return a row of numbers for people."""
    return ' '.join(f'{value:+.3f}' for value in values)


def spread(milliseconds: list[float]) -> str:
    """Return median and maximum for people."""
    return f'median {statistics.median(milliseconds):.0f} ms, max {max(milliseconds):.0f} ms'


def demonstrate(cleanup: ExitStack) -> None:
    """Run all steps; whatever they start is stopped by ``cleanup``."""
    import numpy as np

    if 'ROS_DOMAIN_ID' not in os.environ:
        raise DemoError(
            'run scripts/demo.sh: it keeps DDS to this machine and to a domain of its own'
        )
    step(1, 'A checkpoint: openpi-policy make-checkpoint')
    model = make_checkpoint()

    step(2, 'A robot: three photographs and seven joints at 30 Hz')
    robot = cleanup.enter_context(
        process('robot', [sys.executable, str(SCRIPTS / 'demo_robot.py'), str(PHOTOS)])
    )
    tell('base camera', 'chelsea.png 451x300 as sensor_msgs/Image rgb8')
    tell('left wrist camera', 'coffee.png 600x400 as sensor_msgs/Image bgr8')
    tell('right wrist camera', 'rocket.jpg 640x427 as sensor_msgs/CompressedImage jpeg')
    tell('process', f'{robot.pid}')
    tell('DDS', f'domain {os.environ["ROS_DOMAIN_ID"]}, this machine only')

    step(3, 'The node: openpi_policy_node')
    port = free_port()
    settings = {
        'model': model,
        'policy': 'pi0',
        'robot': SCRIPTS / 'demo_robot.yaml',
        'port': port,
        'seed': SEED,
        'default_prompt': PROMPT,
    }
    arguments = [command('openpi_policy_node'), '--ros-args']
    for name, value in settings.items():
        arguments += ['-p', f'{name}:={value}']
    start = time.monotonic()
    node = cleanup.enter_context(process('node', arguments))
    tell('process', f'{node.pid}')
    ready = wait_until_ready(node, port)
    tell('ready', f'after {time.monotonic() - start:.1f} s on 127.0.0.1:{port}')
    tell('/readyz', mapping(ready))

    step(4, 'The ROS door: what any node on the robot sees')
    show_ros_door()
    if robot.poll() is not None:
        raise DemoError(f'the robot ended early:\n{log_tail(WORK / "robot.log")}')

    observation = load_observation()
    step(5, f'The OpenPI door, stock client on ws://127.0.0.1:{port}/')
    stock = show_openpi_client('127.0.0.1', port, observation)

    step(6, f'The OpenPI door, stock client on {OPENPI_PATH}')
    plain = show_openpi_client(f'ws://127.0.0.1:{port}{OPENPI_PATH}', None, observation)
    if not np.array_equal(stock, plain):
        raise DemoError('the same observation and seed gave different chunks on the two paths')
    tell('same chunk as on /', 'yes, bit for bit (same observation, same seed)')

    step(7, 'The end: SIGTERM')
    status = stop(node)
    if status != 0:
        raise DemoError(
            f'the node ended with status {status}, expected 0:\n{log_tail(WORK / "node.log")}'
        )
    tell('node', f'ended with status 0, its log: {WORK / "node.log"}')


def main() -> int:
    """Run the demo; return the exit status."""

    def interrupt(number: int, _frame: object) -> None:
        if number == signal.SIGALRM:
            raise DemoError(f'not done after {OVERALL_S} s; see the logs in {WORK}')
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, interrupt)
    signal.alarm(OVERALL_S)
    WORK.mkdir(exist_ok=True)
    start = time.monotonic()
    print('openpi_policy_ros: one policy, two doors', flush=True)
    try:
        with ExitStack() as cleanup:
            demonstrate(cleanup)
    except KeyboardInterrupt:
        print('\ninterrupted; everything the demo started has ended', file=sys.stderr)
        return 130
    except (DemoError, ImportError, subprocess.TimeoutExpired, OSError) as error:
        print(f'\nerror: {error}', file=sys.stderr)
        return 1
    print(f'\nOK, all of it in {time.monotonic() - start:.0f} s. The README says what to try next.')
    return 0


if __name__ == '__main__':
    sys.exit(main())
