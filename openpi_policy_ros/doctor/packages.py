# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Python and the packages, against the ranges that this package was published with."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from importlib import metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from openpi_policy_ros.doctor.asked import Asked
from openpi_policy_ros.doctor.findings import Finding, fail, ok, warn
from openpi_policy_ros.recording.ready import missing_extra

NAME = 'openpi_policy_ros'
_NO_PIP = {'setuptools'}
"""Only installing needs it."""
_EXTRAS = (
    ('rosbags', 'record', 'recording', '`record:=` and `openpi-policy replay`'),
    ('matplotlib', 'plot', 'plots', 'drawing by `openpi-policy replay --out`'),
)
"""Module, extra, check, and what needs it."""


def examine(asked: Asked) -> list[Finding]:
    """Look at what is installed."""
    del asked
    extras = judge_extras(missing_extra)
    try:
        own = metadata.metadata(NAME)
    except metadata.PackageNotFoundError:
        remedy = '`pip install .` in its folder, then the entry points are known too'
        text = f'{NAME} itself is not installed, its ranges are unknown'
        return [warn('packages', text, remedy), *extras]
    return [
        judge_python(platform.python_version(), own['Requires-Python'] or ''),
        *judge_packages(metadata.requires(NAME) or [], _version),
        *extras,
    ]


def judge_extras(missing: Callable[[str, str], str]) -> list[Finding]:
    """Judge what only some commands need.

    Args:
        missing: returns of a module and its extra what to install; '' = it is there.

    """
    findings = []
    for module, extra, check, what in _EXTRAS:
        if why := missing(module, extra):
            _, _, install = why.partition('install it with: ')
            findings.append(warn(check, f'{what} would be refused: {module} is missing', install))
    return findings


def judge_python(version: str, wanted: str) -> Finding:
    """Judge the interpreter."""
    if SpecifierSet(wanted).contains(version, prereleases=True):
        return ok('python', f'Python {version}, expected {wanted or "any"}')
    return fail(
        'python',
        f'Python {version}, expected {wanted}',
        'make a virtual environment with a newer one',
    )


def judge_packages(
    requirements: Sequence[str], version: Callable[[str], str | None]
) -> list[Finding]:
    """Judge every package; those without fault share one line.

    Args:
        requirements: as in the package's metadata.
        version: installed version of a package, None = not installed.

    """
    findings, fine = [], []
    for requirement in map(Requirement, requirements):
        optional = requirement.marker is not None and not requirement.marker.evaluate({'extra': ''})
        if optional or requirement.name in _NO_PIP:
            continue
        found, wanted = version(requirement.name), str(requirement.specifier)
        check = f'package {requirement.name}'
        remedy = f'pip install "{requirement.name}{wanted}"'
        if found is None:
            findings.append(fail(check, f'{requirement.name} is not installed', remedy))
        elif not requirement.specifier.contains(found, prereleases=True):
            text = f'{requirement.name} {found} is installed, expected {wanted}'
            findings.append(fail(check, text, remedy))
        else:
            fine.append(f'{requirement.name} {found}')
    return [*findings, ok('packages', ', '.join(fine))] if fine else findings


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
