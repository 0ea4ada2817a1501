# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What is trained is what is served; and a training that was stopped ends where one in one go does.

Six steps, in tiny settings: nothing is learnt here, but every part of the training is gone through.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip('mujoco')

from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.policies.base import InferenceRequest, SessionKey
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.policies.pi0 import sampler
from openpi_policy_ros.policies.pi0.model import Pi0Model
from openpi_policy_ros_sim import cloning
from openpi_policy_ros_sim.cloning import Batch, flow_loss, image_tokens, velocities
from openpi_policy_ros_sim.dataset import views
from openpi_policy_ros_sim.demo import FOLDER
from openpi_policy_ros_sim.episodes import Act, Observation, run_episode
from openpi_policy_ros_sim.examples import Examples, batch_of, statistics
from openpi_policy_ros_sim.served import ROBOT, ServedPolicy
from openpi_policy_ros_sim.tasks import TASKS

SCRIPTS = Path(__file__).resolve().parents[2] / 'scripts'
TINY = (
    '--episodes', '1', '--steps', '6', '--batch', '2', '--draws', '1', '--relabel-at', '0.5',
    '--relabel-episodes', '1',
)  # fmt: skip


class Runs:
    """Calls of the script that share their demonstrations."""

    def __init__(self, script: Any, scratch: Path) -> None:
        self.script, self.scratch = script, scratch

    def train(self, name: str) -> Path:
        """Train in a folder of this name, or go on there, and return the folder."""
        folder = self.scratch / name
        options = ['--demonstrations', str(self.scratch / 'demonstrations'), *TINY]
        assert self.script.main([str(folder), *options]) == 0
        return folder


@pytest.fixture(scope='module')
def script() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        made = importlib.import_module('train_demo_policy')
        # Fewer labels, shorter episodes: they are what takes time.
        patch.setattr(made, 'EVERY', 12)
        patch.setattr(made, 'STEP_LIMIT', 6)
        yield made


@pytest.fixture(scope='module')
def runs(script: Any, drawing: Any, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(script, tmp_path_factory.mktemp('training'))


@pytest.fixture(scope='module')
def trained(runs: Runs) -> Path:
    return runs.train('in_one_go')


@pytest.fixture(scope='module')
def model(script: Any) -> Pi0Model:
    generator = torch.Generator().manual_seed(5)
    made = Pi0Model(script.network(), torch.device('cpu'), torch.float32)
    cloning.initialise(made, generator)
    with torch.no_grad():
        for parameter in made.parameters():
            # No bias that is left out goes unseen.
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    return made


def _options(script: Any, folder: Path) -> Any:
    return script._parser().parse_args([str(folder), *TINY])


def _demonstrations(script: Any) -> Any:
    return script.Settings(episodes=1, size=script.SIZE, every=script.EVERY, shard=25)


def batch(model: Pi0Model, size: int) -> Batch:
    config = model.config
    generator = torch.Generator().manual_seed(6)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    return Batch(
        images=random(size, 2, 3, *config.image_resolution).clamp(-1.0, 1.0),
        tokens=torch.tensor([3, 1, 4, 1, 5]),
        state=random(size, config.max_state_dim),
        actions=random(size, config.chunk_size, config.max_action_dim),
        places=random(size, 6),
    )


@torch.no_grad()
def test_the_flow_of_a_batch_is_the_served_networks_of_each_sample(model: Pi0Model) -> None:
    some, draws = batch(model, 3), 2
    x = torch.randn((3, draws, *some.actions.shape[1:]), generator=torch.Generator().manual_seed(7))
    times = torch.tensor([[1.0, 0.35], [0.8, 0.1], [0.001, 0.5]])
    seen = image_tokens(model, some.images)
    found = velocities(model, seen, some.tokens, some.state, x, times)
    assert found.std() > 0.05
    for number in range(3):
        position = model.prefill(
            model.embed_prefix(model.embed_images(some.images[number]), some.tokens)
        )
        position = model.append_state(some.state[number], position)
        table = model.time_table(times[number])
        for draw in range(draws):
            served = model.velocity(x[number, draw], table[draw], position)
            torch.testing.assert_close(found[number, draw], served, rtol=1e-4, atol=1e-5)


def test_what_is_learnt_is_the_flow_by_which_the_sampler_comes_to_the_actions(
    model: Pi0Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = batch(model, 64)

    def to_the_actions(*given: Any, sign: float = 1.0) -> torch.Tensor:
        *_, x, times = given
        return sign * (x - some.actions[:, None]) / times[..., None, None]

    def loss() -> float:
        return flow_loss(model, some.images, some, 4, torch.Generator().manual_seed(8)).item()

    monkeypatch.setattr(cloning, 'velocities', to_the_actions)
    assert loss() < 1e-5
    monkeypatch.setattr(cloning, 'velocities', lambda *given: to_the_actions(*given, sign=-1.0))
    assert loss() > 1.0

    noise, actions, times = torch.ones_like(some.actions[0]), some.actions[0], sampler.times(10)
    came = sampler.denoise(lambda x, step: (x - actions) / times[step], noise, 10)
    torch.testing.assert_close(came, actions)


def test_a_served_checkpoint_takes_and_answers_what_was_learnt(trained: Path, script: Any) -> None:
    random = np.random.default_rng(9)
    size = script.SIZE
    # With the bars that the loop leaves above and below.
    images = np.zeros((2, 2, size, size, 3), np.uint8)
    images[:, :, 28:100] = random.integers(0, 256, (2, 2, 72, size, 3))
    examples = Examples(
        images,
        random.normal(0.0, 1.0, (2, 8)).astype(np.float32),
        random.normal(0.0, 1.0, (2, 10, 8)).astype(np.float32),
        random.normal(0.0, 1.0, (2, 6)).astype(np.float32),
    )
    prompt = TASKS['bowl'].prompt
    known = script.read_demonstrations(trained.parent / 'demonstrations', _demonstrations(script))
    training = script.Training(trained, _options(script, trained), known)
    as_it_is = np.tile(np.array([1.0, 0.0], np.float32), (2, 1))
    taught = batch_of(examples, np.arange(2), training.tokens[prompt], training.known, as_it_is)
    policy: Any = load_policy(str(trained / 'checkpoint'), profile=load_robot(ROBOT).profile)
    try:
        for number in range(2):
            state = examples.state[number]
            request = InferenceRequest(
                {
                    'observation/exterior_image_1_left': images[number, 0],
                    'observation/wrist_image_left': images[number, 1],
                    'observation/joint_position': state[:7],
                    'observation/gripper_position': state[7:],
                    'prompt': prompt,
                },
                SessionKey('test', '0'),
            )
            served = policy.prepare(request)
            torch.testing.assert_close(served.images, taught.images[number], rtol=0, atol=1e-5)
            assert served.tokens.tolist() == taught.tokens.tolist()
            torch.testing.assert_close(served.state, taught.state[number], rtol=1e-5, atol=1e-5)
            answered = policy._pipeline.robot_actions(taught.actions[number].numpy(), state)
            np.testing.assert_allclose(answered, examples.actions[number], atol=1e-5)
    finally:
        policy.close()


def test_the_gripper_is_learnt_as_it_is_and_joints_as_differences() -> None:
    state = np.arange(8, dtype=np.float32)[None]
    actions = np.tile(np.arange(8, dtype=np.float32) + 0.5, (1, 10, 1))
    examples = Examples(np.zeros((1, 2, 4, 4, 3), np.uint8), state, actions, np.zeros((1, 6)))
    np.testing.assert_array_equal(examples.differences()[0, 3], [*[0.5] * 7, 7.5])
    known = statistics([examples], ('left', 'right'))
    np.testing.assert_allclose(known['action']['mean'], [*[0.5] * 7, 7.5])


def test_the_checkpoint_that_is_written_answers_chunks(trained: Path, drawing: Any) -> None:
    chunks = []
    with ServedPolicy(trained / 'checkpoint') as policy:
        assert policy.horizon == 10
        for _ in range(2):
            act = policy.begin(3)

            def note(observation: Observation, act: Act = act) -> Any:
                chunks.append(np.asarray(act(observation)))
                return chunks[-1]

            look = views('letterbox')
            run_episode(drawing, note, seed=3, task='lift', views=look, max_steps=2)
    first, second = chunks
    assert first.shape == (10, 8)
    assert np.isfinite(first).all()
    np.testing.assert_array_equal(first, second)


def test_stopped_and_begun_again_it_ends_where_one_in_one_go_does(
    runs: Runs, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relabel = runs.script.relabel

    def stopped(checkpoint: Path, task: str, *rest: Any) -> Examples:
        if task == 'bowl':
            raise KeyboardInterrupt
        found: Examples = relabel(checkpoint, task, *rest)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(runs.script, 'relabel', stopped)
        with pytest.raises(KeyboardInterrupt):
            runs.train('in_two')
    folder = runs.scratch / 'in_two'
    assert torch.load(folder / 'training.pt', weights_only=True)['step'] == 3
    assert (folder / 'round-0-lift.npz').exists()
    assert not (folder / 'round-0-bowl.npz').exists()
    half = (folder / 'checkpoint' / 'model.safetensors').read_bytes()
    assert runs.train('in_two') == folder

    whole = (trained / 'checkpoint' / 'model.safetensors').read_bytes()
    assert (folder / 'checkpoint' / 'model.safetensors').read_bytes() == whole != half
    one, two = (
        torch.load(each / 'training.pt', weights_only=True) for each in (trained, folder)
    )  # fmt: skip
    assert one['step'] == two['step'] == 6
    for part in ('model', 'head', 'average'):
        for name, values in one[part].items():
            assert torch.equal(values, two[part][name]), (part, name)


def test_the_averaged_weights_are_written(trained: Path) -> None:
    kept = torch.load(trained / 'training.pt', weights_only=True)
    policy: Any = load_policy(str(trained / 'checkpoint'), profile=load_robot(ROBOT).profile)
    try:
        for name, values in policy.model.named_parameters():
            torch.testing.assert_close(values.data, kept['average'][name], rtol=0, atol=0)
        last = kept['model']['action_out_proj.weight']
        assert not torch.equal(policy.model.action_out_proj.weight, last)
    finally:
        policy.close()


def test_it_does_not_go_on_with_other_settings(
    runs: Runs, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (trained / 'training.pt').read_bytes()
    with pytest.raises(SystemExit) as refusal:
        runs.script.main([str(trained), *TINY, '--seed', '1'])
    assert refusal.value.code == 2
    assert 'has other settings (seed: 0, not 1)' in capsys.readouterr().err
    assert (trained / 'training.pt').read_bytes() == before


def test_its_defaults_are_what_the_shipped_checkpoint_was_trained_with(script: Any) -> None:
    measured = json.loads((FOLDER / 'evaluation.json').read_text(encoding='utf-8'))['training']
    del measured['minutes']
    defaults = vars(script._parser().parse_args(['folder']))
    for free in ('folder', 'demonstrations', 'threads'):
        del defaults[free]
    assert defaults == measured
