# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Random faults, one after the other, on a robot that is enabled again and again.

Whatever happens, no command breaks a limit. ``OPENPI_EXTENDED=1``: for longer, in every mode, and
with another seed each time (``OPENPI_SEED`` repeats one).
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

pytest.importorskip('rclpy')

from arm import CAMERAS, JOINTS, RATE
from judge import MOVING
from robot import Faults
from scene import QUIET, Scene, scene

pytestmark = pytest.mark.ros

EXTENDED = os.environ.get('OPENPI_EXTENDED') == '1'
SECONDS = 120.0 if EXTENDED else 60.0
SEED = int(os.environ.get('OPENPI_SEED') or (time.time_ns() % 10**6 if EXTENDED else 5))
MOVING_PROMPTS = (
    'sine gripper=0.9',
    'sine slow=0.3',
    'chatter',
    'step',
    'step by=0.4',
    'fast',
    'fast speed=8 slow=0.2',
    'wild to=0.3',
    'wild to=0.8 gripper=0.9 slow=0.1',
    'beyond pace=0.6',
    'beyond to=-1.0 pace=1.0',
)
FAILING_PROMPTS = ('wild to=3.0', 'jump', 'nan', 'inf', 'narrow', 'raise', 'late', 'hang after=1.8')


@pytest.mark.timeout(SECONDS + 90.0)
@pytest.mark.parametrize('mode', ['async', 'open_loop', 'ensemble'] if EXTENDED else ['async'])
def test_no_command_ever_breaks_a_limit_whatever_fails(tmp_path: Path, mode: str) -> None:
    dice = random.Random(SEED)
    with scene(tmp_path) as act:
        act.start(execution={'mode': mode})
        act.robot.begin()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            act.robot.faults = Faults()
            act.robot.prompt(dice.choice(('sine', 'sine gripper=0.9')))
            if act.robot.said().state not in MOVING:
                act.robot.reset()
                act.enable()
            time.sleep(dice.uniform(0.2, 0.8))
            for _ in range(dice.randint(1, 3)):
                _spoil(act, dice)
                time.sleep(dice.uniform(0.1, 0.7))
        act.robot.enable(False)
        act.robot.wait_for('READY')
        time.sleep(QUIET)
        found = act.robot.violations()
        assert not found, f'seed {SEED}: {found}'
        assert act.node.process.poll() is None
        # It was no idle time: commands came for a good part of it, in more than one stretch.
        assert len(act.robot.commands('arm')) > 0.3 * RATE * SECONDS
        assert act.robot.states().count('HOLD') > 2
        assert act.robot.counter('slowed') > RATE


def _spoil(act: Scene, dice: random.Random) -> None:
    what = dice.random()
    if what < 0.55:
        act.robot.prompt(dice.choice(MOVING_PROMPTS))
    elif what < 0.65:
        act.robot.prompt(dice.choice(FAILING_PROMPTS))
    elif what < 0.9:
        act.robot.faults = _faults(dice)
    elif what < 0.94:
        act.robot.reset()
    elif what < 0.97:
        act.robot.hold()
    else:
        act.robot.enable(dice.random() < 0.5)


def _faults(dice: random.Random) -> Faults:
    faults = Faults()
    camera = faults.cameras[dice.choice(CAMERAS)]
    kind = dice.randrange(9)
    if kind == 0:
        camera.stopped = True
    elif kind == 1:
        camera.drop = dice.uniform(0.2, 0.95)
    elif kind == 2:
        camera.delay = dice.uniform(0.05, 0.5)
    elif kind == 3:
        camera.skew = dice.uniform(0.05, 0.2)
    elif kind == 4:
        camera.encoding = '16UC1'
    elif kind == 5:
        faults.joints_stopped = True
    elif kind == 6:
        faults.without = (dice.choice(JOINTS),)
    elif kind == 7:
        faults.joints_behind = dice.randint(1, 20)
    else:
        faults.interlock = dice.random() < 0.5
        faults.interlock_silent = faults.interlock
    return faults
