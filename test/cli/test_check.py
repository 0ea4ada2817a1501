# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy check``: one inference offline, through everything that serves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from openpi_policy_ros.cli import main
from openpi_policy_ros.engine import Engine, Lane
from openpi_policy_ros.policies.base import InferenceRequest, SessionKey
from openpi_policy_ros.policies.dreamzero.make_checkpoint import make_checkpoint as make_dreamzero
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.policies.pi0.make_checkpoint import make_checkpoint
from openpi_policy_ros.policies.pi0.policy import Noise

GOLDEN = Path(__file__).resolve().parents[1] / 'data' / 'pi0_tiny'


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope='module')
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small checkpoint. Tests must not change it."""
    directory = tmp_path_factory.mktemp('checkpoints') / 'small'
    make_checkpoint(directory, 'small', 0)
    return directory


@pytest.fixture
def check(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return a function that runs the command on the small checkpoint, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> int:
        return main(['check', str(small), '--log-level', 'error', *arguments])

    return run


def read(path: str) -> dict[str, Any]:
    with np.load(path) as archive:
        return {key: archive[key] for key in archive.files}


def test_from_example_to_saved_chunk_to_comparison(check, capsys):
    robot = ('--policy', 'pi0', '--robot', 'droid')
    assert check(*robot, '--example', 'obs.npz', '--prompt', 'fold') == 0
    observation = read('obs.npz')
    assert {key: (value.dtype.kind, value.shape) for key, value in observation.items()} == {
        'observation/exterior_image_1_left': ('u', (224, 224, 3)),
        'observation/wrist_image_left': ('u', (224, 224, 3)),
        'observation/joint_position': ('f', (7,)),
        'observation/gripper_position': ('f', (1,)),
        'prompt': ('U', ()),
    }
    assert observation['prompt'] == 'fold'
    assert check(*robot, '--observation', 'obs.npz', '--save', 'chunk.npy') == 0
    out = capsys.readouterr().out
    assert 'chunk            10 rows x 8 columns' in out
    for stage in ('preprocess', 'vision', 'prefix', 'denoise', 'queue', 'infer'):
        assert f'\n{stage} ' in out
    assert check(*robot, '--observation', 'obs.npz', '--expect', 'chunk.npy') == 0
    out = capsys.readouterr().out
    assert '\ngripper          0\n' in out
    assert 'within --atol 2e-05' in out


def test_the_saved_chunk_is_what_a_client_of_the_engine_gets(check, small):
    assert check('--example', 'obs.npz') == 0
    assert check('--observation', 'obs.npz', '--seed', '5', '--steps', '3', '--save', 'a.npy') == 0
    observation = read('obs.npz')
    observation['prompt'] = str(observation['prompt'])
    engine = Engine(load_policy(str(small)))
    engine.start()
    request = InferenceRequest(
        observation, SessionKey('a', 'b'), seed=5, num_inference_steps=3, reset=True
    )
    chunk = engine.submit(request, Lane.REMOTE).result(timeout=60)
    engine.close()
    assert np.array_equal(np.load('a.npy'), chunk.actions)


def test_a_difference_is_told_by_column_and_in_the_exit_status(check, capsys):
    assert check('--example', 'obs.npz') == 0
    assert check('--observation', 'obs.npz', '--save', 'chunk.npy') == 0
    chunk = np.load('chunk.npy')
    chunk[7, 3] += 0.25
    np.save('other.npy', chunk)
    capsys.readouterr()
    assert check('--observation', 'obs.npz', '--expect', 'other.npy') == 1
    out = capsys.readouterr().out
    assert '\naction_3         0.25  more than --atol\n' in out
    assert '\naction_4         0\n' in out
    assert 'all              0.25 (row 7, action_3): MORE THAN --atol 2e-05' in out
    assert check('--observation', 'obs.npz', '--expect', 'other.npy', '--atol', '0.3') == 0


def test_seed_steps_and_prompt_change_the_chunk_and_two_checks_agree(check):
    assert check('--example', 'obs.npz') == 0
    chunks = []
    for number, change in enumerate(
        (['--seed', '1'], ['--steps', '4'], ['--prompt', 'lift'], [], ['--seed', '0'])
    ):
        assert check('--observation', 'obs.npz', '--save', f'{number}.npy', *change) == 0
        chunks.append(np.load(f'{number}.npy'))
    assert np.array_equal(chunks[3], chunks[4])
    assert not any(np.array_equal(chunk, chunks[3]) for chunk in chunks[:3])


def test_control_keys_in_the_observation_mean_what_they_mean_to_the_server(check):
    assert check('--example', 'obs.npz') == 0
    observation = read('obs.npz')
    np.savez('seeded.npz', **observation, seed=np.array(9), session_id=np.array('episode'))
    assert check('--observation', 'seeded.npz', '--save', 'a.npy') == 0
    assert check('--observation', 'obs.npz', '--seed', '9', '--save', 'b.npy') == 0
    assert np.array_equal(np.load('a.npy'), np.load('b.npy'))
    assert check('--observation', 'seeded.npz', '--seed', '0', '--save', 'c.npy') == 0
    assert not np.array_equal(np.load('a.npy'), np.load('c.npy'))


@pytest.mark.parametrize('name', ['three_cams', 'non_square', 'short_state_7', 'steps_4'])
def test_the_reference_outputs_are_reproduced(name, tmp_path, monkeypatch):
    with np.load(GOLDEN / 'cases' / f'{name}.npz') as arrays:
        case = {key: arrays[key] for key in arrays.files}
    settings = json.loads((GOLDEN / 'cases' / f'{name}.json').read_text())
    # The reference's tokens are random ids: spell them in a vocabulary of as many words.
    bos, *ids, newline = case['tokens'][case['token_mask']].tolist()
    assert bos == 2
    vocabulary = {'<bos>': bos, '<unk>': 3, '\n': newline} | {f'w{token}': token for token in ids}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token='<unk>'))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(' ', 'removed'),
            pre_tokenizers.Split(Regex('\n'), 'isolated'),
        ]
    )
    tokenizer.save(str(tmp_path / 'tokenizer.json'))
    (tmp_path / 'tiny.yaml').write_text('policy: pi0\ntokenizer: tokenizer.json\n')
    observation = {
        key.removeprefix('image/'): value for key, value in case.items() if key.startswith('image/')
    }
    observation |= {'state': case['state'], 'prompt': ' '.join(f'w{token}' for token in ids)}
    np.savez(tmp_path / 'obs.npz', **observation)
    np.save(tmp_path / 'expected.npy', case['actions'])
    # The reference's noise comes from no seed of ours.
    monkeypatch.setattr(Noise, '__call__', lambda self, seed: torch.from_numpy(case['noise']))
    monkeypatch.chdir(tmp_path)
    command = ['check', str(GOLDEN), '--policy', 'tiny.yaml', '--observation', 'obs.npz']
    command += ['--steps', str(settings['num_steps']), '--expect', 'expected.npy']
    assert main(command) == 0
    assert main([*command, '--atol', '0']) == 1


# What is refused


def refuse(capsys: pytest.CaptureFixture[str], run: Callable[..., int], *arguments: str) -> str:
    capsys.readouterr()
    assert run(*arguments) == 2
    told = capsys.readouterr()
    assert told.out == ''
    assert told.err.startswith('openpi-policy check: ')
    return told.err


@pytest.mark.parametrize(
    ('content', 'says'),
    [
        (None, 'does not exist'),
        (b'', 'cannot be read'),
        (b'hello', 'it is no file of plain arrays'),
        (b'PK\x03\x04' + bytes(100), 'cannot be read'),
    ],
)
def test_a_file_that_is_no_observation_is_refused_before_the_model_is_loaded(
    check, capsys, monkeypatch, content, says
):
    def load(*args: Any, **options: Any) -> None:
        raise AssertionError('not asked for')

    monkeypatch.setattr('openpi_policy_ros.policies.loading.load_policy', load)
    if content is not None:
        Path('obs.npz').write_bytes(content)
    assert says in refuse(capsys, check, '--observation', 'obs.npz')


def test_pickles_are_never_opened(check, capsys):
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path('exploded').touch, ())

    np.savez('obs.npz', state=np.array([Bomb()], dtype=object))
    assert 'state: cannot be read: it holds Python objects' in refuse(
        capsys, check, '--observation', 'obs.npz'
    )
    assert not Path('exploded').exists()


def test_a_truncated_observation_names_the_key(check, capsys):
    np.savez('whole.npz', state=np.zeros(8, np.float32), image=np.zeros(10_000, np.uint8))
    data = bytearray(Path('whole.npz').read_bytes())
    where = data.index(b'image.npy') + 5000
    data[where] ^= 0xFF
    Path('obs.npz').write_bytes(data)
    assert 'image: cannot be read' in refuse(capsys, check, '--observation', 'obs.npz')


def test_a_single_array_and_an_empty_archive_are_no_observation(check, capsys):
    np.save('obs.npy', np.zeros(3))
    assert 'is one array (.npy)' in refuse(capsys, check, '--observation', 'obs.npy')
    np.savez('obs.npz')
    assert '--example writes one' in refuse(capsys, check, '--observation', 'obs.npz')


@pytest.mark.parametrize(
    ('change', 'says'),
    [
        ({'state': None}, 'the proprioceptive state is missing'),
        ({'state': np.zeros(40, np.float32)}, 'the state has 40 dimensions'),
        ({'state': np.full(8, np.nan, np.float32)}, 'not finite'),
        ({'observation.images.base_0_rgb': None}, 'the image of the required camera'),
        ({'observation.images.base_0_rgb': np.zeros((4, 8, 8), np.uint8)}, '8 channels'),
        ({'prompt': None}, 'the instruction is missing'),
        ({'prompt': np.array(3)}, 'prompt'),
        ({'observation.images.front': np.zeros((8, 8, 3), np.uint8)}, 'nobody reads'),
        ({'seed': np.array(1.5)}, 'expected an integer'),
        ({'endpoint': np.array('reset')}, 'is a reset'),
        ({'endpoint': np.array('stop')}, "endpoint 'stop'"),
    ],
)
def test_an_observation_that_the_policy_refuses_is_told_as_the_log_of_a_server_would(
    check, capsys, change, says
):
    assert check('--example', 'whole.npz') == 0
    observation = {**read('whole.npz'), **change}
    np.savez('obs.npz', **{key: value for key, value in observation.items() if value is not None})
    assert says in refuse(capsys, check, '--observation', 'obs.npz')


@pytest.mark.parametrize(
    ('expected', 'says'),
    [
        (np.zeros((50, 8), np.float32), 'holds [50, 8], but the chunk is [50, 32]'),
        (np.zeros(50, np.float32), 'expected a chunk'),
        (np.zeros((50, 32), np.int64), 'expected a chunk'),
        (np.full((50, 32), np.nan, np.float32), 'NaN or infinity'),
        (np.zeros((0, 32), np.float32), 'expected a chunk'),
    ],
)
def test_an_expected_chunk_that_cannot_be_compared_is_refused(check, capsys, expected, says):
    assert check('--example', 'obs.npz') == 0
    np.save('expected.npy', expected)
    capsys.readouterr()
    assert check('--observation', 'obs.npz', '--expect', 'expected.npy') == 2
    assert says in capsys.readouterr().err


def test_nothing_is_overwritten_unless_forced(check, capsys):
    assert check('--example', 'obs.npz') == 0
    before = Path('obs.npz').read_bytes()
    assert 'not overwritten without --force' in refuse(capsys, check, '--example', 'obs.npz')
    assert Path('obs.npz').read_bytes() == before
    assert check('--example', 'obs.npz', '--force', '--prompt', 'other') == 0
    assert read('obs.npz')['prompt'] == 'other'
    for target, says in (
        ('chunk.txt', 'does not end in .npy'),
        ('missing/chunk.npy', 'is no directory'),
    ):
        assert says in refuse(capsys, check, '--observation', 'obs.npz', '--save', target)


@pytest.mark.parametrize('atol', ['-1', 'nan'])
def test_a_tolerance_that_makes_no_sense_is_refused(check, capsys, atol):
    assert '--atol' in refuse(capsys, check, '--observation', 'obs.npz', '--atol', atol)


def test_an_example_for_a_checkpoint_nobody_serves_tells_why(tmp_path, capsys):
    (tmp_path / '_METADATA').write_text('{}')
    target = tmp_path / 'obs.npz'
    assert main(['check', str(tmp_path), '--example', str(target)]) == 2
    assert 'JAX (Orbax)' in capsys.readouterr().err
    assert not target.exists()


def test_an_example_has_as_many_numbers_of_state_as_the_policy_takes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_dreamzero(tmp_path / 'tiny', 'tiny', 0)
    assert main(['check', 'tiny', '--example', 'obs.npz']) == 0
    assert 'nothing says' not in capsys.readouterr().out
    # What clients are asked for, and not what is left of it after the crop.
    assert read('obs.npz')['observation/wrist_image_left'].shape == (20, 36, 3)
    assert main(['check', 'tiny', '--observation', 'obs.npz', '--log-level', 'error']) == 0


def test_an_example_follows_the_robots_layout_and_says_what_it_guessed(check, tmp_path, capsys):
    names = ('base_0_rgb', 'left_wrist_0_rgb', 'right_wrist_0_rgb')
    pairs = [f'"images/{name} -> observation.images.{name}"' for name in names]
    pairs += ['"arm -> observation.state"', '"file -> observation.state"']
    (tmp_path / 'arm.yaml').write_text(
        '/**: {ros__parameters: {profile: {layout: CHW, prompt_key: task, '
        f'key_map: [{", ".join(pairs)}]}}}}}}\n'
    )
    assert check('--robot', 'arm.yaml', '--example', 'obs.npz', '--prompt', 'fold') == 0
    assert 'file: nothing says how many values it has, 1 are written' in capsys.readouterr().out
    observation = read('obs.npz')
    assert observation['images/base_0_rgb'].shape == (3, 224, 224)
    assert observation['file'].shape == (1,)
    assert observation['task'] == 'fold'
    assert check('--robot', 'arm.yaml', '--observation', 'obs.npz', '--prompt', 'lift') == 0
