# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""DreamZero behind the policy seam: seeds, steps, windows, refusals, failures, timing."""

from __future__ import annotations

import dataclasses
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dreamzero_policies import KEY, QUICK, ask, make_tiny, observe, play, serve
from safetensors.torch import load_file, save_file

from openpi_policy_ros.errors import InvalidObservation, InvalidOutput
from openpi_policy_ros.policies.base import InferenceRequest
from openpi_policy_ros.policies.dreamzero.model import TEXTS, Noise
from openpi_policy_ros.policies.dreamzero.policy import DreamZeroPolicy

LOGGER = 'openpi_policy_ros.policies.dreamzero'


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny(tmp_path_factory.mktemp('dreamzero') / 'tiny')


@pytest.fixture(scope='module')
def loaded(checkpoint: Path) -> DreamZeroPolicy:
    return serve(checkpoint, max_sessions=8, **QUICK)


@pytest.fixture
def policy(loaded: DreamZeroPolicy) -> DreamZeroPolicy:
    """Return the policy with no session open."""
    loaded.close_session(KEY)
    return loaded


def refused(policy: DreamZeroPolicy, observation: dict[str, Any], **changes: Any) -> Any:
    (result,) = policy.infer([InferenceRequest(observation, KEY, **changes)])
    assert isinstance(result, InvalidObservation), result
    assert result.expected
    assert result.remedy
    assert result.__traceback__ is None
    return result


def restarts(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return why windows started, in order."""
    mark = ' starts from the newest image: '
    return [text.partition(mark)[2] for text in caplog.messages if mark in text]


# What it says and what comes out


def test_it_is_stateful_and_looks_back_over_its_chunk(policy: DreamZeroPolicy) -> None:
    assert policy.spec.stateful
    assert policy.spec.history_offsets[-1] == 0
    assert policy.spec.history_offsets[0] == 1 - policy.spec.horizon
    assert not policy.spec.supports_rtc


def test_a_chunk_is_float32_of_the_declared_shape(policy: DreamZeroPolicy) -> None:
    chunk = ask(policy, observe(policy, 0))
    assert chunk.actions.dtype == np.float32
    assert chunk.actions.shape == policy.spec.output_shapes['actions']
    assert np.isfinite(chunk.actions).all()
    assert chunk.imagined is None
    assert chunk.state is not None
    assert chunk.state.shape == (8,)


def test_times_name_the_stages_that_ran(policy: DreamZeroPolicy) -> None:
    started = ask(policy, observe(policy, 0)).timing_ms
    assert list(started) == [
        *('preprocess', 'text', 'clip', 'vae', 'prefill', 'denoise', 'postprocess', 'model')
    ]
    goes_on = ask(policy, observe(policy, 1, 4)).timing_ms
    assert list(goes_on) == ['preprocess', 'vae', 'prefill', 'denoise', 'postprocess', 'model']
    for timing in (started, goes_on):
        assert min(timing.values()) >= 0.0
        inside = sum(timing.values()) - timing['model'] - timing['preprocess']
        assert timing['model'] == pytest.approx(inside - timing['postprocess'])


def test_the_joints_measured_in_this_call_are_added_to_its_chunk(policy: DreamZeroPolicy) -> None:
    key, far = 'observation/joint_position', np.full(7, 100.0)
    # Beyond the statistics all states are the same to the network.
    near, further = (
        ask(policy, observe(policy, 0, **{key: far + more}), reset=True).actions
        for more in (0.0, 2.0)
    )
    np.testing.assert_allclose(further - near, [[2.0] * 7 + [0.0]] * len(near), atol=2e-5)
    later = ask(policy, observe(policy, 1, 4, **{key: far + 5.0})).actions
    policy.close_session(KEY)
    ask(policy, observe(policy, 0, **{key: far}))
    again = ask(policy, observe(policy, 1, 4, **{key: far})).actions
    np.testing.assert_allclose(later - again, [[5.0] * 7 + [0.0]] * len(near), atol=2e-5)


# Seeds and noise


def test_calls_without_a_seed_start_from_the_configured_one_every_time(
    policy: DreamZeroPolicy, checkpoint: Path
) -> None:
    first, second = play(policy, 2)
    policy.close_session(KEY)
    np.testing.assert_array_equal(ask(policy, observe(policy, 0), seed=1140).actions, first)
    np.testing.assert_array_equal(ask(policy, observe(policy, 1, 4), seed=1140).actions, second)
    other = serve(checkpoint, seed=7, **QUICK)
    assert np.abs(ask(other, observe(other, 0)).actions - first).max() > 1e-3
    policy.close_session(KEY)
    np.testing.assert_array_equal(
        ask(other, observe(other, 0), seed=1140, reset=True).actions, first
    )


def test_video_and_actions_are_seeded_each_by_itself(policy: DreamZeroPolicy) -> None:
    noise = policy.draw_noise(42)
    for drawn in (noise.video, noise.action):
        generator = torch.Generator().manual_seed(42)
        assert torch.equal(drawn, torch.randn(drawn.shape, generator=generator))


def test_noise_does_not_depend_on_the_global_generator(policy: DreamZeroPolicy) -> None:
    state = torch.get_rng_state()
    ask(policy, observe(policy, 0))
    assert torch.equal(torch.get_rng_state(), state)


def test_noise_can_be_handed_in(policy: DreamZeroPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = policy.draw_noise
    expected = ask(policy, observe(policy, 0), seed=3).actions
    monkeypatch.setattr(policy, 'draw_noise', lambda seed: usual(3))
    found = ask(policy, observe(policy, 0), reset=True).actions
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize('seed', [0, -1, 2**63, 2**64 - 1, -(2**63)])
def test_any_64_bit_seed_is_taken(policy: DreamZeroPolicy, seed: int) -> None:
    ask(policy, observe(policy, 0), seed=seed)


@pytest.mark.parametrize('seed', [2**64, -(2**63) - 1])
def test_a_seed_beyond_64_bits_is_refused(policy: DreamZeroPolicy, seed: int) -> None:
    assert refused(policy, observe(policy, 0), seed=seed).field == 'seed'
    assert policy.live_sessions == 0


# Sampler steps


def test_the_fixed_mask_refuses_another_number_of_steps_by_name(checkpoint: Path) -> None:
    policy = serve(checkpoint)
    error = refused(policy, observe(policy, 0), num_inference_steps=8)
    assert error.field == 'num_inference_steps'
    assert '16' in error.expected
    ask(policy, observe(policy, 0), num_inference_steps=16)


def test_a_requests_steps_are_taken_where_there_is_no_fixed_mask(checkpoint: Path) -> None:
    policy = serve(checkpoint, step_cache='off', num_inference_steps=4)
    four = ask(policy, observe(policy, 0)).actions
    same = ask(policy, observe(policy, 0), num_inference_steps=4, reset=True).actions
    two = ask(policy, observe(policy, 0), num_inference_steps=2, reset=True).actions
    np.testing.assert_array_equal(same, four)
    assert np.abs(two - four).max() > 1e-4
    for steps in (0, -1, 1001, 10**30):
        error = refused(policy, observe(policy, 0), num_inference_steps=steps)
        assert str(steps) in error.what


# Windows


def test_a_session_of_one_image_a_call_starts_windows_only_when_they_are_full(
    policy: DreamZeroPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    most = policy.model.config.dit.local_attn_size
    block = policy.model.config.dit.num_frame_per_block
    calls_per_window = (most - 1) // block
    starts = []
    with caplog.at_level(logging.DEBUG, LOGGER):
        for number in range(12):
            ask(policy, observe(policy, number))
            session = policy.session(KEY)
            assert session is not None
            starts.append(session.start)
            assert len(session.frames) == min(number + 1, 4)
    expected = [1 + block * (number % calls_per_window + 1) for number in range(12)]
    assert starts == expected
    windows = -(-12 // calls_per_window)
    assert restarts(caplog) == ['the first call of the session'] + ['the window is full'] * (
        windows - 1
    )


def test_fewer_than_four_images_are_filled_up_with_the_oldest(
    policy: DreamZeroPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(policy, observe(policy, 0))
    session = policy.session(KEY)
    assert session is not None
    seen = []
    observed = policy.model.encoders.observe
    monkeypatch.setattr(
        policy.model.encoders,
        'observe',
        lambda video, block: (seen.append(video), observed(video, block))[1],
    )
    ask(policy, observe(policy, 1))
    (video,) = seen
    assert video.shape[2] == 4
    assert torch.equal(video[:, :, 0], video[:, :, 1])
    assert torch.equal(video[:, :, 0], video[:, :, 2])
    assert not torch.equal(video[:, :, 2], video[:, :, 3])


def test_a_first_call_with_many_images_sees_the_newest_and_remembers_four(
    policy: DreamZeroPolicy,
) -> None:
    six = observe(policy, 0, 6)
    newest = {
        name: value[-1:] if getattr(value, 'dtype', None) == np.uint8 else value
        for name, value in six.items()
    }
    many = ask(policy, six).actions
    session = policy.session(KEY)
    assert session is not None
    assert len(session.frames) == 4
    np.testing.assert_array_equal(ask(policy, newest, reset=True).actions, many)


def test_another_prompt_starts_a_window_and_keeps_the_images(
    policy: DreamZeroPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    ask(policy, observe(policy, 0))
    with caplog.at_level(logging.INFO, LOGGER):
        ask(policy, observe(policy, 1, prompt='open the drawer'))
    assert restarts(caplog) == ['the instruction changed']
    session = policy.session(KEY)
    assert session is not None
    assert len(session.frames) == 2
    assert session.window == 2


def test_a_prompt_that_means_the_same_text_starts_no_window(
    policy: DreamZeroPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    ask(policy, observe(policy, 0, prompt='Open the drawer'))
    with caplog.at_level(logging.DEBUG, LOGGER):
        ask(policy, observe(policy, 1, prompt='open the  drawer'))
    assert restarts(caplog) == []


def test_a_reset_is_a_new_session_in_the_same_memory(policy: DreamZeroPolicy) -> None:
    chunks = play(policy, 2)
    session = policy.session(KEY)
    first = ask(policy, observe(policy, 0), reset=True)
    assert policy.session(KEY) is session
    assert session is not None
    assert len(session.frames) == 1
    np.testing.assert_array_equal(first.actions, chunks[0])
    np.testing.assert_array_equal(ask(policy, observe(policy, 1, 4)).actions, chunks[1])


# What fails


def test_a_refused_request_leaves_its_session_as_it_was(policy: DreamZeroPolicy) -> None:
    expected = play(policy, 3)
    policy.close_session(KEY)
    ask(policy, observe(policy, 0))
    bad = observe(policy, 5)
    bad['observation/joint_position'] = np.full(7, np.nan)
    refused(policy, bad)
    refused(policy, bad, reset=True)
    for number in (1, 2):
        chunk = ask(policy, observe(policy, number, 4))
        np.testing.assert_array_equal(chunk.actions, expected[number])


def test_a_bad_request_fails_in_its_place_and_the_others_are_answered(
    policy: DreamZeroPolicy,
) -> None:
    bad = observe(policy, 1)
    del bad['observation/gripper_position']
    results = policy.infer(
        [InferenceRequest(one, KEY) for one in (observe(policy, 0), bad, observe(policy, 1, 4))]
    )
    assert isinstance(results[1], InvalidObservation)
    policy.close_session(KEY)
    for found, expected in zip((results[0], results[2]), play(policy, 2), strict=True):
        np.testing.assert_array_equal(found.actions, expected)  # type: ignore[union-attr]


class Broken(RuntimeError):
    """What a network raises in these tests."""


def broken(*_: Any, **__: Any) -> Any:
    raise Broken


@pytest.mark.parametrize('stage', ['prefill', 'denoise'])
def test_a_call_that_fails_half_way_lets_the_next_start_a_window(
    policy: DreamZeroPolicy,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    stage: str,
) -> None:
    ask(policy, observe(policy, 0))
    session = policy.session(KEY)
    assert session is not None
    frames = list(session.frames)
    with monkeypatch.context() as patch:
        patch.setattr(policy.model.guidance, stage, broken)
        with pytest.raises(Broken):
            policy.infer([InferenceRequest(observe(policy, 1, 4), KEY)])
    assert policy.session(KEY) is session
    assert all(one is other for one, other in zip(session.frames, frames, strict=True))
    with caplog.at_level(logging.INFO, LOGGER):
        after = ask(policy, observe(policy, 2, 4)).actions
    assert restarts(caplog) == ['the call before failed']
    # The window is a clean one: it says what the same image says to a new session.
    policy.close_session(KEY)
    np.testing.assert_array_equal(ask(policy, observe(policy, 2, 4)).actions, after)


def test_a_session_whose_first_call_fails_is_closed_again(
    policy: DreamZeroPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(policy.model.guidance, 'denoise', broken)
        with pytest.raises(Broken):
            policy.infer([InferenceRequest(observe(policy, 0), KEY)])
    assert policy.live_sessions == 0


def test_a_reset_that_fails_is_no_reset(
    policy: DreamZeroPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(policy, 2)
    session = policy.session(KEY)
    assert session is not None
    remembered = len(session.frames)
    with monkeypatch.context() as patch:
        patch.setattr(policy.model.guidance, 'denoise', broken)
        with pytest.raises(Broken):
            policy.infer([InferenceRequest(observe(policy, 9), KEY, reset=True)])
    assert len(session.frames) == remembered
    assert session.failed


def test_a_chunk_that_is_no_number_does_not_stay_in_the_window(
    policy: DreamZeroPolicy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    usual = policy.draw_noise

    def nothing(seed: int) -> Noise:
        noise = usual(seed)
        return dataclasses.replace(noise, action=noise.action * float('nan'))

    ask(policy, observe(policy, 0))
    with monkeypatch.context() as patch:
        patch.setattr(policy, 'draw_noise', nothing)
        # The engine refuses such a chunk by name.
        assert np.isnan(ask(policy, observe(policy, 1, 4)).actions).any()
    with caplog.at_level(logging.INFO, LOGGER):
        assert np.isfinite(ask(policy, observe(policy, 2, 4)).actions).all()
    assert restarts(caplog) == ['the call before failed']


def test_warming_up_refuses_weights_that_are_no_numbers(checkpoint: Path, tmp_path: Path) -> None:
    damaged = tmp_path / 'damaged'
    shutil.copytree(checkpoint, damaged)
    weights = load_file(damaged / 'model.safetensors')
    weights['action_head.model.action_decoder.layer2.b'].fill_(float('nan'))
    save_file(weights, damaged / 'model.safetensors')
    policy = serve(damaged, **QUICK)
    with pytest.raises(InvalidOutput, match='NaN or infinity'):
        policy.warm_up()
    assert policy.live_sessions == 0


def test_warming_up_leaves_no_session(checkpoint: Path) -> None:
    policy = serve(checkpoint)
    policy.warm_up()
    assert policy.live_sessions == 0


# What is computed once


def test_text_is_encoded_once_for_each_instruction(
    policy: DreamZeroPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = counted(policy, monkeypatch, 'text')
    for number in range(9):
        ask(policy, observe(policy, number, prompt='wipe the table'))
    policy.close_session(KEY)
    ask(policy, observe(policy, 0, prompt='wipe the table'))
    assert len(calls) == 1


def test_the_encodings_of_the_last_instructions_are_kept(
    policy: DreamZeroPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = counted(policy, monkeypatch, 'text')
    names = [f'fetch cup {number}' for number in range(TEXTS + 1)]
    for name in names:
        ask(policy, observe(policy, 0, prompt=name))
    del calls[:]
    ask(policy, observe(policy, 0, prompt=names[1]))
    assert calls == []
    ask(policy, observe(policy, 0, prompt=names[0]))
    assert len(calls) == 1


def test_the_image_is_encoded_where_a_window_starts_alone(
    policy: DreamZeroPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = counted(policy, monkeypatch, 'clip')
    play(policy, 2)
    assert len(calls) == 1


def counted(policy: DreamZeroPolicy, patch: pytest.MonkeyPatch, name: str) -> list[Any]:
    """Return a list that grows with every call of an encoder."""
    calls: list[Any] = []
    real: Callable[..., Any] = getattr(policy.model.encoders, name)

    def count(*given: Any) -> Any:
        calls.append(given)
        return real(*given)

    patch.setattr(policy.model.encoders, name, count)
    return calls


# Options


def test_the_imagined_video_comes_with_the_chunk_where_it_is_on(checkpoint: Path) -> None:
    policy = serve(checkpoint, imagined=True, **QUICK)
    height, width = policy.transform.view_size
    for number in range(3):
        chunk = ask(policy, observe(policy, number, 4 if number else 1))
        assert chunk.imagined is not None
        assert chunk.imagined.dtype == np.uint8
        assert chunk.imagined.shape == (8, 2 * height, 2 * width, 3)
        assert chunk.imagined_fps == pytest.approx(15.0 * 8 / policy.spec.horizon)
        assert 'imagined' in chunk.timing_ms


def test_imagining_changes_no_action(policy: DreamZeroPolicy, checkpoint: Path) -> None:
    other = serve(checkpoint, imagined=True, **QUICK)
    for found, expected in zip(play(other, 4), play(policy, 4), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize('batched', [True, False])
def test_guidance_in_one_batch_or_in_two_passes_says_the_same(
    policy: DreamZeroPolicy, checkpoint: Path, batched: bool
) -> None:
    other = serve(checkpoint, batch_guidance=batched, **QUICK)
    for found, expected in zip(play(other, 4), play(policy, 4), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=2e-5)


def test_bfloat16_stays_near_float32(policy: DreamZeroPolicy, checkpoint: Path) -> None:
    other = serve(checkpoint, dtype='bfloat16', **QUICK)
    for found, expected in zip(play(other, 2), play(policy, 2), strict=True):
        assert np.isfinite(found).all()
        # Three digits, through two solvers and a guidance that multiplies differences by five.
        assert 0.0 < np.abs(found - expected).mean() < 0.05
