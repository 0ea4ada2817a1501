# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Look once a second whether another node has this one's full name.

ROS lets two nodes share a name, and then each service answers for one of them, which is chance.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

_log = logging.getLogger('openpi_policy_ros.ros.namesake')

PERIOD = 1.0
"""Seconds between two looks."""


class NamesakeWatch:
    """Tells once when another node of that name comes, and once when it is gone.

    Nothing is refused because of it: one that was killed stays on the graph for some 20 seconds.

    Args:
        node: whose name it is.
        alarm: called with what is wrong, '' = nothing any more.

    """

    def __init__(self, node: Node, alarm: Callable[[str], None]) -> None:
        self._node = node
        self._alarm = alarm
        self._others = 0
        self._failing = False
        # On a steady clock: with use_sim_time and no /clock, the node's timers stand still.
        self._clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(
            PERIOD, self._tick, callback_group=MutuallyExclusiveCallbackGroup(), clock=self._clock
        )

    def look(self) -> None:
        """Look now."""
        own = (self._node.get_name(), self._node.get_namespace())
        found = self._node.get_node_names_and_namespaces().count(own)
        others, before = max(found - 1, 0), self._others
        self._others = others
        name = self._node.get_fully_qualified_name()
        if others and not before:
            text = (
                f'another node is named {name} too, and commands reach either; stop one of them, '
                'or give each a namespace'
            )
            _log.error('%s (one that was killed stays listed for about 20 s)', text)
            self._alarm(text)
        elif before and not others:
            _log.info('no other node is named %s any more', name)
            self._alarm('')

    def _tick(self) -> None:
        # An exception in a callback would end the executor's turn, and be told as another's.
        try:
            self.look()
            self._failing = False
        except Exception:
            if not self._failing:
                _log.exception('the names of other nodes cannot be looked at')
            self._failing = True
