# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What ``sim.launch.py`` does, without launch: which arguments go to the simulator, and which on.

The simulator itself is another package, which is started and not imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.ros.launch_arguments import ARGUMENTS, SIMULATED, LaunchArgument, is_true

EXECUTABLE = 'openpi_policy_sim_robot'
ROBOT = SIMULATED
SOURCE = 'sim.launch.py'
_OURS = (
    LaunchArgument(
        'task',
        'text',
        'What is told and judged in each episode: lift, bowl, or both with a space between. '
        'Default: lift.',
    ),
    LaunchArgument(
        'episodes',
        'integer',
        'How many of each task, after which all ends with a table. Default: 0, the robot just '
        'lives; enable the node by hand.',
    ),
    LaunchArgument('seed', 'integer', 'Seed of the first scene. Default: 0.'),
    LaunchArgument(
        'rate', 'text', 'Most simulated seconds per second. Default: 1; 0.5 for slow machines.'
    ),
    LaunchArgument('json', 'text', 'File for the results of episodes. Default: none.'),
    LaunchArgument('video', 'text', 'Folder for one MP4 file per episode. Default: none.'),
    LaunchArgument(
        'meshes',
        'text',
        "Folder with mujoco_menagerie's franka_emika_panda to draw the robot with. Default: none.",
    ),
    LaunchArgument('view', 'boolean', 'true = show a window. Default: false.'),
    LaunchArgument(
        'wall_clock',
        'boolean',
        'true = stamp with the time of day instead of publishing /clock. Default: false.',
    ),
)
_SETTLED = ('use_sim_time', 'dry_run')
SIMULATION_ARGUMENTS = (
    *(
        replace(one, description=f'Robot file: a stem of config/ or a path. Default: {ROBOT}.')
        if one.name == 'robot'
        else replace(
            one, description='Instruction instead of that of the task. Default: that of the task.'
        )
        if one.name == 'prompt'
        else one
        for one in ARGUMENTS
        if one.name not in _SETTLED
    ),
    *_OURS,
)
"""Arguments of ``sim.launch.py``; whether there is a clock follows from ``wall_clock``."""


@dataclass(frozen=True)
class Simulation:
    """A simulated robot and the node that drives it.

    Attributes:
        values: argument of ``serve.launch.py`` → text, '' = not given.
        arguments: of ``openpi_policy_sim_robot``.

    """

    values: Mapping[str, str]
    arguments: tuple[str, ...]


def simulation(values: Mapping[str, str]) -> Simulation:
    """Return what these arguments describe.

    Args:
        values: argument → text, '' = not given.

    Raises:
        ConfigurationError: results or a window are wanted that nobody would fill.

    """
    robot = values.get('robot') or ROBOT
    wall_clock = is_true(values.get('wall_clock', ''))
    if values.get('episodes', '0') in ('', '0'):
        idle = [name for name in ('json', 'video') if values.get(name)]
        if idle:
            raise ConfigurationError(
                SOURCE, [f'{", ".join(idle)}: no effect without episodes; say episodes:=3']
            )
    arguments = ['--robot', robot]
    for name in ('episodes', 'seed', 'rate', 'json', 'video', 'meshes', 'prompt'):
        if values.get(name):
            arguments += [f'--{name}', values[name]]
    if values.get('task'):
        arguments += ['--task', *values['task'].split()]
    if is_true(values.get('view', '')):
        arguments.append('--view')
    if wall_clock:
        arguments.append('--wall-clock')
    known = {one.name for one in ARGUMENTS}
    node = {name: text for name, text in values.items() if name in known}
    return Simulation(
        {**node, 'robot': robot, 'use_sim_time': str(not wall_clock).lower()}, tuple(arguments)
    )
