# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A session of four calls against the reference: every stage of every call."""

from __future__ import annotations

import json

import pytest
import torch
from dreamzero_tiny import CPU, DREAMZERO_TINY, Listening, Reference, read_reference
from torch import Tensor

from openpi_policy_ros.policies.dreamzero.dit import CausalWan
from openpi_policy_ros.policies.dreamzero.guidance import Guidance, OneBatch, TwoPasses
from openpi_policy_ros.policies.dreamzero.model import Prediction
from openpi_policy_ros.policies.dreamzero.sampler import Sampling
from openpi_policy_ros.policies.stage_clock import StageClock

ATOL = 2e-5
CALLS = (1, 2, 3, 4)


@pytest.fixture(scope='module')
def reference() -> Reference:
    return read_reference()


class Played:
    """The four calls on a model of ours."""

    def __init__(self, reference: Reference, guide: type[OneBatch | TwoPasses]) -> None:
        self.listening: Listening | None = None

        def listen(dit: CausalWan, scale: float) -> Guidance:
            self.listening = Listening(guide(dit, scale))
            return self.listening

        model = reference.model(guide=listen)
        model.keep_seen = True
        self.session = model.open()
        self.predictions: list[Prediction] = []
        self.starts: list[int] = []
        self.conditioning: list[Tensor] = []
        with torch.inference_mode():
            for number in CALLS:
                call = reference.call(number, imagined=True)
                self.predictions.append(model.call(self.session, call, StageClock(CPU)))
                self.starts.append(self.session.start)
                assert self.session.conditioning is not None
                self.conditioning.append(self.session.conditioning)


@pytest.fixture(scope='module', params=[OneBatch, TwoPasses])
def played(reference: Reference, request: pytest.FixtureRequest) -> Played:
    return Played(reference, request.param)


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0.0, atol=ATOL)


def test_actions_of_every_call_are_the_references(played: Played, reference: Reference) -> None:
    for number, prediction in zip(CALLS, played.predictions, strict=True):
        close(torch.from_numpy(prediction.actions), reference.trace[f'call{number}.action_pred'][0])


def test_video_latents_of_every_call_are_the_references(
    played: Played, reference: Reference
) -> None:
    for number, prediction in zip(CALLS, played.predictions, strict=True):
        close(prediction.video, reference.trace[f'call{number}.video_pred'])


def test_the_window_is_where_the_references_is_after_every_call(
    played: Played, reference: Reference
) -> None:
    expected = [int(reference.trace[f'call{number}.csf_after']) for number in CALLS]
    assert played.starts == expected == [3, 5, 3, 5]
    assert played.session.window == 2


def test_text_and_image_of_every_window_are_the_references(
    played: Played, reference: Reference
) -> None:
    assert played.listening is not None
    begun = played.listening.begun
    assert len(begun) == 2
    for number, one in zip((1, 3), begun, strict=True):
        close(one['text'], reference.trace['prompt_emb'])
        close(one['text_neg'], reference.trace['prompt_emb_neg'])
        close(one['clip'], reference.trace[f'call{number}.clip'])


def test_the_conditioning_of_every_window_is_the_references(
    played: Played, reference: Reference
) -> None:
    for number, conditioning in zip(CALLS, played.conditioning, strict=True):
        # Calls 2 and 4 go on in the windows of calls 1 and 3.
        close(conditioning, reference.trace[f'call{number - (number - 1) % 2}.ys'])


def test_every_forward_gets_what_the_references_got(played: Played, reference: Reference) -> None:
    assert played.listening is not None
    log = json.loads((DREAMZERO_TINY / 'e2e_steps8_static.log.json').read_text(encoding='utf-8'))
    forwards = played.listening.forwards
    assert len(forwards) == len(log) == 36
    for index, (ours, theirs) in enumerate(zip(forwards, log, strict=True)):
        name = f'fwd{index:03d}'
        assert ours['start'] == theirs['start_frame'], name
        for part in ('x', 'y'):
            close(ours[part], reference.trace[f'{name}.{part}'])
        if theirs['kind'] == 'prefill':
            assert 'action' not in ours
            continue
        for part in ('action', 'state'):
            close(ours[part], reference.trace[f'{name}.{part}'])
        assert {ours['t_video']} == set(theirs['t_video']), name
        assert ours['t_action'] == theirs['t_action'], name
        close(ours['flow_action'], reference.trace[f'{name}.branch0.action_pred'])
        text, without = (reference.trace[f'{name}.branch{row}.video_pred'] for row in (0, 1))
        # The guidance multiplies what rounding left of the difference by five.
        torch.testing.assert_close(
            ours['flow_video'], without + 5.0 * (text - without), rtol=0.0, atol=5 * ATOL
        )


def test_the_imagined_video_is_the_references_without_its_first_frame(
    played: Played, reference: Reference
) -> None:
    decoded = reference.trace['decoded_call1'][0, :, 1:]
    expected = ((decoded * 0.5 + 0.5) * 255.0).permute(1, 2, 3, 0)
    imagined = played.predictions[0].imagined
    assert imagined is not None
    assert imagined.shape == (8, 32, 64, 3)
    assert float((torch.from_numpy(imagined).float() - expected).abs().max()) <= 0.5 + 1e-2


def test_a_later_block_is_decoded_behind_all_that_was_seen_in_its_window(
    played: Played, reference: Reference
) -> None:
    assert played.listening is not None
    seen = [one['x'] for one in played.listening.forwards if 'action' not in one][:2]
    second = played.predictions[1]
    latents = torch.cat([*seen, second.video], dim=2)
    assert latents.shape[2] == 5
    decoded = reference.encoders.decode(latents)[0, :, -8:]
    expected = ((decoded * 0.5 + 0.5) * 255.0).permute(1, 2, 3, 0)
    assert second.imagined is not None
    difference = torch.from_numpy(second.imagined).float() - expected
    assert float(difference.abs().max()) <= 0.5 + 1e-2


def test_every_call_imagines_a_whole_block(played: Played) -> None:
    for prediction in played.predictions:
        assert prediction.imagined is not None
        assert prediction.imagined.shape == (8, 32, 64, 3)


def test_half_of_the_steps_run(played: Played) -> None:
    assert [one.evaluations for one in played.predictions] == [8] * 4


def test_one_batch_and_two_passes_say_the_same(reference: Reference) -> None:
    ends = [Played(reference, guide).predictions for guide in (OneBatch, TwoPasses)]
    for first, second in zip(*ends, strict=True):
        close(torch.from_numpy(first.actions), torch.from_numpy(second.actions))
        close(first.video, second.video)


@pytest.mark.parametrize('step_cache', ['off', 'dynamic'])
def test_another_step_cache_gives_another_chunk_from_the_same_start(
    reference: Reference, step_cache: str
) -> None:
    model = reference.model(Sampling(step_cache=step_cache))
    with torch.inference_mode():
        prediction = model.call(model.open(), reference.call(1), StageClock(CPU))
    if step_cache == 'off':
        assert prediction.evaluations == 16
    difference = torch.from_numpy(prediction.actions) - reference.trace['call1.action_pred'][0]
    assert 1e-4 < float(difference.abs().max()) < 5.0


@pytest.mark.parametrize(
    ('changes', 'name'),
    [
        ({'state': torch.zeros(1, 1, 3)}, 'state is'),
        ({'frames': [torch.zeros(48, 64, 3, dtype=torch.uint8).numpy()]}, 'noise of the video is'),
    ],
)
def test_wrong_shapes_are_named_and_leave_the_session_as_it_was(
    reference: Reference, changes: dict[str, object], name: str
) -> None:
    model = reference.model()
    session = model.open()
    with torch.inference_mode(), pytest.raises(ValueError, match=name):
        model.call(session, reference.call(1, **changes), StageClock(CPU))
    assert session.first
    assert not session.failed
    with torch.inference_mode():
        again = model.call(session, reference.call(1), StageClock(CPU))
    close(torch.from_numpy(again.actions), reference.trace['call1.action_pred'][0])
