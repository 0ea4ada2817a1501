# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Demonstrations: labelled by the undisturbed expert, made once, the same for a seed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip('mujoco')

from openpi_policy_ros_sim import dataset
from openpi_policy_ros_sim.dataset import (
    Settings,
    as_the_model_sees,
    demonstrate,
    label,
    shards,
    views,
    write,
)
from openpi_policy_ros_sim.errors import SimulationError
from openpi_policy_ros_sim.examples import read_demonstrations
from openpi_policy_ros_sim.expert import Expert

SMALL = Settings(tasks=('lift',), episodes=2, noise=0.5, size=32, every=6, shard=1)


def test_a_dataset_is_written_once_and_goes_on_where_it_stopped(drawing, tmp_path, capsys):
    write(tmp_path, SMALL)
    first, second = sorted(tmp_path.glob('*.npz'))
    assert first.name == 'lift-1000000.npz'
    with np.load(first) as data:
        count = len(data['state'])
        assert count >= 8
        assert data['image_wrist'].shape == (count, 32, 32, 3)
        assert data['image_exterior_1'].dtype == np.uint8
        assert data['actions'].shape == (count, 10, 8)
        assert str(data['prompt']) == 'lift the red cube'
        assert set(data['seed']) == {1_000_000}
        # A lift ends closed and high.
        assert data['actions'][-1, -1, 7] == 1.0
        assert data['cube'][-1, 2] > 0.12
        kept = {name: data[name] for name in data.files}
    written = second.stat().st_mtime_ns
    first.unlink()
    write(tmp_path, SMALL)
    assert second.stat().st_mtime_ns == written
    with np.load(first) as data:
        for name, values in kept.items():
            np.testing.assert_array_equal(data[name], values, name)
    with pytest.raises(SimulationError, match=r'other settings \(noise\)'):
        write(tmp_path, dataclasses.replace(SMALL, noise=1.0))


def test_only_what_belongs_to_a_dataset_is_read(tmp_path):
    rows = {
        'image_exterior_1': np.zeros((2, 4, 4, 3), np.uint8),
        'image_wrist': np.zeros((2, 4, 4, 3), np.uint8),
        'state': np.zeros((2, 8), np.float32),
        'actions': np.zeros((2, 10, 8), np.float32),
        'cube': np.zeros((2, 3), np.float32),
        'bowl': np.zeros((2, 3), np.float32),
    }
    np.savez(tmp_path / 'lift-1000000.npz', prompt='lift the red cube', **rows)
    np.savez(tmp_path / 'lift-2.npz', prompt='lift the red cube', **rows)
    np.savez(tmp_path / 'round-0-lift.npz', images=rows['image_wrist'])
    found = read_demonstrations(tmp_path, SMALL)
    assert {prompt: len(each) for prompt, each in found.items()} == {'lift the red cube': 2}
    both = dataclasses.replace(SMALL, tasks=('lift', 'bowl'))
    with pytest.raises(SimulationError, match='no demonstration of bowl'):
        read_demonstrations(tmp_path, both)
    # Nor is it taken for a dataset that has yet to go on.
    with pytest.raises(SimulationError, match=r'holds lift-1000000\.npz but no dataset\.json'):
        write(tmp_path, SMALL)


def test_noise_disturbs_what_is_executed_not_what_is_learnt(drawing, kinematics):
    made = [
        demonstrate(drawing, kinematics, 'lift', 7, dataclasses.replace(SMALL, noise=noise))
        for noise in (0.0, 1.0)
    ]
    (quiet, _, *_), (noisy, later, *_) = made
    np.testing.assert_array_equal(quiet.actions, noisy.actions)
    # Six steps on, the arm is elsewhere than where its own undisturbed actions led.
    assert np.abs(later.state[:7] - made[0][1].state[:7]).max() > 1e-3


def test_parts_share_the_files_without_gap_or_overlap():
    settings = Settings(episodes=7, shard=3)
    made = list(shards(settings))
    assert [name for name, _, _ in made] == [
        'lift-1000000.npz', 'lift-1000003.npz', 'lift-1000006.npz',
        'bowl-1000007.npz', 'bowl-1000010.npz', 'bowl-1000013.npz',
    ]  # fmt: skip
    seeds = [seed for _, _, each in made for seed in each]
    assert seeds == list(range(1_000_000, 1_000_014))


def test_a_label_is_the_experts_own_chunk(drawing, kinematics):
    drawing.reset(3)
    expert = Expert('bowl', kinematics)
    sample = label(drawing, expert, views('square'), 64, 10)
    np.testing.assert_allclose(sample.actions, expert.chunk(drawing, 10), atol=1e-6)
    np.testing.assert_allclose(sample.state, drawing.state().policy_state)
    assert {image.shape for image in sample.images.values()} == {(64, 64, 3)}


def test_images_are_scaled_as_the_model_scales_them():
    image = np.zeros((224, 224, 3), np.uint8)
    image[:112] = 200
    small = as_the_model_sees(image, 64)
    assert (small[:31] == 200).all()
    assert (small[33:] == 0).all()


def test_bad_arguments_are_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        dataset.main([str(tmp_path), '--episodes', '0'])
    assert '--episodes: at least 1' in capsys.readouterr().err
    with pytest.raises(SystemExit):
        dataset.main([str(tmp_path), '--part', '2', '--parts', '2'])
    assert '--part: 0 to 1' in capsys.readouterr().err
    with pytest.raises(SimulationError, match='expected letterbox or square'):
        views('round')
