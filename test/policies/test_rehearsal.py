# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The policy without a model: a gentle motion around where the robot was found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from openpi_policy_ros.configuration.robot import RobotConfig, load_robot
from openpi_policy_ros.errors import ConfigurationError, InvalidObservation
from openpi_policy_ros.policies import registry
from openpi_policy_ros.policies.base import (
    ActionChunk,
    InferenceRequest,
    RtcPrefix,
    SessionKey,
)
from openpi_policy_ros.policies.loading import load_policy, needs_model
from openpi_policy_ros.policies.rehearsal.layout import make_layout
from openpi_policy_ros.policies.rehearsal.motion import continued
from openpi_policy_ros.policies.rehearsal.options import RehearsalOptions
from openpi_policy_ros.policies.rehearsal.policy import RehearsalPolicy

SESSION = SessionKey('test', '1')
NAMES = ['shoulder', 'elbow', 'gripper']
HERE = [0.5, -0.5, 0.25]


class Clock:
    """Moved by hand; sleeping moves it, too."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def robot(space: str = 'joint_position', **changes: Any) -> RobotConfig:
    values: dict[str, Any] = {
        'profile': {
            'key_map': ['cam -> observation.images.top', 'joints -> observation.state'],
            'action_space': space,
            'action_names': NAMES,
        },
        'joints': {'names': NAMES, 'keys': ['joints'], 'action_indices': [0, 1, 2]},
        'timing': {'action_rate': 10.0},
    }
    for section, keys in changes.items():
        values[section] = {**values[section], **keys}
    return RobotConfig.model_validate(values)


def make(
    config: RobotConfig | None = None, clock: Clock | None = None, **options: Any
) -> RehearsalPolicy:
    clock = clock or Clock()
    chosen = RehearsalOptions(**options)
    layout = make_layout(config or robot(), chosen, 'test')
    return RehearsalPolicy(layout, chosen, clock=clock, sleep=clock.sleep)


def ask(
    policy: RehearsalPolicy,
    state: Any = HERE,
    *,
    reset: bool = False,
    rtc: RtcPrefix | None = None,
    session: SessionKey = SESSION,
) -> ActionChunk:
    (result,) = policy.infer([request(state, reset=reset, rtc=rtc, session=session)])
    assert isinstance(result, ActionChunk), result
    return result


def request(state: Any, **fields: Any) -> InferenceRequest:
    fields = {'session': SESSION, **fields}
    observation: Mapping[str, Any] = {'joints': np.array(state, np.float32), 'prompt': 'go'}
    return InferenceRequest(observation, **fields)


def refusal(config: RobotConfig, **options: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        make(config, **options)
    return str(caught.value)


def test_columns_go_to_either_side_and_back_and_the_gripper_stays() -> None:
    actions = ask(make(amplitude=0.2, period=2.0)).actions
    assert actions.shape == (50, 3)
    assert actions.dtype == np.float32
    # 10 Hz: row 9 is one second on, at the far end, and row 19 back at the beginning.
    np.testing.assert_allclose(actions[9], [0.7, -0.7, 0.25], atol=1e-6)
    np.testing.assert_allclose(actions[19], HERE, atol=1e-6)
    # It begins at rest.
    np.testing.assert_allclose(actions[0], HERE, atol=0.01)


def test_a_list_says_how_far_each_column_goes_and_to_which_side() -> None:
    actions = ask(make(amplitude=[-0.1, 0.0, 0.3], period=2.0)).actions
    np.testing.assert_allclose(actions[9], [0.4, -0.5, 0.55], atol=1e-6)


def test_chunks_of_one_session_are_one_motion_whenever_they_are_asked_for() -> None:
    clock = Clock()
    policy = make(clock=clock)
    first = ask(policy).actions
    clock.now += 0.7
    # The robot is on its way, which changes nothing.
    second = ask(policy, first[6]).actions
    np.testing.assert_allclose(second[:-7], first[7:], atol=1e-6)


def test_a_robot_found_elsewhere_is_moved_around_there() -> None:
    clock = Clock()
    policy = make(clock=clock, amplitude=0.1)
    ask(policy)
    clock.now += 1.0
    # As far from its way as that is long: it is brought back.
    back = ask(policy, [0.69, -0.5, 9.0]).actions
    np.testing.assert_allclose(back[0], [0.69, -0.5, 9.0], atol=0.01)
    np.testing.assert_allclose(back[37], [0.5, -0.5, 9.0], atol=0.001)
    there = ask(policy, [0.75, -0.5, 0.25]).actions
    np.testing.assert_allclose(there[0], [0.75, -0.5, 0.25], atol=0.01)


def test_a_reset_and_another_session_begin_anew_where_the_robot_is() -> None:
    clock = Clock()
    policy = make(clock=clock)
    ask(policy)
    clock.now += 1.0
    other = [0.45, -0.45, 0.0]
    np.testing.assert_allclose(ask(policy, other, reset=True).actions[0], other, atol=0.01)
    far = [2.0, 2.0, 0.0]
    second = SessionKey('test', '2')
    np.testing.assert_allclose(ask(policy, far, session=second).actions[0], far, atol=0.01)
    # Which moves nobody else.
    np.testing.assert_allclose(ask(policy, other).actions[0], other, atol=0.01)


def enabled_for(seconds: float, policy: RehearsalPolicy, clock: Clock, at: Any) -> list[Any]:
    """Return the places of a robot that is told to begin anew and then follows, every 0.1 s."""
    places = [np.array(at)]
    for number in range(round(seconds * 10)):
        places.append(ask(policy, places[-1], reset=number == 0).actions[0].astype(float))
        clock.now += 0.1
    return places


@pytest.mark.parametrize('asked_for', [0.7, 2.0, 3.3, 41.0])
def test_a_robot_that_was_not_enabled_begins_at_rest_where_it_is(asked_for: float) -> None:
    clock = Clock()
    policy = make(clock=clock)
    ask(policy)
    clock.now += asked_for
    places = enabled_for(0.5, policy, clock, HERE)
    np.testing.assert_allclose(places[1], HERE, atol=0.001)
    assert (np.abs(np.diff(places, axis=0)) <= 0.1 * math.pi / 4.0 * 0.1 + 1e-6).all()


def test_a_robot_that_waited_goes_on_from_where_it_stands_without_a_reset() -> None:
    clock = Clock()
    policy = make(clock=clock)
    (*_, stood) = enabled_for(0.8, policy, clock, HERE)
    clock.now += 1.2
    np.testing.assert_allclose(ask(policy, stood).actions[0], stood, atol=0.001)


def test_resets_in_mid_motion_do_not_make_a_robot_creep() -> None:
    clock = Clock()
    policy = make(clock=clock)
    at: Any = HERE
    stood = []
    for seconds in (1.0, 1.7, 0.9, 1.0, 1.0, 0.5, 1.4, 1.0, 1.9, 1.0):
        policy.close_session(SESSION)
        places = enabled_for(seconds, policy, clock, at)
        assert (np.abs(np.subtract(places, HERE)) <= 0.1 + 1e-6).all()
        # Brought back to the centre no faster than it moves around it.
        assert (np.abs(np.diff(places, axis=0)) <= 0.1 * math.pi / 4.0 * 0.1 + 1e-6).all()
        at = places[-1]
        stood.append(at[0] - HERE[0])
    assert sum(0.01 < one < 0.09 for one in stood) >= 4, 'few resets were in mid-motion'


def test_another_session_of_a_connection_goes_on_around_the_same_centre() -> None:
    clock = Clock()
    policy = make(clock=clock)
    ask(policy)
    policy.close_session(SESSION)
    other = [0.55, -0.55, 0.25]
    actions = ask(policy, other, session=SessionKey('test', '2')).actions
    np.testing.assert_allclose(actions[0], other, atol=0.001)
    np.testing.assert_allclose(actions[14], HERE, atol=0.001)
    elsewhere = ask(policy, other, session=SessionKey('another', '1')).actions
    np.testing.assert_allclose(elsewhere[19], [0.65, -0.65, 0.25], atol=1e-5)


def test_velocities_take_sides_by_turns_as_nothing_brings_them_back() -> None:
    policy = make(robot('joint_velocity'))
    sides = [np.sign(ask(policy, reset=True).actions[5, 0]) for _ in range(4)]
    assert sides == [1, -1, 1, -1]


def test_centres_of_clients_that_are_gone_are_forgotten() -> None:
    policy = make()
    for number in range(200):
        ask(policy, session=SessionKey(f'client {number}', '1'))
        policy.close_session(SessionKey(f'client {number}', '1'))
    assert not policy._sessions
    assert len(policy._centres) == 64


def test_a_closed_session_is_forgotten() -> None:
    policy = make()
    ask(policy)
    policy.close_session(SESSION)
    policy.close_session(SESSION)
    assert not policy._sessions


def test_velocities_are_the_slope_of_the_motion_and_the_gripper_is_absolute() -> None:
    positions = ask(make(period=2.0)).actions
    velocities = ask(make(robot('joint_velocity'), period=2.0)).actions
    slope = (positions[2:, :2] - positions[:-2, :2]) / 0.2
    np.testing.assert_allclose(velocities[1:-1, :2], slope, atol=0.005)
    np.testing.assert_allclose(velocities[:, 2], 0.25)


def test_an_amplitude_is_in_rad_whatever_the_units_of_the_policy() -> None:
    degrees = robot(joints={'scale': [57.3, -57.3, 100.0], 'offset': [0.0, 0.0, 9.0]})
    actions = ask(make(degrees, amplitude=0.1, period=2.0), [10.0, 20.0, 30.0]).actions
    np.testing.assert_allclose(actions[9], [10.0 + 5.73, 20.0 + 5.73, 30.0], rtol=1e-5)
    third = robot('joint_velocity', joints={'velocity_scale': [1 / 3, 1 / 3, 1.0]})
    peak = np.abs(ask(make(third, amplitude=0.1, period=2.0)).actions[:, 0]).max()
    assert peak == pytest.approx(0.1 * math.pi / 2.0 / 3.0, rel=0.02)


def test_a_column_starts_from_the_joint_it_moves_wherever_that_is_in_the_state() -> None:
    swapped = robot(joints={'action_indices': [1, 0, -1]})
    actions = ask(make(swapped)).actions
    np.testing.assert_allclose(actions[0], [-0.5, 0.5, 0.25], atol=0.01)


def test_a_slow_policy_can_be_rehearsed() -> None:
    clock = Clock()
    ask(make(clock=clock, latency=0.4))
    assert clock.slept == [0.4]
    ask(make(clock=clock))
    assert clock.slept == [0.4]


def test_a_chunk_is_cut_as_the_robot_file_says() -> None:
    config = robot(profile={'crop_rows': 8, 'policy_server_config': {'action_horizon': 8}})
    policy = make(config)
    chunk = ask(policy)
    assert chunk.actions.shape == policy.spec.output_shapes['actions'] == (8, 3)
    assert chunk.model_actions is not None
    assert chunk.model_actions.shape == (50, 3)
    assert policy.spec.handshake is not None
    assert policy.spec.handshake['action_horizon'] == 8
    assert 'crop_rows is 80, but horizon is 50' in refusal(robot(profile={'crop_rows': 80}))


def test_real_time_chunking_keeps_what_will_have_been_executed() -> None:
    policy = make()
    leftover = np.full((30, 3), 7.0, np.float32)
    actions = ask(policy, rtc=RtcPrefix(leftover, 4, execution_horizon=10)).actions
    np.testing.assert_array_equal(actions[:4], leftover[:4])
    own = ask(policy).actions
    np.testing.assert_allclose(actions[10:], own[10:], atol=1e-6)
    assert (np.diff(actions[3:11, 0]) < 0).all()


@given(
    count=st.integers(1, 30),
    delay=st.integers(0, 40),
    guided=st.integers(0, 40),
)
@settings(deadline=None)
def test_a_continued_chunk_changes_over_without_leaving_the_two(
    count: int, delay: int, guided: int
) -> None:
    rows = np.ones((20, 2))
    leftover = np.full((count, 2), 3.0, np.float32)
    result = continued(rows, leftover, delay, guided)
    assert (result[: min(delay, count, 20)] == 3.0).all()
    assert ((result >= 1.0) & (result <= 3.0)).all()
    assert (np.diff(result, axis=0) <= 0.0).all()
    assert (result[max(delay, guided) :] == 1.0).all()


@pytest.mark.parametrize(
    'prefix',
    [
        RtcPrefix(np.zeros((5, 2), np.float32), 1),
        RtcPrefix(np.zeros((0, 3), np.float32), 1),
        RtcPrefix(np.full((5, 3), np.nan, np.float32), 1),
        RtcPrefix(np.zeros((5, 3), np.float32), -1),
    ],
)
def test_a_leftover_that_cannot_be_continued_is_refused(prefix: RtcPrefix) -> None:
    (result,) = make().infer([request(HERE, rtc=prefix)])
    assert isinstance(result, InvalidObservation)
    assert result.field == 'rtc'


@pytest.mark.parametrize(
    ('observation', 'why'),
    [
        ({'prompt': 'go'}, 'joints: is missing'),
        ({'joints': np.zeros(2, np.float32)}, 'hold 2 numbers; expected 3'),
        ({'joints': np.array([0.0, np.nan, 0.0], np.float32)}, 'or not finite'),
        ({'joints': np.zeros((1, 3), np.float32)}, 'shape [1, 3]'),
        ({'joints': 'here'}, 'is of type'),
    ],
)
def test_a_state_that_says_nothing_is_refused(observation: dict[str, Any], why: str) -> None:
    (result,) = make().infer([InferenceRequest(observation, SESSION)])
    assert isinstance(result, InvalidObservation)
    assert why in str(result)


def test_one_bad_request_spoils_no_other() -> None:
    bad, good = make().infer([request([0.0]), request(HERE)])
    assert isinstance(bad, InvalidObservation)
    assert isinstance(good, ActionChunk)


def test_robots_whose_actions_are_not_their_state_are_refused_by_name() -> None:
    text = refusal(robot('cartesian_delta', timing={'action_rate': None}))
    assert "action_space is 'cartesian_delta'" in text
    assert 'timing.action_rate' in text
    wider = robot(profile={'action_names': [*NAMES, 'base']})
    assert 'column 3 (base) of the actions' in refusal(wider)
    profile_only = RobotConfig.model_validate(
        {
            'profile': {
                'key_map': ['pose -> observation.state'],
                'state_dims': [8],
                'action_space': 'joint_position',
                'action_names': NAMES,
            },
            'timing': {'action_rate': 10.0},
        }
    )
    assert 'the state has 8 numbers' in refusal(profile_only)
    assert 'amplitude has 2 numbers for 3 columns' in refusal(robot(), amplitude=[0.1, 0.2])
    assert 'nobody knows how many columns' in refusal(RobotConfig())


@pytest.mark.parametrize(
    'name',
    ['droid', 'droid_jointpos', 'droid_jointpos_delta', 'roboarena', 'fr3', 'aloha', 'so101'],
)
def test_it_answers_as_every_shipped_robot_expects(name: str) -> None:
    config = load_robot(name)
    policy = load_policy('', policy='rehearsal', profile=config.profile, robot=config)
    policy.warm_up()
    count = policy.spec.action_dim
    sizes = {key: config.joints.count(key) for key in policy.spec.state.wire_keys}
    observation = {key: np.full(size, 0.3, np.float32) for key, size in sizes.items()}
    (chunk,) = policy.infer([InferenceRequest(observation, SESSION)])
    assert isinstance(chunk, ActionChunk), chunk
    assert chunk.actions.shape == policy.spec.output_shapes['actions']
    moving = np.ptp(chunk.actions, axis=0) > 0.0
    grippers = ['gripper' in label for label in policy.spec.action_names]
    assert (moving == ~np.array(grippers)).all()
    assert np.allclose(chunk.actions[:, grippers], 0.3)
    assert count == len(policy.spec.action_names)


def test_a_pose_in_space_is_not_rehearsed() -> None:
    config = load_robot('libero')
    with pytest.raises(ConfigurationError, match='cartesian_delta'):
        load_policy('', policy='rehearsal', profile=config.profile, robot=config)


def test_a_model_beside_it_is_told_to_be_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    config = load_robot('fr3')
    load_policy('/data/pi0', policy='rehearsal', profile=config.profile, robot=config)
    assert 'the rehearsal has no model: /data/pi0 is not loaded' in caplog.text


def test_only_the_rehearsal_and_the_simulators_expert_need_no_model(tmp_path: Path) -> None:
    assert [name for name in registry.names() if not registry.find(name).needs_model] == [
        'rehearsal',
        'sim_expert',
    ]
    own = tmp_path / 'mine.yaml'
    own.write_text(yaml.safe_dump({'policy': 'rehearsal', 'period': 8.0}))
    assert not needs_model(str(own))
    assert needs_model('pi0')
    assert needs_model(None)
    with pytest.raises(ConfigurationError, match="policy 'pi0' needs a model: a checkpoint"):
        load_policy('', policy='pi0')


@pytest.mark.parametrize(
    ('options', 'why'),
    [
        ({'amplitude': 0.0}, 'amplitude'),
        ({'amplitude': [0.1, 11.0, 0.0]}, 'amplitude'),
        ({'period': 0.1}, 'period: Input should be greater than or equal to 0.5'),
        ({'speed': 1.0}, 'speed: unknown key'),
    ],
)
def test_an_option_out_of_range_is_refused(
    tmp_path: Path, options: dict[str, Any], why: str
) -> None:
    path = tmp_path / 'mine.yaml'
    path.write_text(yaml.safe_dump({'policy': 'rehearsal', **options}))
    config = load_robot('fr3')
    with pytest.raises(ConfigurationError) as caught:
        load_policy('', policy=str(path), profile=config.profile, robot=config)
    assert why in str(caught.value)


@given(
    amplitude=st.floats(0.01, 1.0),
    period=st.floats(0.5, 10.0),
    at=st.floats(0.0, 100.0),
)
@settings(deadline=None, max_examples=50)
def test_it_is_never_further_away_nor_faster_than_said(
    amplitude: float, period: float, at: float
) -> None:
    clock = Clock()
    policy = make(clock=clock, amplitude=amplitude, period=period)
    ask(policy)
    clock.now += at
    # Where a robot is that follows.
    gone = amplitude * (1.0 - math.cos(math.tau * at / period)) / 2.0
    actions = ask(policy, np.add(HERE, [gone, -gone, 0.0])).actions.astype(np.float64)
    off = np.abs(actions - HERE)
    assert (off <= amplitude + 1e-5).all()
    assert (np.abs(np.diff(actions, axis=0)) * 10.0 <= amplitude * math.pi / period + 1e-4).all()
