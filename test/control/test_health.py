# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What counts as OK, WARN, ERROR and STALE, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from health_cases import (
    actuation,
    camera,
    failing,
    inference,
    joints,
    recording,
    serving,
    stream,
    supply,
)
from hypothesis import given
from hypothesis import strategies as st

from openpi_policy_ros.configuration.diagnostics import Diagnostics
from openpi_policy_ros.control.controller import PAUSE
from openpi_policy_ros.control.health import (
    FEWEST,
    Health,
    Level,
    above,
    below,
    inactive,
    share_above,
)
from openpi_policy_ros.control.health_streams import Lately, camera_health, joint_health
from openpi_policy_ros.control.health_work import (
    actuation_health,
    inference_health,
    recording_health,
    server_health,
)
from openpi_policy_ros.control.images import Picture
from openpi_policy_ros.control.machine import State

OK, WARN, ERROR, STALE = Level
LIMITS = Diagnostics()
FINITE = st.floats(0.0, 1e6)


@given(FINITE, FINITE, st.tuples(FINITE, FINITE).map(sorted).map(tuple))
def test_worse_numbers_never_get_a_better_level(
    one: float, other: float, thresholds: tuple[float, float]
) -> None:
    lower, higher = sorted((one, other))
    warn, error = thresholds
    assert above(lower, thresholds) <= above(higher, thresholds)
    assert below(lower, (error, warn)) >= below(higher, (error, warn))
    assert above(warn, thresholds) is below(error, (error, warn)) is OK
    assert above(error + 1.0, thresholds) is below(warn - 1.0, (error, warn)) is ERROR


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_a_share_of_1_is_never_exceeded_and_of_few_none_is_judged(part: int, more: int) -> None:
    assert share_above(part, part + more, (1.0, 1.0)) is OK
    level = share_above(part, part + more, (0.0, 1.0))
    assert level is (WARN if part and part + more >= FEWEST else OK)


CASES: list[tuple[str, Callable[..., Health], Any, Level, str]] = [
    ('well', camera_health, camera(), OK, '30.0 images per second'),
    ('unmeasured', camera_health, camera(rate=None), OK, 'images come'),
    (
        'silent',
        camera_health,
        camera(count=stream(None, received=0), rate=0.0, lately=Lately(), picture=None),
        STALE,
        'no image on /left/one/image_raw yet: look at the camera driver',
    ),
    (
        'unusable',
        camera_health,
        camera(count=stream(None, 'camera sends depth'), rate=0.0, lately=Lately(150, 150)),
        ERROR,
        'no usable image on /left/one/image_raw yet: camera sends depth',
    ),
    (
        'old',
        camera_health,
        camera(count=stream(0.16)),
        WARN,
        'the newest image on /left/one/image_raw is 0.2 s old',
    ),
    (
        'older',
        camera_health,
        camera(count=stream(0.46)),
        ERROR,
        'the newest image on /left/one/image_raw is 0.5 s old',
    ),
    (
        'gone',
        camera_health,
        camera(count=stream(5.1, 'nobody publishes it'), rate=0.0),
        STALE,
        'the newest image on /left/one/image_raw is 5.1 s old (allowed 0.15 s): nobody publishes',
    ),
    ('slow', camera_health, camera(rate=11.9), WARN, '11.9 images per second, expected 15'),
    ('slower', camera_health, camera(rate=7.4), ERROR, '7.4 images per second, expected 15'),
    ('any rate', camera_health, camera(rate=0.1, expected_rate=0.0), OK, '0.1 images'),
    (
        'lossy',
        camera_health,
        camera(lately=Lately(80, 0, 20), count=stream(0.02, 'larger buffers')),
        WARN,
        '20 % of the images were lost on their way: larger buffers',
    ),
    ('lost', camera_health, camera(lately=Lately(40, 0, 60)), ERROR, '60 % of the images were los'),
    (
        'mixed',
        camera_health,
        camera(lately=Lately(100, 10), count=stream(0.02, 'step is wrong')),
        WARN,
        '10 % of the images cannot be used: step is wrong',
    ),
    ('well', joint_health, joints(), OK, '100.0 positions per second'),
    (
        'never',
        joint_health,
        joints(counts={'a': stream(None), 'b': stream(None)}, rates={}),
        STALE,
        'no position of a, b on /joint_states yet: look at the joint_state_broadcaster',
    ),
    (
        'in part',
        joint_health,
        joints(counts={'a': stream(None), 'b': stream()}, rates={'a': 0.0, 'b': 90.0}),
        ERROR,
        'no position of a on /joint_states yet',
    ),
    (
        'old',
        joint_health,
        joints(counts={'a': stream(0.11), 'b': stream()}, rates={'a': 9.0, 'b': 90.0}),
        WARN,
        'the newest position of a on /joint_states is 0.1 s old (allowed 0.1 s)',
    ),
    (
        'gone',
        joint_health,
        joints(counts={'a': stream(9.0), 'b': stream()}, rates={'a': 0.0, 'b': 90.0}),
        STALE,
        'the newest position of a on /joint_states is 9.0 s old',
    ),
    ('slow', joint_health, joints(rates={'shoulder': 7.0, 'elbow': 90.0}), ERROR, '7.0 positions'),
    ('well', inference_health, inference(), OK, '10.0 inferences per second, 95 % within 95 ms'),
    ('server only', inference_health, inference(supply=None), OK, '10.0 inferences per second'),
    (
        'dead',
        inference_health,
        inference(not_ready='the inference worker died'),
        ERROR,
        'the inference worker died: see the log',
    ),
    ('once', inference_health, failing(1), WARN, '1 inference failed: the log says why'),
    ('again', inference_health, failing(3), ERROR, '3 inferences in a row failed'),
    (
        'slow',
        inference_health,
        inference(supply=supply(latency=0.6)),
        WARN,
        'an inference takes 0.600 s (95 % of them, with waiting), 60 % of the 1.000 s there are: '
        'use a faster device',
    ),
    ('slower', inference_health, inference(supply=supply(latency=1.1)), ERROR, 'an inference'),
    ('no rate', inference_health, inference(supply=supply(latency=9.0, budget=None)), OK, '10.0'),
    (
        'starved',
        inference_health,
        inference(supply=supply(starved_lately=2)),
        WARN,
        'the robot ran out of actions 2 times in the last minute',
    ),
    ('starving', inference_health, inference(supply=supply(starved_lately=11)), ERROR, 'the robot'),
    (
        'inactive',
        inference_health,
        inference(supply=supply(starved_lately=99, latency=9.0), active=False),
        OK,
        '10.0 inferences per second',
    ),
    ('well', actuation_health, actuation(), OK, 'enabled'),
    ('ready', actuation_health, actuation(State.READY), OK, 'not enabled'),
    ('dry run', actuation_health, actuation(State.DRY_RUN), OK, 'dry run: nothing is commanded'),
    ('wait', actuation_health, actuation(State.WAIT, 'S1: old'), WARN, 'WAIT: S1: old'),
    ('pause', actuation_health, actuation(State.WAIT, PAUSE), OK, 'enabled'),
    (
        'hold',
        actuation_health,
        actuation(State.HOLD, 'S8: too far'),
        ERROR,
        'HOLD: S8: too far; remove the cause, then call ~/enable',
    ),
    ('clamped', actuation_health, actuation(clamped=25), WARN, '10 % of the commands were cut off'),
    ('all clamped', actuation_health, actuation(clamped=200), ERROR, '80 % of the commands were c'),
    ('slowed', actuation_health, actuation(slowed=225), WARN, '90 % of the commands were slowed'),
    ('all slowed', actuation_health, actuation(slowed=250), WARN, '100 % of the commands were sl'),
    ('late', actuation_health, actuation(late=5, refused=5), WARN, '17 % of the chunks were ref'),
    ('all late', actuation_health, actuation(late=51), ERROR, '50 % of the chunks were refused'),
    ('well', server_health, serving(), OK, 'listening, 1 client'),
    ('nobody', server_health, serving(clients=0), OK, 'listening, 0 clients'),
    ('stopped', server_health, serving(running=False), ERROR, 'the server has stopped: see the'),
    ('full', server_health, serving(clients=4, max_clients=4), WARN, 'full: 4 clients'),
    ('failing', server_health, serving(lately={'failures': 60}), WARN, '10 % of the requests'),
    ('invalid', server_health, serving(lately={'invalid_payloads': 400}), ERROR, '67 % of the'),
    (
        'rejected as the robot file wants',
        server_health,
        serving(lately={'failures': 600, 'rejected': 600}),
        OK,
        'listening, 1 client',
    ),
    ('well', recording_health, recording(), OK, '5000 messages'),
    ('dropping', recording_health, recording(dropped_lately=1), WARN, 'less than 1 % of the mess'),
    ('dropped', recording_health, recording(dropped_lately=200), ERROR, '50 % of the messages'),
    ('ended', recording_health, recording(trouble='disk full'), ERROR, 'nothing is recorded any'),
]


@pytest.mark.parametrize(
    ('judged', 'facts', 'level', 'message'),
    [case[1:] for case in CASES],
    ids=[f'{case[1].__name__.removesuffix("_health")}: {case[0]}' for case in CASES],
)
def test_the_level_and_what_is_said(
    judged: Callable[..., Health], facts: Any, level: Level, message: str
) -> None:
    health = judged(facts, LIMITS)
    assert (health.level, health.message[: len(message)]) == (level, message)
    assert all(isinstance(value, str) for value in health.values.values())


def test_thresholds_move_the_levels() -> None:
    slow = camera(rate=11.9)
    assert camera_health(slow, replace_limits(camera_rate_warn=0.5)).level is OK
    assert camera_health(slow, replace_limits(camera_rate_error=0.8)).level is ERROR
    old = camera(count=stream(0.46))
    assert camera_health(old, replace_limits(stale_after=0.4)).level is STALE
    assert camera_health(old, replace_limits(age_warn=4.0, age_error=5.0)).level is OK


def replace_limits(**changes: float) -> Diagnostics:
    return Diagnostics(**changes)


def test_the_worst_is_said_first_and_a_cause_hides_its_effects() -> None:
    bad = camera(count=stream(0.2), rate=1.0, lately=Lately(40, 0, 60))
    health = camera_health(bad, LIMITS)
    assert health.level is ERROR
    worst, then = health.message.split('; ')
    assert worst.startswith('60 % of the images were lost')
    # That the rate is low follows from what is said.
    assert then.startswith('the newest image on /left/one/image_raw is 0.2 s old')


def test_every_number_is_told_under_a_key_with_its_unit() -> None:
    values = camera_health(camera(), LIMITS).values
    assert values['rate_hz'] == '30.00'
    assert values['age_s'] == '0.020'
    assert (values['received'], values['refused'], values['lost']) == ('1000', '3', '7')
    assert (values['encoding'], values['width_px'], values['height_px']) == ('rgb8', '640', '480')
    compressed = camera(picture=Picture('jpeg', 0, 0, 50_000))
    values = camera_health(compressed, LIMITS).values
    assert (values['encoding'], values['width_px'], values['size_bytes']) == ('jpeg', '', '50000')
    partial = joints(counts={'a': stream(None), 'b': stream()}, rates={'a': 0.0, 'b': 90.0})
    values = joint_health(partial, LIMITS).values
    assert (values['missing'], values['oldest'], values['rate_hz']) == ('a', 'b', '0.00')
    values = inference_health(inference(), LIMITS).values
    assert (values['p95_ms'], values['latency_p95_ms']) == ('95.0', '200.0')
    assert values['latency_budget_ms'] == '1000.0'
    values = actuation_health(actuation(State.HOLD, 'S12: false', clamped=25), LIMITS).values
    assert (values['gate'], values['clamped_share']) == ('S12', '0.100')
    values = server_health(serving(lately={'failures': 60}), LIMITS).values
    assert (values['decode_p95_ms'], values['failed_share_last_minute']) == ('0.600', '0.100')


def test_durations_that_nobody_measured_yet_are_empty() -> None:
    served = server_health(serving(decode=None, encode=None), LIMITS).values
    answered = inference_health(inference(timing=None), LIMITS).values
    names = ['last_ms', 'p50_ms', 'p95_ms', 'max_ms']
    for values, prefix in ((served, 'decode_'), (served, 'encode_'), (answered, '')):
        assert [values[f'{prefix}{name}'] for name in names] == [''] * 4
    assert list(served) == list(server_health(serving(), LIMITS).values)
    assert list(answered) == list(inference_health(inference(), LIMITS).values)


def test_nothing_is_expected_of_what_is_inactive() -> None:
    well = inactive(camera_health(camera(), LIMITS))
    assert (well.level, well.message) == (OK, 'inactive')
    silent = camera_health(camera(count=stream(9.0)), LIMITS)
    health = inactive(silent)
    assert (health.level, health.values) == (OK, silent.values)
    assert health.message.startswith(
        'inactive; the newest image on /left/one/image_raw is 9.0 s old'
    )


@given(st.floats(0.0, 20.0), st.floats(0.0, 20.0))
def test_an_older_image_never_looks_fresher(one: float, other: float) -> None:
    younger, older = (
        camera_health(replace(camera(), count=stream(age)), LIMITS).level
        for age in sorted((one, other))
    )
    assert younger <= older
