# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The script that removes gates tells a guarded one from an unguarded one."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / 'scripts' / 'mutate_gates.py'


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location('mutate_gates', SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # It puts its checkout first.
    monkeypatch.setattr(sys, 'path', list(sys.path))
    monkeypatch.setattr(sys, 'argv', ['mutate_gates.py', 'S7', 'S16'])
    return module


def test_a_removed_gate_makes_a_test_of_its_name_fail(script: ModuleType) -> None:
    assert 'test_S16_a_dead_engine_holds' in script.failing_tests('S16')


@pytest.mark.parametrize(
    ('failing', 'status', 'says'),
    [
        ({'S7': ['test_S7_a'], 'S16': ['test_S1_b', 'test_S16_c']}, 0, ''),
        ({'S7': ['test_S7_a'], 'S16': ['test_S1_b']}, 1, 'are gone: S16'),
        ({'': ['test_S3_d'], 'S7': ['test_S7_a'], 'S16': ['test_S16_c']}, 2, 'test_S3_d'),
    ],
    ids=['all guarded', 'one unguarded', 'failing with every gate on'],
)
def test_the_exit_status_says_whether_every_gate_is_guarded(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failing: dict[str, list[str]],
    status: int,
    says: str,
) -> None:
    monkeypatch.setattr(script, 'failing_tests', lambda gate: failing.get(gate, []))
    assert script.main() == status
    printed = capsys.readouterr()
    assert says in printed.err
    if status < 2:
        assert '| S7 | velocity limit | `test_S7_a` |' in printed.out
    if status == 1:
        assert '| S16 | engine dead | **nothing** |' in printed.out


def test_a_suite_that_cannot_run_is_no_proof(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, 'TESTS', SCRIPT.with_name('no_such_tests.py'))
    assert script.main() == 2
    assert 'could not be run' in capsys.readouterr().err
