# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every setting of the server is an option of ``openpi-policy serve``."""

from __future__ import annotations

import argparse

import pytest

from openpi_policy_ros.cli import serve
from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.configuration.server import ServerConfig


def parse(*arguments: str) -> ServerConfig:
    parser = argparse.ArgumentParser()
    serve.add(parser.add_subparsers())
    options = parser.parse_args(['serve', '--model', 'm', *arguments])
    return serve.server_config(options, load_robot(options.robot) if options.robot else None)


def test_without_options_the_defaults_hold():
    assert parse() == ServerConfig()


@pytest.mark.parametrize(
    ('arguments', 'setting'),
    [
        (['--max-connections', '3'], {'max_connections': 3}),
        (['--request-timeout', '2'], {'request_timeout': 2.0}),
        (['--error-detail'], {'error_detail': True}),
        (['--root-reply', 'array'], {'root_reply': 'array'}),
        (
            ['--path-aliases', '/a -> openpi', '/b -> stock'],
            {'path_aliases': ['/a -> openpi', '/b -> stock']},
        ),
        (['--api-key-file', '/k'], {'api_key_file': '/k'}),
        (
            ['--tls-certificate', '/c', '--tls-key', '/k'],
            {'tls_certificate': '/c', 'tls_key': '/k'},
        ),
        (['--idle-timeout', '0.5'], {'idle_timeout': 0.5}),
    ],
)
def test_an_option_sets_what_it_is_called(arguments, setting):
    assert parse(*arguments) == ServerConfig(**setting)


def test_no_option_takes_a_key_itself(capsys):
    with pytest.raises(SystemExit):
        parse('--api-key', 'secret-on-the-command-line')
    assert not any(name.endswith('api_key') for name in ServerConfig.model_fields)


def test_help_describes_every_option(capsys):
    with pytest.raises(SystemExit):
        parse('--help')
    text = ' '.join(capsys.readouterr().out.split())
    for name, field in ServerConfig.model_fields.items():
        assert f'--{name.replace("_", "-")}' in text
        # argparse breaks lines at spaces and dashes.
        said = ' '.join(str(field.description).split())
        assert said.replace(' ', '').replace('-', '') in text.replace(' ', '').replace('-', '')


def test_a_robot_whose_policy_thinks_long_raises_the_timeout_unless_it_is_set():
    assert parse('--robot', 'droid').inference_timeout == 5.0
    assert parse('--robot', 'droid_dreamzero').inference_timeout == 15.0
    slow = parse('--robot', 'droid_dreamzero', '--inference-timeout', '7')
    assert slow.inference_timeout == 7.0
