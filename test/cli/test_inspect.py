# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy inspect``: what it prints, its exit status, and what it fetches from a hub."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hub_standin import COMMIT, Hub, serve_hub

from openpi_policy_ros.cli import main
from openpi_policy_ros.policies.pi0.make_checkpoint import make_checkpoint


@pytest.fixture(scope='module')
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small checkpoint. Tests must not change it."""
    directory = tmp_path_factory.mktemp('checkpoints') / 'small'
    make_checkpoint(directory, 'small', 0)
    return directory


def row(text: str, name: str) -> str:
    """Return what is printed beside ``name``, its lines joined."""
    lines = iter(text.splitlines())
    found = next(line for line in lines if line.startswith(f'  {name}'))
    parts = [found[15:].strip()]
    for line in lines:
        if not line.startswith(' ' * 15):
            break
        parts.append(line.strip())
    return ' '.join(parts)


def test_a_checkpoint_that_would_be_served_is_described_as_the_robot_sees_it(small, capsys):
    assert main(['inspect', str(small), '--policy', 'pi0', '--robot', 'droid']) == 0
    out = capsys.readouterr().out
    assert out.startswith(f'{small}: a LeRobot checkpoint, type pi0\n')
    assert out.endswith('\nIt would be served.\n')
    assert row(out, 'weights') == (
        'model.safetensors: 1.73 MB, 108 tensors, 427632 parameters in F32'
    )
    # Not joined: the columns are aligned.
    cameras = out[out.index('cameras') : out.index('images  ')]
    assert 'required  observation.images.base_0_rgb        <- observation/ext' in cameras
    assert 'optional  observation.images.right_wrist_0_rgb <- nothing: masked' in cameras
    assert row(out, 'images').startswith('uint8 or float 0..1, [height, width, 3], RGB; resized to')
    assert row(out, 'state') == (
        'observation/joint_position, observation/gripper_position: at most 32 values'
    )
    assert row(out, 'prompt') == 'prompt: at most 48 tokens'
    assert row(out, 'text') == 'text, and a newline unless it ends with one'
    assert row(out, 'actions') == '10 rows x 8 columns, cut from 50 x 32, joint_velocity'
    assert row(out, 'normalisation') == 'none'
    assert row(out, 'tokenizer') == str(small / 'tokenizer' / 'tokenizer.json')
    assert json.loads(row(out, 'handshake'))['action_horizon'] == 10


def test_everything_refused_is_numbered_with_what_to_do(small, tmp_path, capsys):
    copy = tmp_path / 'copy'
    shutil.copytree(small, copy)
    (copy / 'model.safetensors').write_bytes(b'short')
    values = json.loads((copy / 'policy_preprocessor.json').read_text())
    values['steps'].append({'registry_name': 'gripper_flip', 'config': {}})
    (copy / 'policy_preprocessor.json').write_text(json.dumps(values))
    assert main(['inspect', str(copy)]) == 1
    out = capsys.readouterr().out
    assert 'weights       model.safetensors: 5 B, its header cannot be read' in out
    verdict = out[out.index('It would be refused: 2 problems.') :]
    assert '  1. ' in verdict
    assert 'copy or download it again' in verdict
    assert '  2. ' in verdict
    assert "unknown processor step 'gripper_flip'" in ' '.join(verdict.split())
    assert 'what to do: serving without it would change the numbers' in verdict
    # What is fine is told all the same.
    assert row(out, 'actions') == '50 rows x 32 columns'


def test_what_hangs_on_something_refused_is_not_invented(small, tmp_path, capsys):
    copy = tmp_path / 'copy'
    shutil.copytree(small, copy)
    values = json.loads((copy / 'config.json').read_text())
    values['chunk_size'] = 'fifty'
    (copy / 'config.json').write_text(json.dumps(values))
    assert main(['inspect', str(copy)]) == 1
    out = capsys.readouterr().out
    assert 'Not checked because of that: weights, processors, observation' in out
    for name in ('cameras', 'handshake', 'actions', 'served'):
        assert f'\n  {name} ' not in out
    assert 'observation.images.base_0_rgb [3, 224, 224]' in out


def test_a_policy_file_without_a_handshake_is_told(small, tmp_path, capsys):
    (tmp_path / 'mine.yaml').write_text('policy: pi0\ndefault_prompt: fold\n')
    assert main(['inspect', str(small), '--policy', str(tmp_path / 'mine.yaml')]) == 0
    out = capsys.readouterr().out
    assert row(out, 'handshake') == 'none declared: OpenPI clients are answered "unsupported"'
    assert row(out, 'prompt') == 'prompt, else "fold": at most 48 tokens'


def test_json_holds_the_same_for_programs(small, tmp_path, capsys):
    assert main(['inspect', str(small), '--json', '--policy', 'pi0', '--robot', 'droid']) == 0
    values = json.loads(capsys.readouterr().out)
    assert values['served'] is True
    assert values['errors'] == []
    assert (values['layout'], values['type'], values['revision']) == ('lerobot', 'pi0', '')
    assert values['files']['config.json'] == (small / 'config.json').stat().st_size
    assert values['weights'][0]['parameters'] == {'F32': 427632}
    policy = values['policy']
    assert policy['actions']['rows'] == policy['handshake']['action_horizon'] == 10
    assert policy['state']['parts'] == [
        ['observation/joint_position'],
        ['observation/gripper_position'],
    ]
    assert [camera['required'] for camera in policy['cameras']] == [True, True, False]

    page = (Path(__file__).resolve().parents[2] / 'docs' / 'inspect.md').read_text()
    assert all(f'`{key}`' in page for key in (*values, *policy))

    (tmp_path / '_METADATA').write_text('{}')
    assert main(['inspect', str(tmp_path), '--json']) == 1
    values = json.loads(capsys.readouterr().out)
    assert (values['layout'], values['served'], values['policy']) == ('openpi_jax', False, None)
    (error,) = values['errors']
    assert set(error) == {'what', 'expected', 'remedy'}
    assert all(error.values())


@pytest.mark.parametrize('model', ['/no/such/directory', 'a/b/c', ''])
def test_where_there_is_nothing_to_look_at_the_status_says_so(capsys, model):
    assert main(['inspect', model]) == 2
    told = capsys.readouterr()
    assert told.out == ''
    assert 'owner/repository' in told.err


def test_a_folder_is_told_without_loading_torch(small):
    script = (
        'import sys\n'
        'from openpi_policy_ros.cli import main\n'
        f'assert main(["inspect", {str(small)!r}, "--policy", "pi0"]) == 0\n'
        'assert "torch" not in sys.modules\n'
    )
    subprocess.run([sys.executable, '-c', script], capture_output=True, timeout=60, check=True)


# Hub ids


def inspect_on(hub: Hub, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # A process of its own: the hub's client reads its address when it is imported.
    env = {**os.environ, 'HF_ENDPOINT': hub.url, 'HF_HOME': str(home)}
    env.pop('HF_HUB_OFFLINE', None)
    return subprocess.run(
        [sys.executable, '-m', 'openpi_policy_ros.cli', 'inspect', *arguments],
        capture_output=True,
        text=True,
        env=env,
        timeout=60,
        check=False,
    )


def test_of_a_hub_id_only_small_files_and_the_header_are_fetched(small, tmp_path):
    with serve_hub('someone/tiny', small) as hub:
        done = inspect_on(hub, tmp_path, 'someone/tiny', '--json')
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    assert values['revision'] == COMMIT
    assert values['weights'][0]['bytes'] == (small / 'model.safetensors').stat().st_size
    assert values['weights'][0]['parameters'] == {'F32': 427632}
    assert hub.fetched('config.json')
    # Never the file as a whole.
    ranges = hub.fetched('model.safetensors')
    assert ranges
    assert all(asked.startswith('bytes=') for asked in ranges)
    assert not hub.fetched('tokenizer/tokenizer_config.json')
    assert not list(tmp_path.rglob('*.safetensors'))


def test_a_hub_repository_of_another_kind_is_named_by_its_list_of_files(tmp_path):
    folder = tmp_path / 'repository'
    (folder / 'params').mkdir(parents=True)
    (folder / 'params' / '_METADATA').write_text('{}')
    (folder / 'params' / 'weights').write_bytes(bytes(1000))
    with serve_hub('someone/jax', folder) as hub:
        done = inspect_on(hub, tmp_path / 'home', 'someone/jax')
        assert done.returncode == 1, done.stderr
        assert 'someone/jax: an openpi checkpoint in JAX (Orbax) format' in done.stdout
        assert 'convert_jax_model_to_pytorch.py' in done.stdout
        assert not hub.fetched('params/weights')


def test_without_a_tokenizer_of_its_own_nothing_is_fetched_for_it(small, tmp_path):
    folder = tmp_path / 'repository'
    shutil.copytree(small, folder)
    shutil.rmtree(folder / 'tokenizer')
    with serve_hub('someone/tiny', folder) as hub:
        done = inspect_on(hub, tmp_path / 'home', 'someone/tiny')
    assert done.returncode == 0, done.stderr
    assert 'google/paligemma-3b-pt-224 on the hub, fetched when' in done.stdout
    assert not any('paligemma' in path for _, path, _ in hub.requests)


def test_a_hub_repository_that_is_not_there_is_an_error_with_a_remedy(small, tmp_path):
    with serve_hub('someone/tiny', small) as hub:
        done = inspect_on(hub, tmp_path, 'someone/tinny')
    assert done.returncode == 2
    assert 'RepositoryNotFoundError' in done.stderr
    assert 'check the spelling' in done.stderr
