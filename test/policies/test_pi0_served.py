# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Real-time chunking and sampler steps of a real fine-tune: engine and both WebSocket paths."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving import FAILED, INVALID, TIMEOUT, Client, Served, serving

from openpi_policy_ros.configuration.robot import Profile, load_robot
from openpi_policy_ros.engine import Engine, Lane
from openpi_policy_ros.errors import ConfigurationError, InvalidObservation
from openpi_policy_ros.policies.base import (
    ActionChunk,
    InferenceRequest,
    RtcPrefix,
    SessionKey,
)
from openpi_policy_ros.policies.pi0.load import load
from openpi_policy_ros.policies.registry import LoadRequest
from openpi_policy_ros.wire import Dialect
from openpi_policy_ros.wire.handshake import ROBOARENA_KEYS

ATOL = 2e-5
DELAY, DONE = 3, 5
HANDSHAKE = {'image_resolution': [224, 224], 'action_dim': 7, 'action_horizon': 20, 'rtc': True}
PROFILE = Profile(crop_rows=20)

both = pytest.mark.parametrize('dialect', list(Dialect))


def observe(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        **{
            f'observation.images.{name}': rng.integers(0, 256, (48, 64, 3), dtype=np.uint8)
            for name in ('base_0_rgb', 'left_wrist_0_rgb', 'right_wrist_0_rgb')
        },
        'state': rng.standard_normal(14).astype(np.float32),
        'prompt': 'pick up the red block',
    }


@pytest.fixture(scope='module')
def fine_tune(golden: Path) -> str:
    """Return a checkpoint with 14 numbers of state and 7 of action, both normalised."""
    return str(golden.parent / 'pi0_tiny_ft_meanstd')


def request(fine_tune: str, handshake: dict[str, Any] | None) -> LoadRequest:
    options = {'policy_server_config': handshake}
    return LoadRequest(fine_tune, options=options, profile=PROFILE)


@pytest.fixture(scope='module')
def served(fine_tune: str) -> Iterator[Served]:
    with serving(load(request(fine_tune, HANDSHAKE), 'pi0')) as served:
        yield served


def chunk_of(engine: Engine, seed: int, connection: str = 'own', **fields: Any) -> ActionChunk:
    session = SessionKey(connection, 'default')
    one = InferenceRequest(observe(seed), session, seed=seed, **fields)
    return engine.submit(one, Lane.ROBOT).result(timeout=TIMEOUT)


def rest_of(served: Served) -> np.ndarray:
    """Return the rows of a chunk that a robot has not executed yet."""
    return chunk_of(served.engine, 0).actions[DONE:]


def leads(guided: np.ndarray, free: np.ndarray, rest: np.ndarray) -> bool:
    """Return whether the rows executed meanwhile are nearer to those the robot has."""
    near, far = (np.abs(chunk[:DELAY] - rest[:DELAY]).mean() for chunk in (guided, free))
    return bool(near < 0.5 * far)


def test_the_engine_hands_on_what_is_left_of_a_chunk(served: Served) -> None:
    before = chunk_of(served.engine, 0)
    assert before.model_actions is not None
    rest = before.actions[DONE:]
    free = chunk_of(served.engine, 1)
    guided = chunk_of(served.engine, 1, rtc=RtcPrefix(rest, DELAY, robot_units=True))
    assert leads(guided.actions, free.actions, rest)
    # In model space all 50 rows are left, and the columns a robot never sees.
    model = RtcPrefix(before.model_actions[DONE : DONE + 15], DELAY, state=before.state)
    other = chunk_of(served.engine, 1, rtc=model).actions
    assert leads(other, free.actions, rest)


def test_guided_and_free_requests_side_by_side_are_each_answered_as_alone(served: Served) -> None:
    prefix = RtcPrefix(rest_of(served), DELAY, robot_units=True)
    expected = [chunk_of(served.engine, 1).actions, chunk_of(served.engine, 1, rtc=prefix).actions]
    futures = [
        served.engine.submit(
            InferenceRequest(
                observe(1),
                SessionKey(f'side-{index}', 'x'),
                seed=1,
                rtc=prefix if index % 2 else None,
            ),
            Lane.REMOTE,
        )
        for index in range(4)
    ]
    for index, future in enumerate(futures):
        actions = future.result(timeout=TIMEOUT).actions
        np.testing.assert_allclose(actions, expected[index % 2], rtol=0, atol=ATOL)


def test_a_rest_of_the_wrong_width_fails_alone(served: Served) -> None:
    wrong = RtcPrefix(np.zeros((2, 6), np.float32), 0, robot_units=True)
    with pytest.raises(InvalidObservation, match=r'\[2, 6\].*\[T, 7\] with T at most 20'):
        chunk_of(served.engine, 1, rtc=wrong)
    chunk_of(served.engine, 1)


@both
def test_a_rest_over_the_wire_guides_as_it_does_in_the_engine(
    served: Served, dialect: Dialect
) -> None:
    with Client(served, dialect) as client:
        if dialect is Dialect.OPENPI:
            assert client.handshake['rtc'] is True
        else:
            assert set(client.handshake) <= set(ROBOARENA_KEYS)
        rest = client.actions(**observe(0), seed=0)[DONE:]
        np.testing.assert_array_equal(rest, rest_of(served))
        free = client.actions(**observe(1), seed=1)
        sent = {'rtc/prev_actions': rest, 'rtc/delay': DELAY}
        guided = client.actions(**observe(1), seed=1, **sent)
    prefix = RtcPrefix(rest, DELAY, robot_units=True)
    expected = chunk_of(served.engine, 1, rtc=prefix).actions
    np.testing.assert_allclose(guided, expected, rtol=0, atol=ATOL)
    assert np.abs(guided - free).max() > 0.01
    assert leads(guided, free, rest)


@both
def test_a_rest_of_the_wrong_form_is_an_invalid_payload_and_the_next_is_answered(
    served: Served, dialect: Dialect
) -> None:
    with Client(served, dialect) as client:
        for sent in (
            {'rtc/delay': 1},
            {'rtc/prev_actions': np.zeros((2, 6), np.float32), 'rtc/delay': 1},
            {'rtc/prev_actions': np.zeros((21, 7), np.float32), 'rtc/delay': 1},
            {'rtc/prev_actions': np.zeros((2, 7), np.float32), 'rtc/delay': -1},
        ):
            assert client.infer(**observe(1), **sent) == client.error(INVALID)
        lost = np.full((2, 7), np.nan, np.float32)
        sent = {'rtc/prev_actions': lost, 'rtc/delay': 1}
        assert client.infer(**observe(1), **sent) == client.error(FAILED)
        free = client.actions(**observe(1), seed=1)
    np.testing.assert_allclose(free, chunk_of(served.engine, 1).actions, rtol=0, atol=ATOL)


@both
def test_without_the_invitation_a_rest_is_a_key_nobody_reads(
    fine_tune: str, dialect: Dialect, caplog: pytest.LogCaptureFixture
) -> None:
    handshake = {key: value for key, value in HANDSHAKE.items() if key != 'rtc'}
    policy = load(request(fine_tune, handshake), 'pi0')
    with serving(policy) as served, Client(served, dialect) as client:
        assert 'rtc' not in client.handshake
        free = client.actions(**observe(1), seed=1)
        sent = {'rtc/prev_actions': free[DONE:], 'rtc/delay': -7}
        for _ in range(2):
            np.testing.assert_array_equal(client.actions(**observe(1), seed=1, **sent), free)
    for key in sent:
        assert caplog.text.count(f"observation key '{key}' is not read by this policy") == 1


@both
def test_steps_asked_for_over_the_wire_are_the_engines(served: Served, dialect: Dialect) -> None:
    with Client(served, dialect) as client:
        chunks = {
            steps: client.actions(
                **observe(2), seed=2, sampling_params={'num_inference_steps': steps}
            )
            for steps in (1, 4, 10)
        }
        configured = client.actions(**observe(2), seed=2)
        for steps in (0, -1):
            params = {'num_inference_steps': steps}
            assert client.infer(**observe(2), sampling_params=params) == client.error(INVALID)
    for steps, chunk in chunks.items():
        expected = chunk_of(served.engine, 2, num_inference_steps=steps).actions
        np.testing.assert_allclose(chunk, expected, rtol=0, atol=ATOL)
    np.testing.assert_array_equal(chunks[10], configured)
    for one, other in ((1, 4), (4, 10), (1, 10)):
        assert np.abs(chunks[one] - chunks[other]).max() > 1e-3


@pytest.mark.parametrize('steps', [0, -5, 1001, 2.0])
def test_steps_that_make_no_sense_refuse_the_start(fine_tune: str, steps: Any) -> None:
    with pytest.raises(ConfigurationError, match='num_inference_steps'):
        load(LoadRequest(fine_tune, options={'num_inference_steps': steps}), 'pi0')


def test_an_invitation_must_be_true_or_false(fine_tune: str) -> None:
    with pytest.raises(ConfigurationError, match=r"rtc is 'on', expected true or false"):
        load(request(fine_tune, {'rtc': 'on'}), 'pi0')


def test_the_pages_example_runs_as_it_stands(small: Path) -> None:
    page = Path(__file__).resolve().parents[2] / 'docs' / 'protocol.md'
    (example,) = re.findall(r'^```python\n(.*?)^```', page.read_text('utf-8'), re.S | re.M)
    assert '8000' in example
    options = {'policy_server_config': {'rtc': True}}
    robot = load_robot('droid').profile
    policy = load(LoadRequest(str(small), options=options, profile=robot), 'pi0')
    with serving(policy) as served:
        done = subprocess.run(
            [sys.executable, '-c', example.replace('8000', str(served.port))],
            capture_output=True,
            text=True,
            timeout=60.0,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        seams = re.findall(r'^at the seam: \(10, 8\) (\S+)$', done.stdout, re.M)
        assert len(seams) == 3
        # Free chunks of independent noise are several units apart.
        assert max(map(float, seams)) < 0.5
        assert served.engine.stats().succeeded == 4
