# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Results: rates with intervals, a table, a file; and the images that are asked for by size."""

from __future__ import annotations

import json

import pytest

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros_sim.results import Record, Results, Settings, wilson

pytest.importorskip('mujoco')

from openpi_policy_ros_sim.request import make_plan, view_of

SETTINGS = Settings(('lift', 'bowl'), episodes=4, seed=0, max_steps=450)


def record(seed, task='lift', done=None, error=None, ms=(10.0,)):
    seconds = {'reach': 1.0, 'lift': None, 'bowl': None, task: done}
    return Record(
        seed=seed, task=task, prompt=task, success=done is not None, seconds=seconds,
        steps=round(15 * (done or 30)), inferences=len(ms), latency_ms=list(ms),
        clamped={'velocity': 2} if done is None else {}, error=error,
    )  # fmt: skip


@pytest.mark.parametrize(
    ('successes', 'trials', 'low', 'high'),
    # Newcombe (1998), table I, method 3.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611),
     (1, 29, 0.0061, 0.1718), (29, 29, 0.8830, 1.0)],
)  # fmt: skip
def test_wilsons_interval_is_the_published_one(successes, trials, low, high):
    assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-5)


def test_what_broke_off_counts_for_nothing():
    results = Results(SETTINGS, {}, 'ws://x:1/')
    results.records += [record(0, done=2.0, ms=(10.0, 30.0)), record(1, done=4.0), record(2)]
    results.records.append(record(3, error='gone', ms=(9000.0,)))
    lift, bowl = results.summary()
    assert (lift['episodes'], lift['successes']) == (3, 2)
    assert lift['success_rate'] == pytest.approx(2 / 3)
    assert lift['steps_p50'] == 60.0
    assert lift['seconds_until_success_p50'] == 3.0
    assert lift['latency_ms'] == {'count': 4, 'p50': 10.0, 'p95': pytest.approx(27.0)}
    assert lift['clamped'] == {'velocity': 2}
    assert lift['done_besides'] == {'reach': 3, 'bowl': 0}
    assert (bowl['episodes'], bowl['success_rate'], bowl['steps_p50']) == (0, None, None)
    head, first, second, broken = results.table().splitlines()
    assert head.split() == [
        'task', 'success', 'rate', '95', '%', 'interval', 'steps', 'seconds', 'latency', 'ms',
        'p50', 'p95', 'clamped',
    ]  # fmt: skip
    assert first.split() == [
        'lift', '2/3', '67', '%', '21-94', '%', '60', '3.0', '10.0', '27.0', 'velocity', '2'
    ]  # fmt: skip
    assert second.split() == ['bowl', '0/0', '-', '-', '-', '-', '-', '-', '0']
    assert broken == 'lift, seed 3: broke off after 450 steps, not counted'


def test_the_file_has_every_episode(tmp_path):
    results = Results(SETTINGS, {'robot': 'droid', 'horizon': 8}, 'ws://x:1/', {'action_dim': 8})
    results.records += [record(0, done=2.0), record(0, task='bowl')]
    results.write(tmp_path / 'new' / 'r.json')
    found = json.loads((tmp_path / 'new' / 'r.json').read_text(encoding='utf-8'))
    assert list(found) == ['format', 'version', 'server', 'settings', 'summary', 'episodes']
    assert (found['format'], found['version']) == ('openpi_policy_ros_sim.results', 1)
    assert found['server'] == {'url': 'ws://x:1/', 'handshake': {'action_dim': 8}}
    assert found['settings'] == {
        'tasks': ['lift', 'bowl'], 'episodes': 4, 'seed': 0, 'max_steps': 450, 'prompt': None,
        'policy_seed': None, 'robot': 'droid', 'horizon': 8,
    }  # fmt: skip
    for episode in found['episodes']:
        assert list(episode) == [
            'seed', 'task', 'prompt', 'success', 'seconds', 'steps', 'inferences', 'latency_ms',
            'clamped', 'video', 'error',
        ]  # fmt: skip
    assert [path.name for path in (tmp_path / 'new').iterdir()] == ['r.json']


@pytest.mark.parametrize(
    ('size', 'drawn', 'frame'),
    [((224, 224), (126, 224), (224, 224)), ((180, 320), (180, 320), None),
     ((720, 1280), (720, 1280), None), ((256, 320), (180, 320), (256, 320)),
     ((90, 320), (90, 160), (90, 320))],
)  # fmt: skip
def test_images_are_scaled_to_fit(size, drawn, frame):
    view = view_of('wrist', *size)
    assert ((view.height, view.width), view.frame) == (drawn, frame)


def test_images_are_not_scaled_where_the_handshake_says_null():
    plan = make_plan({'image_resolution': None}, 'droid_jointpos')
    assert {(view.height, view.width) for view in plan.images.values()} == {(720, 1280)}


@pytest.mark.parametrize(
    ('handshake', 'robot', 'reason'),
    [
        ({}, 'none', 'neither the handshake nor no robot file has an action_space'),
        ({'action_horizon': 0}, 'droid', 'action_horizon is 0, expected a number of rows'),
        ({'n_external_cameras': -1}, 'droid', 'n_external_cameras is -1'),
        ({'privileged_keys': 'all'}, 'droid', "privileged_keys is 'all', expected a list"),
        ({}, 'aloha', 'expected 8 numbers in all'),
        ({'action_space': 'cartesian_velocity'}, 'none', 'the simulated robot takes joint_pos'),
    ],
)
def test_a_plan_that_cannot_be_is_refused(handshake, robot, reason):
    with pytest.raises(ConfigurationError) as caught:
        make_plan(handshake, robot)
    assert reason in str(caught.value)


def test_a_horizon_beyond_the_chunk_is_refused_for_a_history():
    with pytest.raises(ConfigurationError, match='24 rows are to be executed'):
        make_plan({'action_horizon': 8}, 'roboarena', frames=(-23, -16, -8, 0))
