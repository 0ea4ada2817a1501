# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy robot``: the operator's buttons of a running node, where no ``ros2`` is at hand.

Exit status: 0 done, 1 the node refused or two share its name, 2 nobody answered; of `diagnostics`
also 3 a part warns, 4 one is in error or stale.
"""

from __future__ import annotations

import argparse
import difflib
import math
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from openpi_policy_ros.cli.common import add_command
from openpi_policy_ros.errors import PolicyRosError

NODE = 'openpi_policy'
DIAGNOSTICS = '/diagnostics'
NOT_DONE = 1
WARNED, WRONG = 3, 4
POLL = 0.1
AT_ONCE = ('hold', 'disable')
"""What makes the robot safer is sent first; who else may have got it is asked after that."""

SETTLE = 0.3
"""Seconds in which a second node of that name has time to be found."""

AGAIN = 1.0
"""Seconds without an answer after which what makes the robot safer is sent a second time."""
LEVELS = ('OK', 'WARN', 'ERROR', 'STALE')
_NUMBER = re.compile(r'(?<![\w.])\d+(\.\d+)?(?![\w.])')
"""A number by itself: no part of a name, as in S2 or cam_1."""

DESCRIPTION = """\
Talk to a running openpi_policy_node, in the ROS domain of this shell (ROS_DOMAIN_ID):

  enable    let chunks through to the robot
  disable   hold the robot, and let nothing through any more
  hold      stop where it is; enable again to go on
  reset     forget what was seen, and begin a new session
  prompt    tell the policy what to do
  set       change one of the parameters that take effect at once, e.g. safety.velocity_scale
  status    say how the node is: the state and its reason
  diagnostics
            say how each part of it is: cameras, joints, inference, ...

None of them is a safety function: keep the robot's emergency stop in hand (docs/safety.md).
"""
EXAMPLES = """\
examples:
  how it is now, and every change until Ctrl-C:
    openpi-policy robot status
    openpi-policy robot status --follow
  one of two robots:
    openpi-policy robot enable --namespace /left
  slowly at first, then faster:
    openpi-policy robot set safety.velocity_scale=0.3
  what the policy is to do:
    openpi-policy robot prompt pick up the block
"""
ACTIONS = ('enable', 'disable', 'hold', 'reset', 'prompt', 'set', 'status', 'diagnostics')
WITH_TEXT = {'prompt': 'a text', 'set': 'NAME=VALUE'}
"""Actions that need one more word."""


class NobodyAnswers(PolicyRosError):
    """The node is not there, or not in this domain or namespace."""


class Namesakes(PolicyRosError):
    """More than one node has the name, so that it is chance which one answers."""


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        'robot',
        summary='enable, hold, reset or watch a running node (needs ROS 2)',
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.set_defaults(run=_run)
    parser.add_argument('action', choices=ACTIONS, help='see above')
    parser.add_argument('text', nargs='*', help='of prompt and set: the rest of the line')
    parser.add_argument('--namespace', default='', help='of the node, e.g. /left (default: none)')
    parser.add_argument(
        '--timeout',
        type=float,
        default=5.0,
        metavar='SECONDS',
        help='how long to wait for the node (default: 5)',
    )
    parser.add_argument(
        '--follow',
        action='store_true',
        help='status, diagnostics: every change, until Ctrl-C',
    )
    parser.add_argument(
        '--all', action='store_true', help='status, diagnostics: every key and value'
    )


def _run(options: argparse.Namespace) -> int:
    wanted = WITH_TEXT.get(options.action, '')
    text = ' '.join(options.text)
    if bool(wanted) != bool(options.text):
        raise PolicyRosError(
            f'{options.action} {text}'.strip(),
            expected=f'{wanted} after {options.action}' if wanted else f'{options.action} alone',
        )
    try:
        import rclpy
    except ImportError as error:
        raise PolicyRosError(
            f'needs ROS 2, which cannot be imported ({error})',
            remedy='source an installation, or enter the environment of scripts/install.sh '
            '(. scripts/env.sh)',
        ) from None
    with _interruptible() as interrupted, _node(rclpy) as node:
        operator = Operator(rclpy, node, options.namespace, options.timeout, interrupted)
        try:
            status = _do(operator, options, text)
            # One that was found only now may have got the command, too.
            operator.refuse_namesakes(SETTLE if options.action in AT_ONCE else 0.0)
        except Namesakes as error:
            print(error, file=sys.stderr)
            return NOT_DONE
        return status
    return 0


def _do(operator: Operator, options: argparse.Namespace, text: str) -> int:
    if options.action == 'status':
        return operator.status(follow=options.follow, everything=options.all)
    if options.action == 'diagnostics':
        return operator.diagnostics(follow=options.follow, everything=options.all)
    if options.action == 'prompt':
        return operator.prompt(text)
    if options.action == 'set':
        return operator.set(text)
    return operator.press(options.action)


class Operator:
    """Presses the buttons of one node.

    Args:
        rclpy: the module; only this command needs it.
        node: to speak with.
        namespace: of the node that is spoken to.
        timeout: seconds to wait for it.
        interrupted: whether Ctrl-C was pressed.

    Raises:
        PolicyRosError: no namespace that ROS could have.

    """

    def __init__(
        self,
        rclpy: Any,
        node: Any,
        namespace: str,
        timeout: float,
        interrupted: Callable[[], bool],
    ) -> None:
        from rclpy.exceptions import InvalidTopicNameException
        from rclpy.validate_full_topic_name import validate_full_topic_name

        self._rclpy = rclpy
        self._node = node
        self._name = '/'.join(['', *[part for part in namespace.split('/') if part], NODE])
        try:
            validate_full_topic_name(self._name)
        except InvalidTopicNameException as error:
            raise PolicyRosError(
                f'--namespace {namespace!r}: {error}', expected='that of the node, e.g. /left'
            ) from None
        self._timeout = timeout
        self._interrupted = interrupted

    def press(self, action: str) -> int:
        """Call a service of the node and print its answer."""
        from std_srvs.srv import SetBool, Trigger

        if action in ('enable', 'disable'):
            request = SetBool.Request(data=action == 'enable')
            answer = self._call('enable', SetBool, request, at_once=action in AT_ONCE)
        else:
            answer = self._call(action, Trigger, Trigger.Request(), at_once=action in AT_ONCE)
        print(answer.message)
        return 0 if answer.success else NOT_DONE

    def set(self, text: str) -> int:
        """Set a parameter of the node, NAME=VALUE with the value as in a parameter file."""
        from rcl_interfaces.srv import SetParameters

        name, value = name_and_value(text)
        parameter = self._parameter(name, value)
        if parameter is None:
            print(f'refused: {self._unknown(name)}')
            return NOT_DONE
        request = SetParameters.Request(parameters=[parameter])
        result = self._call('set_parameters', SetParameters, request).results[0]
        print(f'{name}={value}' if result.successful else f'refused: {result.reason}')
        return 0 if result.successful else NOT_DONE

    def _parameter(self, name: str, text: str) -> Any:
        """Return the parameter as a message, of the type it is declared with; None = it is not."""
        import yaml
        from rcl_interfaces.srv import DescribeParameters
        from rclpy.parameter import Parameter

        asked = DescribeParameters.Request(names=[name])
        described = self._call('describe_parameters', DescribeParameters, asked).descriptors
        if not described:
            return None
        kind = Parameter.Type(described[0].type)
        try:
            value = yaml.safe_load(text)
            if kind is Parameter.Type.STRING and not isinstance(value, str):
                value = text
            elif kind is Parameter.Type.DOUBLE and type(value) is int:
                value = float(value)
            elif kind is Parameter.Type.DOUBLE_ARRAY and isinstance(value, list):
                value = [float(one) if type(one) is int else one for one in value]
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, int) and not -(2**63) <= one < 2**63:
                    raise ValueError(f'{one} has more than 64 bits')
            return Parameter(name, value=value).to_parameter_msg()
        except (yaml.YAMLError, TypeError, ValueError, AttributeError) as error:
            raise PolicyRosError(f'set {name}={text}: {error}', expected='NAME=VALUE') from None

    def _unknown(self, name: str) -> str:
        from rcl_interfaces.srv import ListParameters

        known = self._call('list_parameters', ListParameters, ListParameters.Request()).result.names
        close = difflib.get_close_matches(name, known, n=1)
        hint = f'; did you mean {close[0]}?' if close else ''
        return f'{self._name} has no parameter {name}{hint}'

    def prompt(self, text: str) -> int:
        """Publish an instruction and wait until the node says that it uses it."""
        from rclpy.qos import DurabilityPolicy, QoSProfile
        from std_msgs.msg import String

        used: list[str] = []
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._node.create_subscription(
            String,
            f'{self._name}/current_prompt',
            lambda message: used.append(message.data),
            latched,
        )
        topic = f'{self._name.rpartition("/")[0]}/prompt'
        publisher = self._node.create_publisher(String, topic, 1)
        if not self._spin(publisher.get_subscription_count):
            raise self._nobody(f'nobody listens on {topic}')
        self.refuse_namesakes(SETTLE)
        publisher.publish(String(data=text))
        if not self._spin(lambda: used and used[-1] == text):
            raise self._nobody(f'{self._name} has not taken the prompt')
        print(f'prompt: {text}')
        return 0

    def status(self, *, follow: bool, everything: bool) -> int:
        """Print the node's newest status, or every change of it."""
        from diagnostic_msgs.msg import DiagnosticStatus
        from rclpy.qos import DurabilityPolicy, QoSProfile

        heard: list[Any] = []
        topic = f'{self._name}/status'
        latched = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._node.create_subscription(DiagnosticStatus, topic, heard.append, latched)
        if not self._spin(lambda: heard):
            raise self._nobody(f'no status on {topic}')
        self.refuse_namesakes(SETTLE)
        last = ''
        while True:
            for message in heard:
                # Ages alone change all the time.
                kind = _NUMBER.sub('#', message.message)
                if everything or kind != last:
                    _print(message, message.message, everything=everything)
                last = kind
            if not follow:
                return 0
            heard.clear()
            self._turn()

    def diagnostics(self, *, follow: bool, everything: bool) -> int:
        """Print how each part of the node is, or every change of it; return by the worst."""
        from diagnostic_msgs.msg import DiagnosticArray

        heard: list[dict[str, Any]] = []
        start = f'{self._name}: '

        def note(message: Any) -> None:
            own = {
                one.name.removeprefix(start): one
                for one in message.status
                if one.name.startswith(start)
            }
            if own:
                heard.append(own)

        self._node.create_subscription(DiagnosticArray, DIAGNOSTICS, note, 10)
        if not self._spin(lambda: heard):
            raise self._nobody(f'nothing of {self._name} on {DIAGNOSTICS}')
        self.refuse_namesakes(SETTLE)
        told: dict[str, Any] = {}
        while True:
            parts = heard[-1]
            for name, one in parts.items():
                # Numbers alone change once a second.
                said = one.level, _NUMBER.sub('', one.message)
                if told.get(name) != said:
                    line = one.message if name == 'status' else f'{name}: {one.message}'
                    _print(one, f'{LEVELS[one.level[0]]:5}  {line}', everything=everything)
                told[name] = said
            if not follow:
                worst = max(one.level[0] for one in parts.values())
                return (0, WARNED, WRONG, WRONG)[worst]
            self._turn()

    def refuse_namesakes(self, settle: float = 0.0) -> None:
        """Refuse to speak with one of several nodes of the name.

        Args:
            settle: seconds in which another one may still be found.

        Raises:
            Namesakes: there are several.

        """
        if settle:
            time.sleep(settle)
        names = [
            f'{space.rstrip("/")}/{name}'
            for name, space in self._node.get_node_names_and_namespaces()
        ]
        count = names.count(self._name)
        if count > 1:
            raise Namesakes(
                f'{count} nodes are named {self._name}: it is chance which of them a command '
                'reaches, hold and disable too',
                remedy='to stop the robot, press its emergency stop or Ctrl-C in the terminal of '
                'each node; then start one only, or each with a namespace of its own (-r '
                '__ns:=/left). One that was killed stays listed for about 20 s',
            )

    def _call(self, service: str, kind: Any, request: Any, *, at_once: bool = False) -> Any:
        """Return the answer; a call that makes the robot safer goes out ``at_once``, always."""
        name = f'{self._name}/{service}'
        client = self._node.create_client(kind, name)
        if not client.wait_for_service(self._timeout):
            raise self._nobody(f'no service {name}')
        if not at_once:
            self.refuse_namesakes(SETTLE)
        futures = [client.call_async(request)]
        if at_once and not self._spin(futures[0].done, AGAIN):
            # The node heard it, perhaps, before it knew where to answer: once more does no harm.
            futures.append(client.call_async(request))
        if not self._spin(lambda: any(one.done() for one in futures)):
            raise self._nobody(f'{name} does not answer')
        return next(one for one in futures if one.done()).result()

    def _turn(self) -> None:
        self._rclpy.spin_once(self._node, timeout_sec=POLL)
        if self._interrupted():
            raise KeyboardInterrupt

    def _spin(self, done: Callable[[], Any], most: float = math.inf) -> bool:
        deadline = time.monotonic() + min(self._timeout, most)
        while not done():
            if time.monotonic() >= deadline:
                return False
            self._turn()
        return True

    def _nobody(self, what: str) -> NobodyAnswers:
        there = self._nodes()
        domain = os.environ.get('ROS_DOMAIN_ID', '0')
        if self._name in there:
            remedy = 'the node is there, but too busy or about to end; see its log'
        elif there:
            names = ', '.join(there)
            remedy = f'in this domain ({domain}) there is {names}: give its --namespace'
        else:
            remedy = (
                f'there is no {NODE} in this domain (ROS_DOMAIN_ID={domain}); start one, or take '
                'the domain, discovery range and DDS profile of its shell (. scripts/env.sh)'
            )
        return NobodyAnswers(f'{what} within {self._timeout:g} s', remedy=remedy)

    def _nodes(self) -> list[str]:
        """Return the full names of the nodes that can be enabled."""
        from rclpy.node import NodeNameNonExistentError

        ending = f'/{NODE}/enable'
        found: set[str] = set()
        # By node: the graph's own list holds what clients ask for, ours too, though nobody has it.
        for name, namespace in self._node.get_node_names_and_namespaces():
            # It may just be leaving.
            with suppress(NodeNameNonExistentError):
                services = self._node.get_service_names_and_types_by_node(name, namespace)
                found.update(one for one, _ in services if one.endswith(ending))
        return sorted(one.removesuffix('/enable') for one in found)


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Yield what tells whether Ctrl-C was pressed.

    It raises as ever, but an exception that falls into one of rclpy's callbacks gets lost there.
    """
    pressed = threading.Event()

    def press(number: int, frame: Any) -> None:
        pressed.set()
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        # Nobody else may say what a signal does.
        yield pressed.is_set
        return
    before = signal.signal(signal.SIGINT, press)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _node(rclpy: Any) -> Any:
    """Yield a node; Ctrl-C ends what is done with it."""
    from rclpy.signals import SignalHandlerOptions

    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node(f'openpi_policy_operator_{os.getpid()}')
    try:
        yield node
    except KeyboardInterrupt:
        sys.stdout.flush()
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


def name_and_value(text: str) -> tuple[str, str]:
    """Return the two of ``NAME=VALUE``, ``NAME = VALUE`` or ``NAME VALUE``.

    Raises:
        PolicyRosError: it is none of them.

    """
    name, equals, value = text.partition('=')
    if not equals or ' ' in name.strip():
        name, _, value = text.partition(' ')
    name, value = name.strip(), value.strip()
    if not name or not value:
        raise PolicyRosError(f'set {text}', expected='NAME=VALUE')
    return name, value


def _print(message: Any, line: str, *, everything: bool) -> None:
    print(line, flush=True)
    if everything:
        for pair in message.values:
            print(f'  {pair.key}: {pair.value}')
