# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Licence headers, file sizes, and nothing in the tree that belongs to one machine only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HEADER = [
    '# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors',
    '# SPDX-License-Identifier: Apache-2.0',
]
TEXT = {'.py', '.sh', '.md', '.yaml', '.yml', '.toml', '.cfg', '.xml', '.txt', '.json'}
BUILT = {'.whl', '.so', '.pyc', '.gz', '.zip', '.o'}
MOST_LINES = 500
MOST_BYTES = 5 * 1024 * 1024
# The trained checkpoint has a bound of its own.
CHECKPOINT, CHECKPOINT_BYTES = 'sim/checkpoint', 12_000_000
FORBIDDEN = {
    # Somebody's own folders.
    'a path of one machine': r'(?<![\w.~$}/-])/(?:home/(?!robot/)|(?:root|Users|work|mnt)/)',
    # Where packages come from is pip's and apt's own configuration.
    'a package registry': r'pypi\.org|pythonhosted|download\.pytorch|npmjs|packages\.ros\.org',
    'unfinished work': r'\b(?:TODO|FIXME|XXX|HACK)\b',
    'a merge conflict': r'^(?:<{7}|>{7}) ',
}


def is_source(path: Path) -> bool:
    return path.suffix in ('.py', '.sh') or path.parent.name == '.ci'


@pytest.fixture(scope='module')
def texts(repository_files) -> dict[Path, str]:
    """Return every text file but this one, which has to name what it forbids."""
    return {
        path: path.read_text(encoding='utf-8')
        for path in repository_files
        if (path.suffix in TEXT or is_source(path)) and path != Path(__file__).resolve()
    }


def test_every_source_file_names_its_licence(texts):
    sources = {path: text.splitlines() for path, text in texts.items() if is_source(path)}
    assert len(sources) > 20
    without = [
        str(path)
        for path, lines in sources.items()
        if lines[lines[:1] != [] and lines[0].startswith('#!') :][:2] != HEADER
    ]
    assert without == []


def test_no_source_or_page_is_too_long_to_read(texts):
    long = {
        str(path): lines
        for path, text in texts.items()
        if path.suffix in ('.py', '.sh', '.md') and (lines := text.count('\n')) > MOST_LINES
    }
    assert long == {}


def test_no_file_bloats_the_clone(root, repository_files):
    large = [path for path in repository_files if path.stat().st_size > MOST_BYTES]
    checkpoint = root / CHECKPOINT
    assert [str(path) for path in large if not path.is_relative_to(checkpoint)] == []
    inside = [path for path in repository_files if path.is_relative_to(checkpoint)]
    assert sum(path.stat().st_size for path in inside) <= CHECKPOINT_BYTES


def test_nothing_built_lies_in_the_tree(repository_files):
    assert [str(path) for path in repository_files if path.suffix in BUILT] == []


@pytest.mark.parametrize('what', FORBIDDEN)
def test_no_file_holds(texts, what):
    pattern = re.compile(FORBIDDEN[what], re.MULTILINE)
    found = [
        f'{path}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()}'
        for path, text in texts.items()
        for match in pattern.finditer(text)
    ]
    assert found == []


def test_the_licence_is_the_whole_apache_2_text(root):
    text = (root / 'LICENSE').read_text(encoding='utf-8')
    assert 'Version 2.0, January 2004' in text
    assert 'END OF TERMS AND CONDITIONS' in text
    assert text.count('\n') == 202


def test_every_photograph_has_its_licence_noted(root):
    folder = root / 'test' / 'data' / 'photos'
    photos = [path.name for path in folder.iterdir() if path.suffix in ('.png', '.jpg')]
    assert len(photos) >= 3
    notes = (folder / 'README.md').read_text(encoding='utf-8')
    assert [name for name in photos if name not in notes] == []
