# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""package.xml and setup.py describe one package, and declare what the code imports."""

from __future__ import annotations

import ast
import itertools
import re
import runpy
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import setuptools
from catkin_pkg.package import parse_package

NAME = 'openpi_policy_ros'
SIM = 'openpi_policy_ros_sim'
# Where the name to import differs from the name to install.
DISTRIBUTIONS = {'PIL': 'pillow', 'cv2': 'opencv-python-headless', 'yaml': 'pyyaml'}
# Part of ROS 2 packages under another name.
ROS_PACKAGES = {'builtin_interfaces': 'std_msgs'}


@pytest.fixture
def manifest(root):
    warnings: list[str] = []
    package = parse_package(str(root / 'package.xml'), warnings=warnings)
    assert warnings == []
    return package


@pytest.fixture
def setup_arguments(root, monkeypatch):
    given = {}
    monkeypatch.chdir(root)
    monkeypatch.setattr(setuptools, 'setup', lambda **arguments: given.update(arguments))
    runpy.run_path('setup.py')
    return given


def test_package_xml_is_format_3_and_valid_without_a_warning(manifest):
    manifest.validate()
    assert manifest.package_format == 3
    assert [export.content for export in manifest.exports] == ['ament_python']


def test_package_xml_and_setup_py_agree(manifest, setup_arguments):
    assert setup_arguments['name'] == manifest.name
    assert setup_arguments['version'] == manifest.version
    assert [setup_arguments['license']] == manifest.licenses
    (maintainer,) = manifest.maintainers
    assert setup_arguments['maintainer'] == maintainer.name
    assert setup_arguments['maintainer_email'] == maintainer.email


def test_the_changelog_opens_with_this_version(root, manifest):
    changelog = (root / 'CHANGELOG.md').read_text(encoding='utf-8')
    assert re.findall(r'^## (\S+)', changelog, re.MULTILINE)[0] == manifest.version


def test_the_maintainer_address_has_a_domain_that_colcon_reads(manifest):
    # colcon drops a package without a word when the last label of the domain is one letter.
    assert re.fullmatch(r'[\w.-]+@[\w.-]+\.\w{2,}', manifest.maintainers[0].email)


def imported_packages(folder: Path) -> set[str]:
    """Return the top-level names that the Python files in a folder import, ours excepted."""
    names: set[str] = set()
    for path in folder.rglob('*.py'):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split('.')[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.split('.')[0])
    return names - set(sys.stdlib_module_names) - {NAME, SIM}


def test_everything_imported_is_declared(root, manifest, setup_arguments):
    extras = setup_arguments['extras_require'].values()
    required = {
        re.split(r'[<>=!~;\[ ]', text)[0]
        for text in itertools.chain(setup_arguments['install_requires'], *extras)
    }
    ros = {depend.name for depend in manifest.exec_depends}
    imported = imported_packages(root / NAME) | imported_packages(root / 'launch')
    assert imported
    undeclared = {
        name
        for name in imported
        if DISTRIBUTIONS.get(name, name.replace('_', '-')) not in required
        and ROS_PACKAGES.get(name, name) not in ros
    }
    # The rival of the bench; it asks for NumPy 1, so nobody gets it unasked.
    undeclared.discard('openpi_client')
    assert undeclared == set()


def test_what_the_simulator_imports_is_in_its_extra(root, manifest, setup_arguments):
    requirements = [*setup_arguments['install_requires'], *setup_arguments['extras_require']['sim']]
    declared = {re.split(r'[<>=!~;\[ ]', text)[0] for text in requirements}
    ros = {depend.name for depend in manifest.exec_depends}
    imported = imported_packages(root / 'sim')
    assert 'mujoco' in imported
    undeclared = {
        name
        for name in imported
        if DISTRIBUTIONS.get(name, name.replace('_', '-')) not in declared
        and ROS_PACKAGES.get(name, name) not in ros
    }
    # It asks for NumPy 1, so an extra would bring that; the command says how to install it.
    undeclared.discard('openpi_client')
    assert undeclared == set()


def test_what_only_an_extra_brings_is_imported_where_it_is_asked_for():
    code = (
        'import sys, openpi_policy_ros.cli, openpi_policy_ros.engine, openpi_policy_ros.server, '
        'openpi_policy_ros.recording.ready; '
        'print(*({"rosbags", "matplotlib", "uvloop"} & set(sys.modules)))'
    )
    done = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == ''


def test_rclpy_is_never_asked_of_pip(setup_arguments):
    assert not any('rclpy' in requirement for requirement in setup_arguments['install_requires'])


def test_every_entry_point_leads_to_something(setup_arguments):
    installed = [
        entry
        for group in setup_arguments['entry_points']
        for entry in metadata.entry_points(group=group)
        if entry.value.startswith(NAME)
    ]
    declared = [line for lines in setup_arguments['entry_points'].values() for line in lines]
    assert sorted(f'{entry.name} = {entry.value}' for entry in installed) == sorted(declared)
    for entry in installed:
        if not entry.value.startswith(f'{NAME}.ros'):
            assert entry.load() is not None


def test_the_node_has_an_entry_point_to_call():
    pytest.importorskip('rclpy')
    (entry,) = metadata.entry_points(group='console_scripts', name='openpi_policy_node')
    assert callable(entry.load())
