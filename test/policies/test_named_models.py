# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A checkpoint that an installed package brings is found by its name."""

from __future__ import annotations

import logging
from importlib import metadata
from pathlib import Path

import pytest

from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies import named_models
from openpi_policy_ros.policies.checkpoint_files import find_directory
from openpi_policy_ros.policies.inspection import inspect_model
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.policies.pi0.make_checkpoint import make_checkpoint
from openpi_policy_ros_sim import demo


@pytest.fixture
def shipped(tmp_path, monkeypatch) -> Path:
    """Stand in for the shipped checkpoint with one of random weights."""
    folder = tmp_path / 'shipped'
    make_checkpoint(folder, 'small', 0)
    monkeypatch.setattr(demo, 'FOLDER', folder)
    return folder


def test_the_demo_checkpoint_is_found_by_its_name(shipped):
    assert named_models.names() == ('demo',)
    assert named_models.has('demo')
    assert named_models.find('demo') == find_directory('demo') == shipped
    assert named_models.find('other') is None
    assert not named_models.has('other')


def test_it_is_loaded_and_inspected_like_a_folder_and_the_log_says_which(shipped, caplog):
    assert inspect_model('demo').errors == ()
    with caplog.at_level(logging.INFO, 'openpi_policy_ros.policies'):
        policy = load_policy('demo')
    try:
        assert f'model demo: the checkpoint that came with an installed package, {shipped}' in (
            caplog.text
        )
    finally:
        policy.close()


def test_a_folder_of_that_name_wins(shipped, tmp_path, monkeypatch):
    (tmp_path / 'demo').mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_directory('demo') == Path('demo')


def test_a_missing_checkpoint_is_told_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, 'FOLDER', tmp_path / 'nothing')
    assert not named_models.has('demo')
    with pytest.raises(CheckpointError, match='the trained demo checkpoint is missing') as caught:
        load_policy('demo', profile=load_robot('droid_jointpos').profile)
    assert 'scripts/train_demo_policy.py' in str(caught.value)


def test_a_package_that_does_not_import_is_named(monkeypatch):
    broken = metadata.EntryPoint('mine', 'no_such_package.models:folder', named_models.GROUP)
    monkeypatch.setattr(metadata, 'entry_points', lambda group: [broken])
    with pytest.raises(CheckpointError, match='models:folder cannot be imported'):
        find_directory('mine')
    with pytest.raises(CheckpointError, match="'yours' is no directory") as caught:
        find_directory('yours')
    assert "or 'mine'" in str(caught.value)
