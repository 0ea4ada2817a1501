# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every shipped robot file serves the clients of its family: each is played against the server.

The policy is a made π0. What a client of a family gets must be, bit by bit, the chunk that the
same images, state and seed give under the model's own names, cut to the family's shape: so keys,
layout, order and crop are all as the file says.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from families import (
    BASE,
    FAMILIES,
    LEFT,
    OWN_NAMES,
    PROMPT,
    RIGHT,
    SEED,
    Family,
    Servers,
    answered,
    connected,
    flatten,
    image,
    infer,
    misspell,
)
from openpi_client.action_chunk_broker import ActionChunkBroker
from serving import FAILED, Client, serving

from openpi_policy_ros.configuration.files import config_directory
from openpi_policy_ros.configuration.robot import Profile, load_robot
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.errors import ConfigurationError, InvalidObservation
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.wire import Dialect

# The stock client keeps its connection for as long as it lives, without a context manager.
pytestmark = pytest.mark.filterwarnings(r'ignore:connect\(\) must be used:DeprecationWarning')

every = pytest.mark.parametrize('family', FAMILIES.values(), ids=FAMILIES.keys())


def test_every_shipped_robot_file_is_played_here() -> None:
    shipped = {
        path.stem
        for path in config_directory().glob('*.yaml')
        if '/**:' in path.read_text(encoding='utf-8')
    }
    # Those of DreamZero have three cameras, which no π0 here has: its own tests play them.
    assert {name for name in shipped if not name.endswith('_dreamzero')} == set(FAMILIES)


@every
def test_the_table_of_robots_says_what_the_file_does(family: Family) -> None:
    table = (Path(__file__).parents[2] / 'docs' / 'robots.md').read_text(encoding='utf-8')
    (row,) = [line for line in table.splitlines() if line.startswith(f'| `{family.robot}` |')]
    rows, columns = family.shape
    said = f'| [{rows}, {columns}] | `{family.action_space}` |'
    assert said in row
    assert row.endswith(f'| {family.rate:g} Hz |')


@every
def test_a_client_of_the_family_gets_the_models_chunk_cut_to_its_shape(
    family: Family, servers: Servers
) -> None:
    rows, columns = family.shape
    expected = servers.model_chunk(family)[:rows, :columns]
    observation = {**family.observation, 'seed': SEED}
    with connected(servers[family.robot]) as client:
        assert client.get_server_metadata()['action_space'] == family.action_space
        reply = client.infer(observation)
    assert set(reply) == {'actions', 'server_timing', 'policy_timing'}
    assert reply['actions'].dtype == np.float32
    np.testing.assert_array_equal(reply['actions'], expected)
    with connected(servers[family.robot], Dialect.OPENPI) as client:
        handshake = client.get_server_metadata()
        np.testing.assert_array_equal(client.infer(observation), expected)
    assert (handshake['action_horizon'], handshake['action_dim']) == family.shape
    assert handshake['action_space'] == family.action_space


@every
def test_a_misspelt_camera_is_refused_by_name_and_the_next_request_served(
    family: Family, servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    key, typo, said = family.misspelt
    with connected(servers[family.robot]) as client:
        with pytest.raises(RuntimeError, match=FAILED):
            client.infer(misspell(family.observation, key, typo))
        assert client.infer(family.observation)['actions'].shape == family.shape
    (logged,) = [text for text in caplog.messages if typo in text]
    assert said in logged


@every
def test_a_camera_that_does_not_come_is_missed_by_name(family: Family, servers: Servers) -> None:
    engine = servers[family.robot].engine
    required = [camera for camera in engine.spec.cameras if camera.required]
    assert {camera.feature for camera in required} == set(family.images)
    flat = flatten(family.observation)
    for camera in required:
        (key,) = camera.wire_keys
        with pytest.raises(InvalidObservation, match='the image of the required camera') as caught:
            infer(engine, {name: value for name, value in flat.items() if name != key})
        assert caught.value.field == key


# What only one family does.


def test_droids_loop_executes_eight_steps_of_a_chunk_of_exactly_ten_by_eight(
    servers: Servers,
) -> None:
    family, one = FAMILIES['droid'], servers['droid']
    before = answered(one)
    chunk, done = None, 0
    with connected(one) as client:
        for _ in range(20):
            if chunk is None or done == 8:
                chunk, done = client.infer(family.observation)['actions'], 0
                assert chunk.shape == (10, 8)
            assert np.isfinite(chunk[done]).all()
            done += 1
    assert answered(one) - before == 3


@pytest.mark.parametrize(('robot', 'rows'), [('droid_jointpos', 15), ('roboarena', 24)])
def test_longer_replies_are_served_when_file_and_handshake_say_so(
    robot: str, rows: int, servers: Servers
) -> None:
    family = FAMILIES[robot]
    values = load_robot(robot).profile.model_dump()
    values['crop_rows'] = rows
    with pytest.raises(ConfigurationError, match=f'is 10, but a reply has {rows} rows'):
        servers.load(validate(Profile, values, 'test'))
    values['policy_server_config']['action_horizon'] = rows
    with serving(servers.load(validate(Profile, values, 'test'))) as one, connected(one) as client:
        actions = client.infer({**family.observation, 'seed': SEED})['actions']
    np.testing.assert_array_equal(actions, servers.model_chunk(family)[:rows, :8])


@dataclass
class PolicyServerConfig:
    """The handshake as RoboArena's client reads it: these six keys, and no other."""

    image_resolution: tuple[int, int] | None = None
    n_external_cameras: int = 0
    needs_wrist_camera: bool = False
    needs_stereo_camera: bool = False
    needs_session_id: bool = False
    action_space: str = ''


def test_roboarena_client_from_strict_handshake_to_text_reset(servers: Servers) -> None:
    family = FAMILIES['roboarena']
    expected = servers.model_chunk(family)[:10, :8]
    # What the handshake asks for is enough; the second exterior camera changes nothing.
    asked = {k: v for k, v in family.observation.items() if 'exterior_image_1' not in k}
    with Client(servers['roboarena'], Dialect.STOCK) as client:
        config = PolicyServerConfig(**client.handshake)
        assert config == PolicyServerConfig([224, 224], 1, True, False, False, 'joint_position')
        for observation in (asked, family.observation):
            reply = client.infer(
                endpoint='infer', session_id=np.array(['38DSA3hd3']), seed=SEED, **observation
            )
            np.testing.assert_array_equal(reply['actions'], expected)
        assert client.infer(endpoint='reset') == 'reset successful'
        again = client.infer(endpoint='infer', seed=SEED, **asked)
        np.testing.assert_array_equal(again['actions'], expected)


def test_four_frames_meant_for_dreamzero_are_refused_by_name(
    servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    family = FAMILIES['roboarena']
    key = 'observation/exterior_image_0_left'
    four = np.stack([image(number) for number in range(4)])
    with Client(servers['roboarena'], Dialect.STOCK) as client:
        assert client.infer(endpoint='infer', **{**family.observation, key: four}) == FAILED
        assert client.infer(endpoint='infer', **family.observation)['actions'].shape == (10, 8)
    (logged,) = [text for text in caplog.messages if key in text]
    assert f'{key}: has 4 axes, shape [4, 224, 224, 3]' in logged
    assert 'no batch or time axis' in logged


def test_a_droid_client_of_a_roboarena_server_is_told_the_key_that_counts_from_zero(
    servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        connected(servers['roboarena']) as client,
        pytest.raises(RuntimeError, match=FAILED),
    ):
        client.infer(FAMILIES['droid'].observation)
    assert (
        'observation/exterior_image_0_left: the image of the required camera '
        'observation.images.base_0_rgb is missing'
    ) in caplog.text


def test_alohas_broker_executes_half_a_chunk_and_sends_no_prompt(servers: Servers) -> None:
    family, one = FAMILIES['aloha'], servers['aloha']
    assert 'prompt' not in family.observation
    expected = servers.model_chunk(family)[:25, :14]
    before = answered(one)
    observation = {**family.observation, 'seed': SEED}
    with connected(one) as client:
        broker = ActionChunkBroker(client, action_horizon=25)
        steps = [broker.infer(observation)['actions'] for _ in range(2 * 25)]
    assert answered(one) - before == 2
    np.testing.assert_array_equal(steps, np.concatenate([expected, expected]))


def test_aloha_without_a_default_prompt_is_refused_by_name(
    checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy = load_policy(str(checkpoint), policy='pi0', profile=load_robot('aloha').profile)
    with (
        serving(policy) as one,
        connected(one) as client,
        pytest.raises(RuntimeError, match=FAILED),
    ):
        client.infer(FAMILIES['aloha'].observation)
    assert 'prompt: the instruction is missing' in caplog.text
    assert 'set default_prompt' in caplog.text


def test_an_aloha_image_in_the_other_layout_is_refused_with_the_setting_to_change(
    servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    observation = FAMILIES['aloha'].observation
    wrong = {**observation, 'images': {**observation['images'], 'cam_high': image(1)}}
    with connected(servers['aloha']) as client, pytest.raises(RuntimeError, match=FAILED):
        client.infer(wrong)
    assert 'images/cam_high: has 224 channels in layout CHW, shape [224, 224, 3]' in caplog.text
    assert 'set profile.layout: HWC' in caplog.text


def test_gym_aloha_with_its_one_camera_is_served_once_the_wrists_are_optional(
    servers: Servers,
) -> None:
    observation = FAMILIES['aloha'].observation
    one_camera = {**observation, 'images': {'cam_high': observation['images']['cam_high']}}
    values = {**load_robot('aloha').profile.model_dump(), 'optional_cameras': [LEFT, RIGHT]}
    with (
        serving(servers.load(validate(Profile, values, 'test'))) as one,
        connected(one) as client,
    ):
        assert client.infer(one_camera)['actions'].shape == (50, 14)


def test_libero_replans_after_five_steps(servers: Servers) -> None:
    family, one = FAMILIES['libero'], servers['libero']
    before = answered(one)
    plan: list[np.ndarray] = []
    with connected(one) as client:
        for _ in range(12):
            if not plan:
                chunk = client.infer(family.observation)['actions']
                assert len(chunk) >= 5
                plan = list(chunk[:5])
            assert len(plan.pop(0).tolist()) == 7
    assert answered(one) - before == 3


# The base model's own names, without a robot file, and a fine-tune's.


def test_the_models_own_names_give_the_whole_chunk_under_either_name_of_the_state(
    servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    family, one = FAMILIES['droid'], servers[OWN_NAMES]
    expected = servers.model_chunk(family)
    assert expected.shape == (50, 32)
    observation = {**family.images, 'prompt': PROMPT, 'seed': SEED}
    for dialect in Dialect:
        with connected(one, dialect) as client:
            for name in ('state', 'observation.state'):
                reply = client.infer({**observation, name: family.state})
                actions = reply['actions'] if dialect is Dialect.STOCK else reply
                np.testing.assert_array_equal(actions, expected)
    both = {**observation, 'state': family.state, 'observation.state': family.state}
    with connected(one) as client, pytest.raises(RuntimeError, match=FAILED):
        client.infer(both)
    assert "'state' and 'observation.state' are both present and mean the same input" in caplog.text


def test_the_policy_file_points_a_shipped_robot_file_at_a_fine_tunes_own_names(
    checkpoint: Path, tmp_path: Path
) -> None:
    family, profile = FAMILIES['so101'], load_robot('so101').profile
    own = {'observation.images.top': image(1), 'observation.images.gripper_cam': image(2)}
    fine_tune = tmp_path / 'fine_tune'
    shutil.copytree(checkpoint, fine_tune)
    for name in ('config.json', 'policy_preprocessor.json', 'policy_postprocessor.json'):
        text = (fine_tune / name).read_text()
        for ours, theirs in zip((BASE, LEFT), own, strict=True):
            text = text.replace(ours, theirs)
        (fine_tune / name).write_text(text)
    config = json.loads((fine_tune / 'config.json').read_text())
    del config['input_features'][RIGHT]
    config['input_features']['observation.state']['shape'] = [6]
    config['output_features']['action']['shape'] = [6]
    (fine_tune / 'config.json').write_text(json.dumps(config))

    with pytest.raises(ConfigurationError, match='no input of this checkpoint') as caught:
        load_policy(str(fine_tune), profile=profile)
    assert all(name in str(caught.value) for name in own)
    policy_file = tmp_path / 'mine.yaml'
    policy_file.write_text(
        'policy: pi0\n'
        'num_inference_steps: 2\n'
        'policy_server_config: {}\n'
        'image_key_map:\n'
        f'  {BASE}: observation.images.top\n'
        f'  {LEFT}: observation.images.gripper_cam\n'
    )
    chunks = []
    for conventions, observation in (
        (profile, family.observation),
        (None, {**own, 'state': family.state, 'prompt': PROMPT}),
    ):
        policy = load_policy(str(fine_tune), policy=str(policy_file), profile=conventions)
        declared = {} if conventions is None else conventions.policy_server_config
        assert policy.spec.handshake == declared
        with serving(policy) as one:
            chunks.append(infer(one.engine, observation))
    assert chunks[0].shape == (50, 6)
    np.testing.assert_array_equal(*chunks)
