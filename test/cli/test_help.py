# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the command line tells of itself."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from openpi_policy_ros import __version__, cli
from openpi_policy_ros.configuration.server import ServerConfig

COMMANDS = ([], ['serve'], ['client'], ['robot'], ['inspect'], ['check'], ['make-checkpoint'])


def help_of(capsys: pytest.CaptureFixture[str], command: list[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main([*command, '--help'])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize('command', COMMANDS, ids=' '.join)
def test_every_example_in_the_help_is_a_command_that_exists(capsys, command):
    text = help_of(capsys, command).replace('\\\n', ' ')
    examples = re.findall(r'^ +openpi-policy (.+)$', text, re.MULTILINE)
    assert examples
    for example in examples:
        options = cli.PROGRAM.parser().parse_args(shlex.split(example))
        assert options.run is not None


def test_every_setting_of_the_server_can_be_given_and_is_explained(capsys):
    text = ' '.join(help_of(capsys, ['serve']).split())
    for name, field in ServerConfig.model_fields.items():
        assert f'--{name.replace("_", "-")} ' in text
        # Off and none explain themselves.
        if field.default is not False and field.default not in ('', []):
            assert f'(default: {field.default})' in text


def test_no_line_of_the_help_is_wider_than_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv('COLUMNS', '100')
    for command in COMMANDS:
        assert max(map(len, help_of(capsys, command).splitlines())) <= 100


def test_the_version_is_the_packages(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(['--version'])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f'openpi-policy {__version__}\n'


def test_without_a_command_the_help_is_shown(capsys):
    assert cli.main([]) == 2
    assert 'make-checkpoint' in capsys.readouterr().err


def test_an_unknown_command_or_option_is_refused(capsys):
    for arguments in (['sevre'], ['serve', '--model', 'm', '--prot', '8'], ['robot', 'push']):
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        assert ended.value.code == 2
    assert cli.main(['serve']) == 2
    assert '--model' in capsys.readouterr().err


def test_help_does_not_load_what_only_serving_needs():
    script = (
        'import sys\n'
        'from openpi_policy_ros.cli import main\n'
        'try:\n    main(["serve", "--help"])\n'
        'except SystemExit:\n    pass\n'
        'print([m for m in ("torch", "numpy", "websockets", "rclpy") if m in sys.modules])\n'
    )
    done = subprocess.run(
        [sys.executable, '-c', script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == '[]'
