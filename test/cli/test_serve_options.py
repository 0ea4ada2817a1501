# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every setting of the server is an option of ``openpi-policy serve``."""

from __future__ import annotations

import argparse

import pytest

from openpi_policy_ros.cli import serve
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.configuration.server import ServerConfig


def parse(*arguments: str) -> ServerConfig:
    parser = argparse.ArgumentParser()
    serve.add(parser.add_subparsers())
    options = vars(parser.parse_args(['serve', '--model', 'm', *arguments]))
    return validate(ServerConfig, {name: options[name] for name in ServerConfig.model_fields}, 'x')


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
