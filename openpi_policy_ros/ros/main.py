# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Executable ``openpi_policy_node``: run the node until a signal, and leave cleanly.

rclpy's own signal handlers end the context first, so that nothing can be published any more. Ours
only notes the signal; a second one changes nothing.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rclpy.executors import Executor

    from openpi_policy_ros.ros.node import PolicyNode

_log = logging.getLogger('openpi_policy_ros.ros.main')

SIGNALS = (signal.SIGINT, signal.SIGTERM)

SERVICES = 4
"""Services that may run at once, beside the sensors."""

LOADING_PATIENCE = 1.0
"""Seconds a stop waits for a configuration in progress; loading weights cannot be cut short."""

STOPPING_PATIENCE = 60.0
"""Seconds a stop waits for another transition: clients get their last answers in it."""

MOST_FAILURES = 10
"""Callbacks in a row that may fail before the executor itself is taken to be broken."""

SWITCH_INTERVAL = 1e-4
"""Seconds after which a thread gives the interpreter to one that waits for it. A policy's thread
waits for it after every operation of the network, hundreds of times a chunk, while callbacks
receive images; with Python's 5 ms a small model yielded less than half as many chunks
(docs/performance.md)."""

_POLL = 0.1

USAGE = """\
usage: openpi_policy_node --ros-args -p model:=CHECKPOINT [-p NAME:=VALUE ...] [--params-file FILE]

Serve a policy to OpenPI clients, and to the robot whose topics are subscribed.

  -p model:=DIRECTORY    checkpoint, or a hub id; needed
  -p policy:=pi0         policy file, a stem of config/ or a path
  -p robot:=droid        robot file, a stem of config/ or a path; none = serve remote clients only
  -p default_prompt:=TEXT, -p host:=ADDRESS, -p port:=NUMBER, -p device:=cuda, -p seed:=NUMBER, ...

`ros2 launch openpi_policy_ros serve.launch.py --show-args` describes the common ones,
`ros2 param describe /openpi_policy NAME` every one.
"""


def main(args: Sequence[str] | None = None) -> int:
    """Run the node; return 0 after a signal, 1 when it could not start, 2 for wrong arguments."""
    # Only ``put`` of a SimpleQueue may interrupt itself, so only it is safe in a handler.
    stop: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
    for number in SIGNALS:
        signal.signal(number, lambda n, _: stop.put((signal.Signals(n).name, 0)))

    sys.setswitchinterval(SWITCH_INTERVAL)

    import rclpy
    from rclpy.exceptions import NameValidationException, ParameterException
    from rclpy.signals import SignalHandlerOptions
    from rclpy.utilities import remove_ros_args

    from openpi_policy_ros.ros.arguments import mistakes
    from openpi_policy_ros.ros.executor import NodeExecutor
    from openpi_policy_ros.ros.logs import bridge, unbridge
    from openpi_policy_ros.ros.node import PolicyNode

    try:
        others = remove_ros_args(['', *(sys.argv[1:] if args is None else args)])[1:]
        if others:
            return _explain(others, mistakes(sys.argv[1:] if args is None else args))
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
        node = PolicyNode()
    except (RuntimeError, ValueError, NameValidationException, ParameterException) as error:
        # What rclpy raises for wrong arguments and parameter files.
        wrong = mistakes(sys.argv[1:] if args is None else args)
        _complain([*wrong, f'{type(error).__name__}: {error}'])
        rclpy.try_shutdown()
        return 2
    handler = bridge(node.get_logger())
    executor = NodeExecutor(SERVICES)
    executor.add_node(node)
    spinning = threading.Event()
    spinning.set()
    threads = [_thread('spin', lambda: _spin(executor, spinning.is_set), stop)]
    if node.autostart:
        threads.append(_thread('autostart', lambda: _start_up(node, stop), stop))
    reason, status = _wait(stop)
    for number in SIGNALS:
        # Ignored also by the interpreter's last steps, which give other handlers back.
        signal.signal(number, signal.SIG_IGN)
    _log.info('stopping: %s', reason)
    # Before anything that may take its time: the robot stands still from here on.
    node.halt()
    spinning.clear()
    executor.wake()
    for thread in threads:
        thread.join(LOADING_PATIENCE)
    if node.loading or not node.shut_down(STOPPING_PATIENCE):
        # Nobody can be connected yet, so there is nobody to say goodbye to.
        _log.warning('left in the middle of %s', 'loading' if node.loading else 'a transition')
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    executor.shutdown()
    unbridge(handler)
    node.destroy_node()
    rclpy.try_shutdown()
    return status


def _wait(stop: queue.SimpleQueue[tuple[str, int]]) -> tuple[str, int]:
    """Return why to stop and the exit status, once somebody put them."""
    # Not one long get: a signal that comes just before it blocks would wait for the next signal,
    # since Python runs handlers only between instructions.
    while True:
        try:
            return stop.get(timeout=_POLL)
        except queue.Empty:
            continue


def _complain(problems: Sequence[str]) -> None:
    for problem in problems:
        print(f'openpi_policy_node: {problem}', file=sys.stderr)


def _explain(others: Sequence[str], wrong: Sequence[str]) -> int:
    """Answer arguments that are not ROS's: a question, or a mistake."""
    if set(others) <= {'-h', '--help'}:
        print(USAGE)
        return 0
    _complain([f'unknown arguments: {others}', *wrong])
    print(f'\n{USAGE}', file=sys.stderr)
    return 2


def _spin(executor: Executor, going_on: Callable[[], bool]) -> None:
    """Run callbacks; one that fails, say a service that got nonsense, does not end the others."""
    failures = 0
    # Executor.shutdown() from another thread pulls the wait set from under spin().
    while going_on():
        try:
            executor.spin_once(timeout_sec=_POLL)
            failures = 0
        except Exception:
            failures += 1
            if failures == MOST_FAILURES or not executor.context.ok():
                raise
            _log.exception('a ROS callback failed')


def _start_up(node: PolicyNode, stop: queue.SimpleQueue[tuple[str, int]]) -> None:
    if not node.start_up():
        stop.put(('the node could not start (see above)', 1))


def _thread(
    name: str, run: Callable[[], None], stop: queue.SimpleQueue[tuple[str, int]]
) -> threading.Thread:
    """Start a thread whose unexpected end stops the process."""

    def guarded() -> None:
        try:
            run()
        except Exception:
            _log.exception('%s failed', name)
            stop.put((f'{name} failed', 1))

    thread = threading.Thread(target=guarded, name=name, daemon=True)
    thread.start()
    return thread


if __name__ == '__main__':
    sys.exit(main())
