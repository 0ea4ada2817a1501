# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The simulated robot and its node from launch arguments; runs where launch itself cannot."""

from __future__ import annotations

import pytest

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.ros.launch_arguments import node_parameters
from openpi_policy_ros.ros.launch_simulation import SIMULATION_ARGUMENTS, simulation


def test_the_arguments_are_distinct_and_described() -> None:
    names = [one.name for one in SIMULATION_ARGUMENTS]
    assert len(set(names)) == len(names)
    assert all(one.description.endswith('.') for one in SIMULATION_ARGUMENTS)
    assert {'model', 'robot', 'episodes', 'task', 'rate', 'wall_clock'} <= set(names)
    # What would drive nothing, or by another clock than the robot's.
    assert {'dry_run', 'use_sim_time'}.isdisjoint(names)


def test_the_node_goes_by_the_robots_clock_and_file() -> None:
    pair = simulation({'model': 'm', 'episodes': '', 'robot': ''})
    assert pair.arguments == ('--robot', 'sim_droid')
    assert node_parameters(pair.values) == {
        'model': 'm',
        'robot': 'sim_droid',
        'use_sim_time': True,
    }


def test_what_concerns_the_simulator_goes_there_alone() -> None:
    pair = simulation(
        {
            'model': 'm',
            'robot': 'mine.yaml',
            'task': 'lift bowl',
            'episodes': '3',
            'seed': '7',
            'rate': '0.5',
            'json': 'r.json',
            'video': 'v',
            'meshes': '/opt/menagerie',
            'view': 'true',
            'wall_clock': 'true',
            'prompt': 'lift it',
        }
    )
    text = ' '.join(pair.arguments)
    assert text == (
        '--robot mine.yaml --episodes 3 --seed 7 --rate 0.5 --json r.json --video v '
        '--meshes /opt/menagerie --prompt lift it --task lift bowl --view --wall-clock'
    )
    assert node_parameters(pair.values) == {
        'model': 'm',
        'robot': 'mine.yaml',
        'default_prompt': 'lift it',
        'use_sim_time': False,
    }


def test_the_simulators_program_knows_its_arguments() -> None:
    pytest.importorskip('mujoco')
    import argparse

    from openpi_policy_ros_sim.commands import ros

    parser = argparse.ArgumentParser()
    ros.add_arguments(parser, episodes=0)
    pair = simulation({'task': 'bowl', 'episodes': '2', 'wall_clock': '1', 'prompt': 'a b'})
    # What launch adds.
    options = parser.parse_args([*pair.arguments, '--ros-args', '-r', '__ns:=/left'])
    assert (options.task, options.episodes, options.prompt) == (['bowl'], 2, 'a b')
    assert options.wall_clock
    assert options.ros_args == ['-r', '__ns:=/left']
    assert parser.parse_args([]).episodes == 0


def test_results_without_episodes_are_refused() -> None:
    with pytest.raises(ConfigurationError, match='json, video: no effect without episodes'):
        simulation({'json': 'r.json', 'video': 'v', 'episodes': '0'})
