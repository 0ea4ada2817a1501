# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The right plugin is found, files are found, and a directory never touches the network."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.errors import CheckpointError, ConfigurationError
from openpi_policy_ros.policies import registry
from openpi_policy_ros.policies.base import Policy
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.policies.registry import LoadRequest, PolicyPlugin


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    attempts: list[Any] = []

    def refuse(*args: Any, **options: Any) -> Any:
        attempts.append(args)
        raise OSError('no network in this test')

    monkeypatch.setattr(socket.socket, 'connect', refuse)
    monkeypatch.setattr(socket.socket, 'connect_ex', refuse)
    monkeypatch.setattr(socket, 'getaddrinfo', refuse)
    yield
    assert attempts == []


@pytest.mark.usefixtures('no_network')
def test_a_directory_never_touches_the_network(small: Path) -> None:
    for policy in (None, 'pi0'):
        loaded = load_policy(str(small), policy=policy, revision='main')
        assert loaded.spec.revision == ''
        assert loaded.spec.model == str(small)


@pytest.mark.usefixtures('no_network')
def test_a_directory_without_a_tokenizer_refuses_without_asking_the_hub(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / 'checkpoint'
    shutil.copytree(small, directory)
    shutil.rmtree(directory / 'tokenizer')
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_CACHE', str(tmp_path / 'cache'))
    with pytest.raises(CheckpointError) as caught:
        load_policy(str(directory))
    assert 'google/paligemma-3b-pt-224' in caught.value.what
    assert 'hf download google/paligemma-3b-pt-224' in caught.value.remedy
    assert 'tokenizer in the policy file' in caught.value.remedy


def test_without_a_policy_file_no_camera_is_optional_and_the_handshake_is_derived(
    small: Path,
) -> None:
    spec = load_policy(str(small)).spec
    assert all(camera.required for camera in spec.cameras)
    assert spec.handshake is not None
    assert spec.handshake['action_horizon'] == 50
    assert spec.action_space == ''


def test_the_shipped_policy_file_serves_with_one_camera_required(small: Path) -> None:
    spec = load_policy(str(small), policy='pi0').spec
    assert [camera.required for camera in spec.cameras] == [True, False, False]
    assert spec.handshake == {
        'image_resolution': [224, 224],
        'n_external_cameras': 1,
        'needs_wrist_camera': True,
        'needs_stereo_camera': False,
        'needs_session_id': False,
        'action_space': 'joint_position',
        'action_horizon': 50,
        'action_dim': 32,
        'max_cameras': 3,
    }
    assert spec.action_space == 'joint_position'


def test_the_shipped_robot_file_fits_the_shipped_policy_file(small: Path) -> None:
    spec = load_policy(str(small), policy='pi0', profile=load_robot('droid').profile).spec
    assert (spec.horizon, spec.action_dim, spec.action_space) == (10, 8, 'joint_velocity')
    assert spec.handshake is not None
    assert spec.handshake['action_horizon'] == 10
    assert spec.action_names[-1] == 'gripper'
    assert spec.state.wire_keys == (
        'observation/joint_position',
        'observation/gripper_position',
    )
    assert [(camera.wire_keys, camera.required) for camera in spec.cameras] == [
        (('observation/exterior_image_1_left',), True),
        (('observation/wrist_image_left',), True),
        ((), False),
    ]


def test_a_policy_file_without_a_handshake_declares_none(small: Path, tmp_path: Path) -> None:
    file = tmp_path / 'mine.yaml'
    file.write_text('policy: pi0\nnum_inference_steps: 4\n')
    assert load_policy(str(small), policy=str(file)).spec.handshake is None
    file.write_text('policy: pi0\npolicy_server_config: {}\n')
    assert load_policy(str(small), policy=str(file)).spec.handshake == {}


def test_a_contradiction_between_files_names_the_policy_file(small: Path, tmp_path: Path) -> None:
    file = tmp_path / 'mine.yaml'
    file.write_text('policy: pi0\npolicy_server_config: {action_horizon: 16}\n')
    with pytest.raises(ConfigurationError, match=r'mine\.yaml.*\n.*16.*50 rows'):
        load_policy(str(small), policy=str(file))


def test_an_unknown_type_refuses_and_lists_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / 'config.json').write_text('{"type": "act"}')
    with pytest.raises(CheckpointError, match=r"type 'act'.*one of .*pi0") as caught:
        load_policy(str(tmp_path))
    assert 'policy file' in caught.value.remedy


@pytest.mark.parametrize('text', ['{}', '{"type": 5}'])
def test_a_config_without_a_type_refuses(tmp_path: Path, text: str) -> None:
    (tmp_path / 'config.json').write_text(text)
    with pytest.raises(CheckpointError, match=r'config\.json: type is'):
        load_policy(str(tmp_path))


@pytest.mark.parametrize('model', ['/no/such/dir', './nowhere', 'a/b/c', 'nowhere', ''])
def test_a_directory_that_is_not_there_refuses(model: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        load_policy(model)
    assert repr(model) in caught.value.what
    assert 'owner/repository' in caught.value.expected


def test_a_file_in_place_of_a_directory_names_the_directory(small: Path) -> None:
    with pytest.raises(CheckpointError, match='is a file') as caught:
        load_policy(str(small / 'model.safetensors'))
    assert str(small) in caught.value.remedy


def test_a_hub_id_that_cannot_be_fetched_refuses() -> None:
    # A process of its own: the hub's client reads its endpoint when it is imported.
    program = (
        'from openpi_policy_ros.policies.checkpoint_view import view_model\n'
        "view_model('someone/some-policy', 'v1')\n"
    )
    result = subprocess.run(
        [sys.executable, '-c', program],
        env={**os.environ, 'HF_ENDPOINT': 'http://127.0.0.1:9', 'HF_HOME': '/nonexistent/hub'},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith('openpi_policy_ros.policies.hub.HubUnreachable')
    for part in ('someone/some-policy', "'v1'", 'check the network', 'pass its directory'):
        assert part in last


def test_files_of_another_user_are_a_checkpoint_that_refuses(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = str(small / 'model.safetensors')

    def denied(request: LoadRequest) -> Policy:
        raise PermissionError(errno.EACCES, 'Permission denied', weights)

    plugin = PolicyPlugin(denied, model_types=('pi0',))
    monkeypatch.setattr(registry, 'find', lambda name: plugin)
    for policy in (None, 'pi0'):
        with pytest.raises(CheckpointError) as caught:
            load_policy(str(small), policy=policy)
        assert 'Permission denied' in caught.value.what
        assert weights in caught.value.what
        assert 'permissions' in caught.value.remedy


def test_a_config_nested_without_end_refuses(tmp_path: Path) -> None:
    (tmp_path / 'config.json').write_text('[' * 200_000)
    with pytest.raises(CheckpointError, match='cannot be read'):
        load_policy(str(tmp_path))


@pytest.mark.parametrize(
    ('device', 'says'), [('tpu', "'tpu' is not known"), ('cuda:99', "'cuda:99' is not there")]
)
def test_a_device_that_is_not_there_refuses(small: Path, device: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        load_policy(str(small), device=device)


def test_listing_policies_does_not_import_torch() -> None:
    program = (
        'import sys\n'
        'from openpi_policy_ros.policies import registry\n'
        "assert registry.find('pi0').model_types == ('pi0',)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, '-c', program], timeout=60, check=True)
