# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Whatever the server can be told, the node can be told, in the same words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.ros.declarations import Kind, declarations
from openpi_policy_ros.ros.settings import validate_parameters

MODEL = {'model': '/models/pi0'}


def problems(parameters: dict[str, Any]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        validate_parameters({**MODEL, **parameters})
    return str(caught.value)


@pytest.mark.parametrize('name', list(ServerConfig.model_fields))
def test_a_setting_of_the_server_is_a_parameter_of_the_node(name):
    one = declarations([])[name]
    field = ServerConfig.model_fields[name]
    assert one.description == ' '.join(field.description.split())
    assert one.default == (None if field.default == [] else field.default)


def test_types_and_choices_are_those_of_the_server():
    known = declarations([])
    assert known['max_connections'].kind is Kind.INTEGER
    assert known['error_detail'].kind is Kind.BOOL
    assert known['path_aliases'].kind is Kind.STRING_ARRAY
    assert known['root_reply'].constraints == 'one of dict, array'
    assert known['request_timeout'].minimum == 0.0


def test_the_nodes_server_gets_what_its_parameters_say(tmp_path):
    keys = tmp_path / 'keys'
    keys.write_text('key-0123456789abcdef\n')
    values = {
        'host': '0.0.0.0',
        'port': 9000,
        'idle_timeout': 5.0,
        'root_idle_timeout': 6.0,
        'inference_timeout': 7.0,
        'drain_timeout': 8.0,
        'max_connections': 3,
        'request_timeout': 2,
        'error_detail': True,
        'root_reply': 'array',
        'path_aliases': ['/a -> openpi'],
        'api_key_file': str(keys),
    }
    assert validate_parameters({**MODEL, **values}).server() == ServerConfig(**values)
    assert validate_parameters(MODEL).server() == ServerConfig()


@pytest.mark.parametrize(
    ('name', 'value', 'said'),
    [
        ('max_connections', -1, 'max_connections: Input should be greater than or equal to 0'),
        ('request_timeout', -0.5, 'request_timeout: '),
        ('root_reply', 'list', "root_reply: Input should be 'dict' or 'array'"),
        ('path_aliases', ['/healthz -> openpi'], 'path_aliases: '),
        ('error_detail', 'yes', 'error_detail: Input should be a valid boolean'),
        ('api_key_file', 5, 'api_key_file: expected text, found 5'),
        ('tls_key', '/k.pem', 'tls_key: is set without tls_certificate'),
    ],
)
def test_a_wrong_value_is_told_by_its_name(name, value, said):
    assert said in problems({name: value})


def test_files_of_keys_and_certificates_are_looked_at_before_the_model(tmp_path):
    files = {name: str(tmp_path / name) for name in ('api_key_file', 'tls_certificate', 'tls_key')}
    text = problems({**files, 'robot': 'droit', 'port': -1})
    for name, path in files.items():
        assert f'{name}: {path}: No such file or directory' in text
    assert "'droit' is not shipped" in text
    assert 'port: ' in text
    assert '5 problems' in text


def test_how_to_serve_has_no_place_in_a_robot_file(tmp_path: Path):
    path = tmp_path / 'robot.yaml'
    path.write_text(yaml.safe_dump({'/**': {'ros__parameters': {'max_connections': 3}}}))
    assert 'max_connections: is a parameter of the node, not of a robot' in problems(
        {'robot': str(path)}
    )
