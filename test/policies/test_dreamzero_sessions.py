# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Sessions of DreamZero: apart from one another, let in by memory, gone without a trace."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from dreamzero_policies import QUICK, ask, make_tiny, observe, play, serve
from hypothesis import given
from hypothesis import strategies as st

from openpi_policy_ros.bench.dreamzero import tensor_bytes
from openpi_policy_ros.errors import NoCapacity
from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, SessionKey
from openpi_policy_ros.policies.dreamzero import memory
from openpi_policy_ros.policies.dreamzero.memory import GIB, MIB, Admission, Budget
from openpi_policy_ros.policies.dreamzero.policy import DreamZeroPolicy

CPU = torch.device('cpu')
KEYS = [SessionKey(f'connection {number}', 'default') for number in range(4)]


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny(tmp_path_factory.mktemp('dreamzero') / 'tiny')


@pytest.fixture(scope='module')
def loaded(checkpoint: Path) -> DreamZeroPolicy:
    return serve(checkpoint, **QUICK)


@pytest.fixture
def policy(loaded: DreamZeroPolicy) -> DreamZeroPolicy:
    """Return the policy with no session open."""
    for key in KEYS:
        loaded.close_session(key)
    assert loaded.live_sessions == 0
    return loaded


# Apart from one another


def test_interleaved_sessions_equal_separate_ones_bit_for_bit(policy: DreamZeroPolicy) -> None:
    prompts = ('lift the cube', 'open the drawer', 'lift the cube')
    alone = []
    for index, key in enumerate(KEYS[:3]):
        alone.append(play(policy, 5, key, start=10 * index, prompt=prompts[index]))
        policy.close_session(key)
    # The third joins late, so that the windows start at different times.
    order = [(0, 0), (1, 0), (0, 1), (0, 2), (2, 0), (1, 1), (2, 1), (0, 3), (1, 2), (2, 2)]
    order += [(1, 3), (2, 3), (1, 4), (0, 4), (2, 4)]
    for index, call in order:
        observation = observe(policy, 10 * index + call, 4 if call else 1, prompt=prompts[index])
        found = ask(policy, observation, KEYS[index]).actions
        np.testing.assert_array_equal(found, alone[index][call])


def test_sessions_of_one_id_on_two_connections_are_two(policy: DreamZeroPolicy) -> None:
    first = play(policy, 2, SessionKey('a', 'default'))
    second = play(policy, 2, SessionKey('b', 'default'))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    for name in 'ab':
        policy.close_session(SessionKey(name, 'default'))


def test_closing_an_unknown_session_is_fine(policy: DreamZeroPolicy) -> None:
    policy.close_session(SessionKey('nobody', 'knows'))


# Admission


def room_for(checkpoint: Path, sessions: float) -> DreamZeroPolicy:
    """Return a policy with memory for so many sessions."""
    needed = sessions * serve(checkpoint).model.bytes_per_session
    return serve(checkpoint, session_memory=needed / GIB, **QUICK)


def test_a_session_that_does_not_fit_is_refused_with_the_sum_and_the_others_go_on(
    checkpoint: Path,
) -> None:
    policy = room_for(checkpoint, 2.5)
    expected = play(policy, 3, KEYS[0])
    policy.close_session(KEYS[0])
    for key in KEYS[:2]:
        ask(policy, observe(policy, 0), key)
    with pytest.raises(NoCapacity) as caught:
        policy.infer([InferenceRequest(observe(policy, 0), KEYS[2], reset=True)])
    each = policy.model.bytes_per_session
    for said in (memory.size(each), '2 live ones', memory.size(2 * each), 'session_memory'):
        assert said in caught.value.what
    assert caught.value.remedy
    assert policy.session(KEYS[2]) is None
    for key in KEYS[:2]:
        for number in (1, 2):
            found = ask(policy, observe(policy, number, 4), key).actions
            np.testing.assert_array_equal(found, expected[number])
    policy.close_session(KEYS[0])
    found = ask(policy, observe(policy, 0), KEYS[2], reset=True).actions
    np.testing.assert_array_equal(found, expected[0])


def test_a_reset_needs_no_more_memory(checkpoint: Path) -> None:
    policy = room_for(checkpoint, 1.0)
    ask(policy, observe(policy, 0), KEYS[0])
    ask(policy, observe(policy, 1), KEYS[0], reset=True)


def test_max_sessions_counts_whatever_the_memory(checkpoint: Path) -> None:
    policy = serve(checkpoint, max_sessions=1, **QUICK)
    ask(policy, observe(policy, 0), KEYS[0])
    with pytest.raises(NoCapacity, match='max_sessions is 1'):
        policy.infer([InferenceRequest(observe(policy, 0), KEYS[1])])


def test_a_session_without_room_is_refused_before_anything_is_computed(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = serve(checkpoint, max_sessions=1, **QUICK)
    ask(policy, observe(policy, 0), KEYS[0])
    observation = observe(policy, 0)

    def work(*_: object) -> None:
        raise AssertionError('worked for a session that has no room')

    for owner, name in ((policy, 'draw_noise'), (policy.transform, 'read')):
        monkeypatch.setattr(owner, name, work)
    with pytest.raises(NoCapacity):
        policy.infer([InferenceRequest(observation, KEYS[1])])


def test_memory_for_no_session_at_all_refuses_the_start(checkpoint: Path) -> None:
    policy = room_for(checkpoint, 0.9)
    with pytest.raises(NoCapacity, match='memory for one'):
        policy.warm_up()


def test_a_device_that_is_full_after_all_refuses_too(
    policy: DreamZeroPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> int:
        raise torch.OutOfMemoryError('CUDA out of memory')

    with monkeypatch.context() as patch:
        patch.setattr(policy.model.guidance, 'open', full)
        with pytest.raises(NoCapacity, match='could not give'):
            policy.infer([InferenceRequest(observe(policy, 0), KEYS[0])])
    assert policy.live_sessions == 0


@given(st.integers(1, 10**9), st.integers(0, 10**11), st.none() | st.integers(1, 50))
def test_as_many_are_let_in_as_the_capacity_says(each: int, total: int, most: int | None) -> None:
    admission = Admission(each, Budget(total, 'test'), most)
    capacity = admission.capacity
    assert capacity is not None
    assert capacity * each <= total
    for live in {0, capacity - 1} - {-1}:
        if live < capacity:
            admission.check(live)
    with pytest.raises(NoCapacity):
        admission.check(capacity)


def test_nothing_known_limits_nothing() -> None:
    admission = Admission(10, None)
    assert admission.capacity is None
    admission.check(10**6)


# How much memory there is


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that stands for the files in which Linux tells about its memory."""
    monkeypatch.setattr(memory, '_MEMINFO', tmp_path / 'meminfo')
    monkeypatch.setattr(memory, '_CGROUP', tmp_path)
    (tmp_path / 'meminfo').write_text('MemTotal: 999999 kB\nMemAvailable:   1048576 kB\n')
    return tmp_path


def test_the_system_says_how_much_is_available(system: Path) -> None:
    assert memory.free_bytes(CPU) == GIB
    assert memory.free_bytes(CPU) is not None


def test_a_control_group_may_leave_less(system: Path) -> None:
    (system / 'memory.max').write_text(f'{600 * MIB}\n')
    (system / 'memory.current').write_text(f'{100 * MIB}\n')
    assert memory.free_bytes(CPU) == 500 * MIB
    (system / 'memory.max').write_text('max\n')
    assert memory.free_bytes(CPU) == GIB
    (system / 'memory.max').write_text(f'{50 * MIB}\n')
    assert memory.free_bytes(CPU) == 0


def test_a_budget_keeps_something_back_and_says_so(system: Path) -> None:
    budget = memory.free_budget(CPU, reserve=100 * MIB)
    assert budget is not None
    assert budget.total == int(0.95 * GIB) - 100 * MIB
    assert '1.00 GiB free on this computer' in budget.origin
    none_left = memory.free_budget(CPU, reserve=2 * GIB)
    assert none_left is not None
    assert none_left.total == 0


# Gone without a trace


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    pages = int(Path('/proc/self/statm').read_text().split()[1])
    return pages * os.sysconf('SC_PAGE_SIZE')


def test_what_a_session_holds_is_what_was_computed_for_it(checkpoint: Path) -> None:
    policy = serve(checkpoint, imagined=True, **QUICK)
    dit = policy.model.config.dit
    calls = dit.cached_frames // dit.num_frame_per_block + 1
    play(policy, calls, KEYS[0])  # Texts and tables are not the session's.
    before = tensor_bytes()
    play(policy, calls, KEYS[1])
    session = policy.session(KEYS[1])
    assert session is not None
    tensors = tensor_bytes() - before
    frames = sum(one.nbytes for one in session.frames)
    assert tensors + frames == policy.model.bytes_per_session


def test_two_hundred_sessions_leave_memory_as_it_was(
    policy: DreamZeroPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded = policy.model.encoders.first_frame

    @cache
    def once() -> tuple[torch.Tensor, torch.Tensor]:
        return encoded(torch.zeros(1, 3, 32, 64), policy.model.config.num_frames)

    # The autoencoder takes most of the time of a tiny model and keeps nothing of a session; each
    # session gets conditioning of its own memory all the same.
    monkeypatch.setattr(
        policy.model.encoders, 'first_frame', lambda *_: tuple(one.clone() for one in once())
    )

    def cycle(number: int) -> None:
        key = SessionKey(f'visitor {number}', 'default')
        (result,) = policy.infer([InferenceRequest(observe(policy, number % 7), key)])
        assert isinstance(result, ActionChunk)
        policy.close_session(key)

    for number in range(20):
        cycle(number)
    tensors, pages = tensor_bytes(), resident()
    for number in range(200):
        cycle(number)
    assert policy.live_sessions == 0
    assert tensor_bytes() == tensors
    # 200 leaked windows would be many times that; an allocator's own ups and downs are not.
    leaked = 200 * policy.model.bytes_per_session
    assert resident() - pages < max(8 * MIB, leaked // 10)


def test_closing_the_policy_frees_every_session(checkpoint: Path) -> None:
    policy = serve(checkpoint, **QUICK)
    for key in KEYS:
        ask(policy, observe(policy, 0), key)
    policy.close()
    assert policy.live_sessions == 0
