# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A fake robot and the real node in its own process, which drives it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from arm import robot_file
from judge import MOVING, Record
from node_process import NodeProcess, install_policy, new_domain, start_node
from robot import FakeRobot, Faults, Said

HERE = Path(__file__).resolve().parent
QUIET = 0.35
"""Longer than what may still come after a stop, s."""


class Scene:
    """One robot; its node may be started more than once.

    Attributes:
        robot: lives for as long as the scene.
        node: the newest.

    """

    def __init__(
        self,
        scratch: Path,
        *,
        simulated: float | None = None,
        domain: int | None = None,
        namespace: str = '',
    ) -> None:
        self._scratch = scratch
        self._domain = new_domain() if domain is None else domain
        self._arguments = ['-r', f'__ns:=/{namespace}'] if namespace else []
        self.robot = FakeRobot(self._domain, simulated=simulated, namespace=namespace)
        self.node: NodeProcess
        self._policy, self._path = install_policy(scratch, 'steered', HERE)
        self._starts = 0

    def start(self, parameters: dict[str, Any] | None = None, **sections: dict[str, Any]) -> None:
        """Start a node and wait until it is ready, which it is only where chunks flow.

        Args:
            parameters: of the node.
            sections: of the robot file, key by key.

        """
        self._starts += 1
        scratch = self._scratch / f'start_{self._starts}'
        scratch.mkdir()
        self.node = start_node(
            scratch,
            self._domain,
            {
                'model': 'steered',
                'policy': str(self._policy),
                'port': 0,
                'default_prompt': 'still',
                'inference_timeout': 1.5,
                'use_sim_time': self.robot.simulated is not None,
                **(parameters or {}),
            },
            *self._arguments,
            python_path=self._path,
            robot=robot_file(**sections),
        )
        self.node.wait_for('active')
        self.ready()

    def ready(self) -> None:
        """Wait until the robot could be enabled: nothing is missing."""

        def flows() -> bool:
            said = self.robot.said()
            return said.state in ('READY', 'HOLD') and 'no image' not in said.reason

        self.robot.wait_until('the node is ready', flows)

    def rest(self) -> None:
        """Mend the robot, disable it and begin a new record: what each scenario starts from."""
        self.robot.faults = Faults()
        self.robot.prompt('still')
        moving = self.robot.said().state in MOVING
        self.robot.enable(False)
        self.robot.wait_for('READY')
        if moving:
            time.sleep(QUIET)
        self.robot.begin()

    def drive(self, prompt: str = 'sine') -> Said:
        """Enable the robot and wait until a chunk drives it."""
        self.robot.prompt(prompt)
        self.enable()
        return self.robot.wait_for('ENABLED')

    def enable(self) -> None:
        """Enable the robot, as soon as nothing stands against it."""
        texts: list[str] = []

        def done() -> bool:
            success, text = self.robot.enable()
            texts.append(text)
            return success

        try:
            self.robot.wait_until('the robot can be enabled', done)
        except AssertionError as error:
            raise AssertionError(f'{error}; {texts[-1]}') from None

    def hold(self, reason: str) -> Said:
        """Wait for HOLD with a reason, and until nothing can follow any more."""
        said = self.robot.wait_for('HOLD', reason)
        time.sleep(QUIET)
        return said

    def check(self) -> list[Record]:
        """Assert that the node has done nothing wrong; return the commands of the arm."""
        found = self.robot.violations()
        assert not found, found
        return self.robot.commands('arm')

    def kill(self) -> None:
        """Kill the node as a crash would."""
        os.kill(self.node.process.pid, signal.SIGKILL)
        self.node.process.wait()
        self.robot.note('killed')

    def close(self) -> None:
        """End everything."""
        if self._starts:
            self.node.kill()
        self.robot.close()


@contextlib.contextmanager
def scene(scratch: Path, *, simulated: float | None = None) -> Iterator[Scene]:
    """Yield a scene and end it."""
    made = Scene(scratch, simulated=simulated)
    try:
        yield made
    finally:
        made.close()
