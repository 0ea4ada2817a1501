# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the checks of the repository itself share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Not ours: version control, caches, environments, build results.
FOREIGN = {'.git', '__pycache__', 'build', 'dist', 'install', 'log'}
FOREIGN_PREFIXES = ('.venv', '.demo', '.mypy', '.ruff', '.pytest', '.hypothesis', '.import_linter')
SOURCES = (
    'setup.py',
    'setup.cfg',
    'pyproject.toml',
    'package.xml',
    'README.md',
    'LICENSE',
    'resource',
    'launch',
    'config',
    'openpi_policy_ros',
    'sim',
)


def _ours(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name in FOREIGN or path.name.startswith(FOREIGN_PREFIXES):
            continue
        if path.is_dir():
            if not path.name.endswith('.egg-info') and not (path / 'pyvenv.cfg').exists():
                yield from _ours(path)
        else:
            yield path


@pytest.fixture(scope='session')
def root() -> Path:
    """Return the top folder of the repository."""
    return ROOT


@pytest.fixture(scope='session')
def repository_files() -> list[Path]:
    """Return every file of the repository itself."""
    return list(_ours(ROOT))


@pytest.fixture(scope='session')
def plain_environment() -> dict[str, str]:
    """Return the environment without what the ROS wheels leak into another venv's Python."""
    environment = dict(os.environ)
    if environment.pop('_ROS_WHEELS_BOOTSTRAP_COMPLETE', None):
        environment.pop('LD_LIBRARY_PATH', None)
    return environment


@pytest.fixture(scope='session')
def run(plain_environment: dict[str, str]) -> Callable[..., str]:
    """Return a function that runs a command in the repository and expects it to succeed."""

    def run(
        command: Sequence[str | Path],
        *,
        cwd: Path = ROOT,
        env: dict[str, str] = plain_environment,
        timeout: float = 110.0,
    ) -> str:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=cwd,
            env=env,
            timeout=timeout,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        said = f'{" ".join(map(str, command))} ended with {done.returncode}:\n{done.stdout}'
        assert done.returncode == 0, said
        return done.stdout

    return run


@pytest.fixture
def source_copy(tmp_path: Path) -> Path:
    """Return a copy of what is built and installed, so that no build result lands in the tree."""
    target = tmp_path / 'openpi_policy_ros'
    target.mkdir()
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(
                source, target / name, ignore=shutil.ignore_patterns('__pycache__', '*.egg-info')
            )
        else:
            shutil.copy(source, target / name)
    return target


@pytest.fixture(scope='session')
def tool() -> Callable[[str], Path]:
    """Return a function that finds a tool beside the running Python, else on the path."""

    def tool(name: str) -> Path:
        beside = Path(sys.executable).with_name(name)
        found = str(beside) if beside.exists() else shutil.which(name)
        assert found, f'{name} is not installed: scripts/test.sh installs requirements/test.txt'
        return Path(found)

    return tool
