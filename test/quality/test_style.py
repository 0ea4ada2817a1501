# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Style is checked by tools, so that no review has to."""

from __future__ import annotations


def test_ruff_finds_nothing(run, tool):
    run([tool('ruff'), 'check', '.'])


def test_code_is_formatted(run, tool):
    run([tool('ruff'), 'format', '--check', '.'])


def test_types_are_consistent(run, tool):
    run([tool('mypy')])


def test_types_of_the_simulator_are_consistent(run, tool, root, tmp_path, plain_environment):
    # Its folder has another name than the package, which mypy knows no setting for.
    (tmp_path / 'openpi_policy_ros_sim').symlink_to(root / 'sim')
    environment = {**plain_environment, 'MYPYPATH': str(tmp_path)}
    environment.pop('PYTHONPATH', None)
    run([tool('mypy'), '-p', 'openpi_policy_ros_sim'], env=environment)


def test_imports_respect_the_rings(run, tool):
    run([tool('lint-imports'), '--no-cache'])


def test_docstrings_follow_pep257(run, tool):
    run([tool('pydocstyle'), 'openpi_policy_ros', 'sim', 'launch', 'scripts', 'setup.py'])


def test_shell_scripts_pass_shellcheck(run, tool, root):
    scripts = sorted((root / 'scripts').glob('*.sh'))
    assert scripts
    run([tool('shellcheck'), '--external-sources', *scripts, root / '.ci' / 'run'])
