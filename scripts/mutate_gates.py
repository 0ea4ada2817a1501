# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Switch the safety gates off one by one and demand that a test notices each.

Prints a Markdown table: gate, what it stops, the tests that caught its absence. Exit status: 0
every gate is guarded by a test, 1 a gate can be removed unnoticed, 2 the tests fail or cannot run
with every gate on.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / 'test' / 'control' / 'test_gates.py'
TIMEOUT_S = 120
RUN = """
import sys
import pytest
from openpi_policy_ros.control import gates
gates.DISABLED = frozenset(sys.argv[1].split())
sys.exit(pytest.main(sys.argv[2:]))
"""


class SuiteError(Exception):
    """The tests could not be run at all."""


def failing_tests(disabled: str) -> list[str]:
    """Return the names of the tests that fail with this gate ('' = none) switched off.

    Raises:
        SuiteError: nothing was tested.

    """
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / 'report.xml'
        options = ['-q', '-p', 'no:cacheprovider', '-c', str(ROOT / 'pyproject.toml')]
        command = [sys.executable, '-c', RUN, disabled, *options, f'--junitxml={report}']
        environment = {**os.environ, 'PYTHONPATH': str(ROOT), 'PYTHONDONTWRITEBYTECODE': '1'}
        done = subprocess.run(
            [*command, str(TESTS)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        # pytest: 0 = all passed, 1 = some failed; anything else tested nothing.
        if done.returncode not in (0, 1) or not report.exists():
            raise SuiteError(f'{TESTS.name} could not be run:\n{done.stdout}{done.stderr}')
        cases = ElementTree.parse(report).getroot().iter('testcase')
        bad = [case for case in cases if case.find('failure') is not None]
        if len(bad) == 0 and done.returncode == 1:
            raise SuiteError(f'{TESTS.name} ended in errors:\n{done.stdout}{done.stderr}')
    return list(dict.fromkeys(str(case.get('name')).partition('[')[0] for case in bad))


def gates_of_the_package() -> dict[str, str]:
    """Return every gate (id → what it stops) of this checkout."""
    sys.path.insert(0, str(ROOT))
    from openpi_policy_ros.control.gates import GATES

    return dict(GATES)


def main() -> int:
    """Print the table and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('gates', nargs='*', help='ids, e.g. S7; default: all')
    wanted = parser.parse_args().gates
    known = gates_of_the_package()
    unknown = [gate for gate in wanted if gate not in known]
    if unknown:
        parser.error(f'no such gates: {", ".join(unknown)}; there are {", ".join(known)}')
    try:
        before = failing_tests('')
        if before:
            print(f'with every gate on, these fail: {", ".join(before)}', file=sys.stderr)
            return 2
        print('| gate | stops | caught without it by |\n|---|---|---|', flush=True)
        unnoticed = []
        for gate in wanted or known:
            # A test counts for the gate that it is named after: others may fail by accident.
            found = [name for name in failing_tests(gate) if name.startswith(f'test_{gate}_')]
            if not found:
                unnoticed.append(gate)
            tests = ', '.join(f'`{name}`' for name in found) or '**nothing**'
            print(f'| {gate} | {known[gate]} | {tests} |', flush=True)
    except (SuiteError, subprocess.TimeoutExpired) as error:
        print(error, file=sys.stderr)
        return 2
    if unnoticed:
        print(f'no test notices that these are gone: {", ".join(unnoticed)}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
