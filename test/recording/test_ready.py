# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether something can be recorded is known before anything else is done, for the node as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.recording import ready
from openpi_policy_ros.ros.settings import validate_parameters


def test_the_node_tells_of_it_beside_every_other_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready, 'missing_extra', lambda *_: 'needs rosbags')
    asked = {'model': 'x', 'record': str(tmp_path / 'new'), 'port': -1}
    with pytest.raises(ConfigurationError) as caught:
        validate_parameters(asked)
    assert 'record: needs rosbags' in caught.value.problems
    assert any(problem.startswith('port') for problem in caught.value.problems)
    assert not (tmp_path / 'new').exists()


def test_nothing_is_looked_at_where_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, 'missing_extra', lambda *_: 'needs rosbags')
    assert validate_parameters({'model': 'x'}).record == ''


def test_a_folder_is_made_and_left_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, 'missing_extra', lambda *_: '')
    folder = tmp_path / 'a' / 'b'
    assert ready.require(str(folder), '--record') == folder
    assert list(folder.iterdir()) == []


def test_a_home_folder_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, 'missing_extra', lambda *_: '')
    monkeypatch.setenv('HOME', str(tmp_path))
    assert ready.require('~/recordings', 'record') == tmp_path / 'recordings'


def test_a_full_disk_is_refused_with_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready, 'missing_extra', lambda *_: '')
    monkeypatch.setattr(ready, 'START_FREE', 10**18)
    with pytest.raises(ConfigurationError, match=r'GB free, expected at least 1e\+09 GB'):
        ready.require(str(tmp_path), 'record')
