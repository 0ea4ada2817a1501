# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy robot``: the operator's buttons of a running node, where no ``ros2`` is at hand.

Exit status: 0 done, 1 the node refused, 2 nobody answered.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from typing import Any

from openpi_policy_ros.cli.common import add_command
from openpi_policy_ros.errors import PolicyRosError

NODE = 'openpi_policy'
NOT_DONE = 1
POLL = 0.1

DESCRIPTION = """\
Talk to a running openpi_policy_node, in the ROS domain of this shell (ROS_DOMAIN_ID):

  enable    let chunks through to the robot
  disable   hold the robot, and let nothing through any more
  hold      stop where it is; enable again to go on
  reset     forget what was seen, and begin a new session
  prompt    tell the policy what to do
  set       change one of the parameters that take effect at once, e.g. safety.velocity_scale
  status    say how the node is: the state and its reason

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
    openpi-policy robot prompt "pick up the block"
"""
ACTIONS = ('enable', 'disable', 'hold', 'reset', 'prompt', 'set', 'status')
WITH_TEXT = {'prompt': 'a text', 'set': 'NAME=VALUE'}
"""Actions that need one more word."""


class NobodyAnswers(PolicyRosError):
    """The node is not there, or not in this domain or namespace."""


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
    parser.add_argument('text', nargs='?', help='of prompt and set')
    parser.add_argument('--namespace', default='', help='of the node, e.g. /left (default: none)')
    parser.add_argument(
        '--timeout',
        type=float,
        default=5.0,
        metavar='SECONDS',
        help='how long to wait for the node (default: 5)',
    )
    parser.add_argument('--follow', action='store_true', help='status: every change, until Ctrl-C')
    parser.add_argument('--all', action='store_true', help='status: every key and value')


def _run(options: argparse.Namespace) -> int:
    wanted = WITH_TEXT.get(options.action, '')
    if bool(wanted) != (options.text is not None):
        raise PolicyRosError(
            f'{options.action} {options.text or ""}'.strip(),
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
    with _node(rclpy) as node:
        operator = Operator(rclpy, node, options.namespace, options.timeout)
        if options.action == 'status':
            return operator.status(follow=options.follow, everything=options.all)
        if options.action == 'prompt':
            return operator.prompt(options.text)
        if options.action == 'set':
            return operator.set(options.text)
        return operator.press(options.action)


class Operator:
    """Presses the buttons of one node.

    Args:
        rclpy: the module; only this command needs it.
        node: to speak with.
        namespace: of the node that is spoken to.
        timeout: seconds to wait for it.

    Raises:
        PolicyRosError: no namespace that ROS could have.

    """

    def __init__(self, rclpy: Any, node: Any, namespace: str, timeout: float) -> None:
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

    def press(self, action: str) -> int:
        """Call a service of the node and print its answer."""
        from std_srvs.srv import SetBool, Trigger

        if action in ('enable', 'disable'):
            answer = self._call('enable', SetBool, SetBool.Request(data=action == 'enable'))
        else:
            answer = self._call(action, Trigger, Trigger.Request())
        print(answer.message)
        return 0 if answer.success else NOT_DONE

    def set(self, text: str) -> int:
        """Set a parameter of the node, NAME=VALUE with the value as in a parameter file."""
        import yaml
        from rcl_interfaces.srv import SetParameters
        from rclpy.parameter import Parameter

        name, equals, value = text.partition('=')
        try:
            read = yaml.safe_load(value)
            for number in read if isinstance(read, list) else [read]:
                if isinstance(number, int) and not -(2**63) <= number < 2**63:
                    raise ValueError(f'{number} has more than 64 bits')
            parameter = Parameter(name, value=read).to_parameter_msg()
        except (yaml.YAMLError, TypeError, ValueError, AttributeError) as error:
            raise PolicyRosError(f'set {text}: {error}', expected='NAME=VALUE') from None
        if not equals or not name:
            raise PolicyRosError(f'set {text}', expected='NAME=VALUE')
        request = SetParameters.Request(parameters=[parameter])
        result = self._call('set_parameters', SetParameters, request).results[0]
        print(text if result.successful else f'refused: {result.reason}')
        return 0 if result.successful else NOT_DONE

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
        last = ''
        while True:
            for message in heard:
                # Numbers alone change once a second.
                if everything or message.message != last:
                    _print(message, everything=everything)
                last = message.message
            if not follow:
                return 0
            heard.clear()
            self._rclpy.spin_once(self._node, timeout_sec=POLL)

    def _call(self, service: str, kind: Any, request: Any) -> Any:
        name = f'{self._name}/{service}'
        client = self._node.create_client(kind, name)
        if not client.wait_for_service(self._timeout):
            raise self._nobody(f'no service {name}')
        future = client.call_async(request)
        if not self._spin(future.done):
            raise self._nobody(f'{name} does not answer')
        self._refuse_twins()
        return future.result()

    def _refuse_twins(self) -> None:
        """Refuse an answer that may be another node's than the one that moves the robot."""
        all_ = self._node.get_node_names_and_namespaces()
        count = sum(self._name == f'{space.rstrip("/")}/{name}' for name, space in all_)
        if count > 1:
            raise PolicyRosError(
                f'{count} nodes are called {self._name}: one of them has answered, and another may '
                'move the robot',
                expected='one',
                remedy='stop the robot with its emergency stop where it moves; end all nodes but '
                'one, or give each a namespace',
            )

    def _spin(self, done: Callable[[], Any]) -> bool:
        deadline = time.monotonic() + self._timeout
        while not done():
            if time.monotonic() >= deadline:
                return False
            self._rclpy.spin_once(self._node, timeout_sec=POLL)
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


def _print(message: Any, *, everything: bool) -> None:
    print(message.message, flush=True)
    if everything:
        for pair in message.values:
            print(f'  {pair.key}: {pair.value}')
