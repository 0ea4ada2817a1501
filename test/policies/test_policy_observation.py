# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""An observation is mapped exactly, or refused with field, value, expectation and remedy."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_readers import BASE, LEFT, RIGHT, STATE, droid, droid_reader, image, reader, refused

from openpi_policy_ros.errors import InvalidObservation
from openpi_policy_ros.policies.observation import Features, ObservationReader

Observe = Callable[..., dict[str, Any]]
# What is mapped


def test_without_a_profile_the_models_own_names_count(observe: Observe) -> None:
    observation = observe()
    features = reader().read(observation)
    assert list(features.images) == [BASE, LEFT, RIGHT]
    np.testing.assert_array_equal(features.images[LEFT], observation[LEFT])
    np.testing.assert_array_equal(features.state, observation['state'])
    assert features.prompt == 'pick up the red block'


def test_state_may_also_carry_its_full_name(observe: Observe) -> None:
    observation = observe()
    observation[STATE] = observation.pop('state')
    np.testing.assert_array_equal(reader().read(observation).state, observation[STATE])


def test_key_map_renames_and_concatenates_in_order() -> None:
    features = droid_reader().read(droid())
    assert {name: int(pixels[0, 0, 0]) for name, pixels in features.images.items()} == {
        BASE: 1,
        LEFT: 2,
    }
    np.testing.assert_array_equal(features.state, np.float32([0, 1, 2, 3, 4, 5, 6, 0.5]))
    assert features.state.dtype == np.float32


def test_a_slash_key_is_looked_up_nested_too() -> None:
    profile = {
        'key_map': [f'images/cam_high -> {BASE}', f'state -> {STATE}'],
        'optional_cameras': [LEFT, RIGHT],
    }
    features = reader(profile=profile).read(
        {'images': {'cam_high': image(5)}, 'state': [1.0, 2.0], 'prompt': 'x'}
    )
    assert features.images[BASE][0, 0, 0] == 5


def test_the_flat_key_goes_before_the_nested_one() -> None:
    nested = {'exterior_image_1_left': image(9)}
    observation = droid(observation=nested)
    error = refused(droid_reader(), observation)
    # The nested copy is then an image nobody reads.
    assert error.field == 'observation/exterior_image_1_left'
    ignoring = droid_reader(ignore_keys=['observation/exterior_image_1_left'])
    assert ignoring.read(observation).images[BASE][0, 0, 0] == 1


def test_chw_is_transposed_only_where_the_profile_says_so() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    chw = droid_reader(layout='CHW').read(
        droid(
            **{
                'observation/exterior_image_1_left': pixels.transpose(2, 0, 1),
                'observation/wrist_image_left': image().transpose(2, 0, 1),
            }
        )
    )
    np.testing.assert_array_equal(chw.images[BASE], pixels)


def test_bgr_is_turned_only_where_the_profile_says_so() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    observation = droid(**{'observation/exterior_image_1_left': pixels})
    assert (droid_reader().read(observation).images[BASE] == pixels).all()
    turned = droid_reader(colour_order='BGR').read(observation).images[BASE]
    np.testing.assert_array_equal(turned, pixels[..., [2, 1, 0]])


def test_renames_lead_raw_keys_to_features(observe: Observe) -> None:
    observation = observe()
    observation['observation.images.front'] = observation.pop(BASE)
    features = reader(renames={'observation.images.front': BASE}).read(observation)
    assert BASE in features.images


def test_key_map_may_lead_to_a_raw_key_that_is_renamed() -> None:
    profile = {
        'key_map': ['cam -> observation.images.front', f'state -> {STATE}'],
        'optional_cameras': [LEFT, RIGHT],
    }
    mapped = reader(profile=profile, renames={'observation.images.front': BASE})
    assert list(mapped.read({'cam': image(), 'state': 1.0, 'prompt': 'x'}).images) == [BASE]


@pytest.mark.parametrize(
    'prompt',
    ['fold', b'fold', np.array('fold'), np.array(['fold']), np.array(b'fold'), np.str_('fold')],
)
def test_prompt_may_come_as_any_kind_of_text(observe: Observe, prompt: Any) -> None:
    assert reader().read(observe(prompt=prompt)).prompt == 'fold'


def test_prompt_key_is_the_profiles() -> None:
    observation = droid(task='fold')
    del observation['prompt']
    assert droid_reader(prompt_key='task').read(observation).prompt == 'fold'


def test_default_prompt_serves_where_none_comes(observe: Observe) -> None:
    with_default = reader(default_prompt='wave')
    observation = observe(prompt='')
    assert with_default.read(observation).prompt == 'wave'
    del observation['prompt']
    assert with_default.read(observation).prompt == 'wave'
    assert with_default.read(observe(prompt='fold')).prompt == 'fold'


@pytest.mark.parametrize('state', [np.float64(0.5), 0.5, [0.5], np.array([0.5]), (0.5,)])
def test_a_single_number_may_come_without_an_axis(observe: Observe, state: Any) -> None:
    np.testing.assert_array_equal(reader().read(observe(state=state)).state, np.float32([0.5]))


def test_float_images_pass_as_float32(observe: Observe) -> None:
    floats = image().astype(np.float64) / 255.0
    result = reader().read(observe(**{BASE: floats})).images[BASE]
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, floats.astype(np.float32))


def test_a_missing_optional_camera_is_simply_absent(observe: Observe) -> None:
    observation = observe()
    del observation[LEFT]
    features = reader(optional_cameras=[LEFT]).read(observation)
    assert list(features.images) == [BASE, RIGHT]


def test_the_observation_is_left_as_it_was(observe: Observe) -> None:
    observation = observe()
    copies = {key: np.array(value) for key, value in observation.items()}
    for value in observation.values():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
    reader().read(observation)
    for key, value in observation.items():
        np.testing.assert_array_equal(value, copies[key])


# What is refused


def test_a_missing_required_camera_is_named(observe: Observe) -> None:
    observation = observe()
    del observation[LEFT]
    error = refused(reader(optional_cameras=[RIGHT]), observation)
    assert LEFT in error.what
    assert 'missing' in error.what
    assert 'optional_cameras' in error.remedy


def test_no_camera_at_all_is_refused_even_if_each_is_optional(observe: Observe) -> None:
    observation = observe()
    for name in (BASE, LEFT, RIGHT):
        del observation[name]
    error = refused(reader(optional_cameras=[BASE, LEFT, RIGHT]), observation)
    assert 'no camera image' in error.what
    assert BASE in error.expected


@pytest.mark.parametrize('required', [True, False])
def test_a_misspelt_camera_key_gets_a_suggestion(observe: Observe, required: bool) -> None:
    observation = observe()
    observation['observation.images.left_wirst_0_rgb'] = observation.pop(LEFT)
    error = refused(reader(optional_cameras=[] if required else [LEFT]), observation)
    assert error.field == 'observation.images.left_wirst_0_rgb'
    assert f'did you mean {LEFT!r}' in error.remedy
    assert 'ignore_keys' in error.remedy


def test_a_misspelt_nested_camera_key_gets_a_suggestion() -> None:
    profile = {
        'key_map': [f'images/cam_high -> {BASE}', f'images/cam_low -> {LEFT}', f'state -> {STATE}'],
        'optional_cameras': [LEFT, RIGHT],
    }
    observation = {
        'images': {'cam_high': image(), 'cam_lwo': image()},
        'state': 1.0,
        'prompt': 'x',
    }
    error = refused(reader(profile=profile), observation)
    assert error.field == 'images/cam_lwo'
    assert "did you mean 'images/cam_low'" in error.remedy


def test_an_image_that_is_listed_as_ignored_passes() -> None:
    observation = droid(**{'observation/exterior_image_2_left': image()})
    assert 'nobody reads' in refused(droid_reader(), observation).what
    droid_reader(ignore_keys=['observation/exterior_image_2_left']).read(observation)


@pytest.mark.parametrize(
    'unread', [np.zeros((2, 6, 8, 3), np.uint8), np.zeros((6, 8), np.uint8), np.zeros((3, 4, 4))]
)
def test_anything_that_looks_like_an_image_must_be_read(
    observe: Observe, unread: np.ndarray
) -> None:
    assert 'nobody reads' in refused(reader(), observe(extra=unread)).what


def test_other_unread_keys_are_logged_once(
    observe: Observe, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    shared = reader()
    for _ in range(3):
        shared.read(observe(extra={'cartesian_position': np.zeros(6)}, note='hello'))
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 2
    assert any("'extra/cartesian_position'" in text for text in texts)


def test_a_client_that_invents_keys_cannot_fill_the_log(
    observe: Observe, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    shared = reader()
    for index in range(3):
        shared.read(observe(**{f'{index}-{n}': 0 for n in range(500)}))
    assert len(caplog.records) <= 256


def test_two_keys_for_one_input_are_refused(observe: Observe) -> None:
    error = refused(reader(), observe(**{STATE: np.zeros(8)}))
    assert "'state' and 'observation.state' are both present" in error.what
    twice = reader(renames={'observation.images.front': BASE})
    both = observe(**{'observation.images.front': image()})
    assert 'both present' in refused(twice, both).what


@pytest.mark.parametrize(
    ('value', 'says'),
    [
        (np.zeros((6, 8, 4), np.uint8), '4 channels'),
        (np.zeros((6, 8, 1), np.uint8), '1 channels'),
        (np.zeros((6, 8), np.uint8), '2 axes'),
        (np.zeros((1, 6, 8, 3), np.uint8), '4 axes'),
        (np.zeros((6, 8, 3), np.uint16), 'uint16'),
        (np.zeros((6, 8, 3), np.int8), 'int8'),
        (np.zeros((6, 8, 3), bool), 'bool'),
        (np.zeros((0, 8, 3), np.uint8), '0x8'),
        (np.zeros((6, 0, 3), np.uint8), '6x0'),
        (np.zeros((9000, 1, 3), np.uint8), '9000x1'),
        (b'\xff\xd8\xff', 'bytes, not an array'),
        ([[[1, 2, 3]]], 'list, not an array'),
        (np.full((6, 8, 3), 1.5, np.float32), '1.5'),
        (np.full((6, 8, 3), -1.0, np.float32), '-1'),
        (np.full((6, 8, 3), 255.0), '255'),
        (np.full((6, 8, 3), np.nan, np.float32), 'NaN'),
        (np.full((6, 8, 3), np.inf, np.float16), 'infinity'),
    ],
)
def test_an_image_of_the_wrong_kind_is_refused_by_name(
    observe: Observe, value: Any, says: str
) -> None:
    error = refused(reader(), observe(**{BASE: value}))
    assert error.field == BASE
    assert says in error.what


def test_one_bad_pixel_in_a_float_image_is_enough(observe: Observe) -> None:
    pixels = np.full((6, 8, 3), 0.5, np.float32)
    pixels[3, 3, 1] = np.nan
    assert 'NaN' in refused(reader(), observe(**{BASE: pixels})).what


def test_the_other_layout_is_recognised_but_not_guessed(observe: Observe) -> None:
    error = refused(reader(), observe(**{BASE: np.zeros((3, 6, 8), np.uint8)}))
    assert 'profile.layout: CHW' in error.remedy


@pytest.mark.parametrize(
    ('state', 'says'),
    [
        (np.array([0.0, np.nan]), 'value 1 is nan'),
        (np.array([np.inf, 0.0]), 'value 0 is inf'),
        (np.array([1e300]), 'not finite in float32'),
        (np.zeros(33), '33 dimensions'),
        (np.zeros(0), '0 dimensions'),
        (np.zeros((1, 8)), 'shape [1, 8]'),
        (np.array(['a']), 'dtype <U1'),
        (np.array([True]), 'dtype bool'),
        ('home', 'str'),
        (None, 'NoneType'),
        ([[1.0], [1.0, 2.0]], 'list'),
    ],
)
def test_a_state_that_is_not_one_is_refused(observe: Observe, state: Any, says: str) -> None:
    error = refused(reader(), observe(state=state))
    assert error.field == 'state'
    assert says in error.what


def test_a_state_wider_than_the_checkpoints_is_not_cut(observe: Observe) -> None:
    error = refused(reader(state_dim=7), observe(state=np.zeros(8)))
    assert '8 dimensions' in error.what
    assert '1 to 7' in error.expected


def test_a_state_must_be_as_wide_as_the_statistics_it_is_normalised_by(observe: Observe) -> None:
    exact = reader(state_dim=7, state_exact=True)
    assert exact.read(observe(state=np.zeros(7))).state.size == 7
    for width in (1, 6, 8):
        error = refused(exact, observe(state=np.zeros(width)))
        assert f'{width} dimensions' in error.what
        assert error.expected.startswith('7, as many as the statistics')


def test_a_state_must_reach_as_far_as_the_actions_that_are_differences(observe: Observe) -> None:
    relative = reader(state_dim=7, least_state=3)
    assert relative.read(observe(state=np.zeros(3))).state.size == 3
    error = refused(relative, observe(state=np.zeros(2)))
    assert '2 dimensions' in error.what
    assert error.expected == '3 to 7; the actions are differences from the first 3'


def test_a_missing_state_is_named(observe: Observe) -> None:
    observation = observe()
    del observation['state']
    assert "'state' or 'observation.state'" in refused(reader(), observation).expected


def test_a_missing_part_of_the_state_is_named() -> None:
    observation = droid()
    del observation['observation/gripper_position']
    assert refused(droid_reader(), observation).field == 'observation/gripper_position'


@pytest.mark.parametrize(
    ('prompt', 'says'),
    [
        ('', 'empty'),
        (' \n', 'empty'),
        (7, 'int'),
        (None, 'NoneType'),
        (np.array(['a', 'b']), 'ndarray [2]'),
        (np.array(1.0), 'ndarray []'),
        (b'\xff\xfe', 'not UTF-8'),
        ({'text': 'fold'}, 'dict'),
    ],
)
def test_a_prompt_that_is_no_text_is_refused(observe: Observe, prompt: Any, says: str) -> None:
    error = refused(reader(), observe(prompt=prompt))
    assert error.field == 'prompt'
    assert says in error.what


def test_a_missing_prompt_is_refused(observe: Observe) -> None:
    observation = observe()
    del observation['prompt']
    error = refused(reader(), observation)
    assert 'missing' in error.what
    assert 'default_prompt' in error.remedy


@pytest.mark.parametrize('observation', [None, [], 'text', np.zeros(3)])
def test_an_observation_that_is_no_mapping_is_refused(observation: Any) -> None:
    assert refused(reader(), observation).field == 'observation'


def test_a_hostile_key_is_shortened_in_the_message(observe: Observe) -> None:
    error = refused(reader(), observe(**{'x' * 10_000: image()}))
    assert len(error.field) < 100


# Properties

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.builds(np.zeros, st.lists(st.integers(0, 3), max_size=5).map(tuple)),
    st.builds(lambda shape: np.zeros(shape, np.uint8), st.lists(st.integers(0, 3), max_size=5)),
    st.just(np.array('text')),
)
keys = st.sampled_from(
    [
        'observation',
        'images',
        'state',
        STATE,
        'prompt',
        BASE,
        LEFT,
        'a',
        'observation/joint_position',
    ]
)
observations = st.recursive(
    leaves, lambda inner: st.dictionaries(keys, inner, max_size=5), max_leaves=20
)


def outcome(shared: ObservationReader, observation: Any) -> Features | InvalidObservation:
    try:
        return shared.read(observation)
    except InvalidObservation as error:
        return error


@given(observations)
def test_anything_is_either_features_or_a_refusal(observation: Any) -> None:
    for shared in (READER, DROID_READER):
        result = outcome(shared, observation)
        if isinstance(result, InvalidObservation):
            assert result.field
            assert result.expected
            assert result.remedy
        else:
            assert result.images
            assert np.isfinite(result.state).all()
            assert result.prompt.strip()


READER = reader(optional_cameras=[BASE, LEFT, RIGHT])
DROID_READER = droid_reader()


@pytest.mark.parametrize(('arm', 'gripper'), [(6, 1), (8, 1), (7, 2), (6, 2)])
def test_a_state_part_of_another_length_does_not_slide_into_the_next(
    arm: int, gripper: int
) -> None:
    sized = droid_reader(state_dims=[7, 1])
    assert sized.read(droid()).state.shape == (8,)
    observation = droid()
    observation['observation/joint_position'] = np.zeros(arm, np.float32)
    observation['observation/gripper_position'] = np.zeros(gripper, np.float32)
    with pytest.raises(InvalidObservation, match=r'holds \d numbers; expected [17] \(profile'):
        sized.read(observation)
