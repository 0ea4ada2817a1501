# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy or a robot is a shipped stem or a path; anything else gets a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpi_policy_ros.configuration import files
from openpi_policy_ros.configuration.policy_file import load_policy_file
from openpi_policy_ros.errors import ConfigurationError


def test_a_stem_means_the_shipped_file():
    path = files.resolve('pi0', 'policy')
    assert path == files.config_directory() / 'pi0.yaml'
    assert path.is_file()


def test_a_path_means_itself(tmp_path: Path):
    path = tmp_path / 'mine.yaml'
    path.write_text('policy: pi0\n', encoding='utf-8')
    assert files.resolve(str(path), 'policy') == path


def test_a_file_name_in_the_working_directory_is_a_path(tmp_path: Path, monkeypatch):
    (tmp_path / 'mine.yaml').write_text('{}', encoding='utf-8')
    monkeypatch.chdir(tmp_path)
    assert files.resolve('mine.yaml', 'robot') == Path('mine.yaml')


def test_a_tilde_means_the_home_directory(tmp_path: Path, monkeypatch):
    (tmp_path / 'arm.yaml').write_text('{}', encoding='utf-8')
    monkeypatch.setenv('HOME', str(tmp_path))
    assert files.resolve('~/arm.yaml', 'robot') == tmp_path / 'arm.yaml'


def test_a_path_that_does_not_exist_is_named(tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r'nowhere\.yaml does not exist'):
        files.resolve(str(tmp_path / 'nowhere.yaml'), 'robot')


def test_a_relative_path_is_told_with_the_folder_it_was_looked_for_in(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError) as caught:
        files.resolve('robots/t1.yaml', 'robot')
    assert f'robots/t1.yaml does not exist; it was looked for in {tmp_path}' in str(caught.value)


def test_an_unknown_stem_gets_the_nearest_shipped_one_and_the_list():
    with pytest.raises(ConfigurationError, match=r"did you mean 'droid'.*shipped: .*droid"):
        files.resolve('droit', 'robot')


@pytest.mark.parametrize(('name', 'kind'), [('droid', 'policy'), ('pi0', 'robot')])
def test_a_robot_is_no_policy_and_the_other_way_round(name, kind):
    with pytest.raises(ConfigurationError, match=f'{kind} file'):
        files.resolve(name, kind)


def test_a_robot_file_given_as_policy_by_path_is_told_apart():
    path = files.config_directory() / 'droid.yaml'
    with pytest.raises(ConfigurationError, match='is a robot file; pass it as robot'):
        load_policy_file(str(path))


def write(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / 'my_policy.yaml'
    path.write_bytes(content)
    return str(path)


def test_the_policy_is_the_stem_unless_the_file_names_one(tmp_path: Path):
    assert load_policy_file(write(tmp_path, b'dtype: float32\n')).policy == 'my_policy'
    read = load_policy_file(write(tmp_path, b'policy: pi0\ndtype: float32\n'))
    assert (read.policy, dict(read.options)) == ('pi0', {'dtype': 'float32'})


@pytest.mark.parametrize(
    ('content', 'named'),
    [
        (b'- a\n', 'holds a list at its top'),
        (b'a: [1\n', 'is not YAML: .*line 2'),
        (b'\xff\xfe\x00', 'cannot be read'),
        (b'policy: 3\n', 'policy: expected a name, found 3'),
        (b'stages: []\n', 'has 0 stages'),
        (b'dtype: float32\na: 1\ndtype: bfloat16\n', "key 'dtype' occurs twice.*line 3"),
        (b'a: {b: 1, b: 2}\n', "key 'b' occurs twice"),
        (b'a: &again\n  b: *again\n', 'is not YAML: .*recursive'),
    ],
)
def test_an_unreadable_policy_file_says_why_and_which(tmp_path: Path, content, named):
    path = write(tmp_path, content)
    with pytest.raises(ConfigurationError, match=f'(?s){named}') as caught:
        load_policy_file(path)
    assert path in str(caught.value)


def test_a_merged_mapping_may_be_overridden(tmp_path: Path):
    content = b'a: &a {x: 1, y: 2}\nb: &b {z: 3}\nc: {<<: *a, <<: *b, x: 4}\n'
    read = load_policy_file(write(tmp_path, content))
    assert read.options['c'] == {'x': 4, 'y': 2, 'z': 3}


def test_an_empty_policy_file_has_no_options(tmp_path: Path):
    assert dict(load_policy_file(write(tmp_path, b'')).options) == {}
