# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""No second copy of an image on its way to the model, and no page faults for its memory."""

from __future__ import annotations

import gc
import platform
import sys
import tracemalloc
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import torch
from fakes import EchoPolicy
from openpi_client import msgpack_numpy as openpi_msgpack
from serving import Client, serving

from openpi_policy_ros.bench import echo_policy, transport
from openpi_policy_ros.control.images import decode_image
from openpi_policy_ros.engine import Engine, Lane
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.base import InferenceRequest, InferenceResult
from openpi_policy_ros.policies.pi0.preprocess import preprocess_image
from openpi_policy_ros.server import heap, thread
from openpi_policy_ros.wire import Dialect, Session

IMAGES = ('first', 'second', 'third')
SMALL = 100_000
"""Bytes: a tenth of one image, far more than the objects around it."""


def observation() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {name: rng.integers(0, 256, (480, 640, 3), np.uint8) for name in IMAGES}


class Holder:
    """The object whose memory an array shows, at the end of views of views."""

    def __init__(self, array: np.ndarray) -> None:
        self.owner: Any = array
        while True:
            if isinstance(self.owner, np.ndarray) and self.owner.base is not None:
                self.owner = self.owner.base
            elif isinstance(self.owner, memoryview):
                self.owner = self.owner.obj
            else:
                return


class LookingPolicy(EchoPolicy):
    """Notes where the images lie, and how much memory is traced when they arrive."""

    owners: list[Any]
    traced = 0

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        (one,) = requests
        self.traced = tracemalloc.get_traced_memory()[1] if tracemalloc.is_tracing() else 0
        self.owners = [Holder(one.observation[name]).owner for name in IMAGES]
        return [self.answer(one) for one in requests]


@pytest.mark.parametrize('dialect', list(Dialect))
@pytest.mark.parametrize('event_loop', ['asyncio', 'uvloop'])
def test_a_policy_sees_the_pixels_in_the_very_frame_the_socket_delivered(
    dialect: Dialect, event_loop: str
) -> None:
    if event_loop == 'uvloop':
        pytest.importorskip('uvloop')
    policy = LookingPolicy()
    frame = openpi_msgpack.packb(observation())
    with serving(policy, event_loop=event_loop) as served, Client(served, dialect) as client:
        client.ask(frame)
        first, *others = policy.owners
        # One object for all three, the frame and not a copy of a part: same size, same bytes.
        assert all(owner is first for owner in others)
        assert bytes(first) == frame


def test_from_frame_to_policy_nothing_of_an_image_s_size_is_allocated() -> None:
    policy = LookingPolicy()
    engine = Engine(policy)
    engine.start()
    session = Session(Dialect.OPENPI, 'c1', {})
    frame = openpi_msgpack.packb(observation())
    # Whatever the first call imports and caches is not the frame's.
    engine.submit(session.begin(session.decode(frame))[0], Lane.REMOTE).result(20.0)
    gc.collect()
    tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        request, _ = session.begin(session.decode(frame))
        engine.submit(request, Lane.REMOTE).result(20.0)
    finally:
        tracemalloc.stop()
        engine.close()
    assert policy.traced > 0, 'tracemalloc was on'
    assert policy.traced - before < SMALL
    assert all(owner is frame for owner in policy.owners)


def test_a_topic_s_image_is_seen_in_its_message() -> None:
    class Message:
        height, width, encoding, step = 480, 640, 'rgb8', 640 * 3
        data = observation()['first'].tobytes()

    tracemalloc.start()
    try:
        image = decode_image(Message())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert Holder(image).owner is Message.data
    assert peak < SMALL


def test_preprocessing_turns_a_view_of_the_frame_into_floats_and_nothing_else() -> None:
    pixels = observation()['first']
    pixels.flags.writeable = False
    floats = 4 * pixels.nbytes
    tracemalloc.start()
    try:
        tensor = preprocess_image('first', pixels, (224, 224), torch.device('cpu'))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # NumPy's memory is traced, torch's own is not: one array of floats, no copy of the bytes.
    assert floats <= peak < floats + SMALL
    assert tensor.shape == (3, 224, 224)


@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='counts page faults of Linux')
def test_the_memory_of_one_frame_serves_the_next() -> None:
    if platform.libc_ver()[0] != 'glibc':
        pytest.skip('no glibc')
    frame = openpi_msgpack.packb(echo_policy.observation(224, 224))
    blocks = transport.Blocks()
    with ExitStack() as stack:
        peer = transport.Peer(stack, Dialect.OPENPI.value, ['ours'])
        for _ in range(6):
            peer.block(frame, 10, blocks)
    # One frame is 110 pages, and glibc left to itself nearly always touches as many anew for each;
    # ours touches some while the heaps grow, then none.
    assert min(blocks.faults) < 20


def test_the_heap_is_left_alone_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(thread, 'keep_freed_memory', lambda: calls.append('kept') or True)
    with serving(EchoPolicy(), heap='system'):
        assert calls == []
    with serving(EchoPolicy()):
        assert calls == ['kept']


def test_without_glibc_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap.platform, 'libc_ver', lambda: ('', ''))
    monkeypatch.setattr(heap.ctypes, 'CDLL', None)
    assert heap.keep_freed_memory() is False


def test_an_event_loop_that_is_not_installed_refuses_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, 'uvloop', None)
    with (
        pytest.raises(ConfigurationError, match=r'event_loop is uvloop.*pip install'),
        serving(EchoPolicy(), event_loop='uvloop'),
    ):
        pass
