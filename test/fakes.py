# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Small policies without weights, for tests of everything around a policy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from openpi_policy_ros.errors import CheckpointError, InvalidObservation
from openpi_policy_ros.policies.base import (
    ACTIONS,
    ActionChunk,
    CameraSpec,
    InferenceRequest,
    InferenceResult,
    Policy,
    PolicySpec,
    SessionKey,
    StateSpec,
)
from openpi_policy_ros.policies.registry import LoadRequest, PolicyPlugin

WAIT = 20.0
"""Longest any fake blocks, in seconds: a broken test fails, it does not hang."""


def make_spec(horizon: int = 50, action_dim: int = 32, **changes: Any) -> PolicySpec:
    """Return the spec of a fake π0-sized policy; ``changes`` replace single fields."""
    spec = PolicySpec(
        name='fake',
        model='/models/fake',
        cameras=(CameraSpec('observation.images.base_0_rgb', ('image',), required=False),),
        state=StateSpec(('state',), max_dim=action_dim),
        horizon=horizon,
        action_dim=action_dim,
        action_space='joint_position',
        action_names=tuple(f'joint_{i}' for i in range(action_dim)),
        output_shapes={ACTIONS: (horizon, action_dim)},
        handshake={'image_resolution': [224, 224], 'action_horizon': horizon},
        revision='0123abc',
        weights_hash='feedbeef',
    )
    return replace(spec, **changes)


def request(
    connection: str = 'c1', session_id: str = 'default', value: float = 0.0, **fields: Any
) -> InferenceRequest:
    """Return a request of one session whose observation holds ``value``."""
    observation = fields.pop('observation', {'value': value, 'prompt': 'pick the cup'})
    return InferenceRequest(observation, SessionKey(connection, session_id), **fields)


class EchoPolicy(Policy):
    """Answers at once with a chunk that tells which request it belongs to.

    ``actions[0, 0]`` is the observation's ``value`` (0 without one), ``actions[0, 1]`` the seed
    (−1 without one), the rest zeros. Records every request and refuses concurrent calls unless
    the spec allows them.
    """

    def __init__(self, spec: PolicySpec | None = None) -> None:
        self._spec = make_spec() if spec is None else spec
        self._lock = threading.Lock()
        self._running = 0
        self.overlapped = False
        self.batches: list[tuple[InferenceRequest, ...]] = []
        self.closed_sessions: list[SessionKey] = []
        self.warmed_up = 0
        self.closed = 0
        self.threads: set[str] = set()

    @property
    def spec(self) -> PolicySpec:
        """Return the fixed spec."""
        return self._spec

    @property
    def requests(self) -> list[InferenceRequest]:
        """Return every request so far, in order."""
        return [one for batch in self.batches for one in batch]

    @property
    def values(self) -> list[float]:
        """Return the ``value`` of every request so far, in order."""
        return [float(one.observation.get('value', 0.0)) for one in self.requests]

    def warm_up(self) -> None:
        """Count the call."""
        with self._exclusive():
            self.warmed_up += 1

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Record the batch and answer each request with ``answer``."""
        with self._exclusive():
            self.batches.append(tuple(requests))
            return [self.answer(one) for one in requests]

    def answer(self, one: InferenceRequest) -> InferenceResult:
        """Return the chunk of one request."""
        actions = np.zeros(self._spec.output_shapes[ACTIONS], np.float32)
        actions[0, 0] = float(one.observation.get('value', 0.0))
        actions[0, 1] = -1.0 if one.seed is None else one.seed
        extra = {
            name: np.zeros(shape, np.float32)
            for name, shape in self._spec.output_shapes.items()
            if name != ACTIONS
        }
        return ActionChunk(
            outputs={ACTIONS: actions, **extra}, timing_ms={'preprocess': 0.5, 'model': 1.5}
        )

    def close_session(self, key: SessionKey) -> None:
        """Record the key."""
        with self._exclusive():
            self.closed_sessions.append(key)

    def close(self) -> None:
        """Count the call."""
        with self._exclusive():
            self.closed += 1

    def _exclusive(self) -> _Exclusive:
        return _Exclusive(self)

    def _enter(self) -> None:
        with self._lock:
            self.threads.add(threading.current_thread().name)
            self._running += 1
            if self._running > self._spec.max_in_flight:
                self.overlapped = True

    def _leave(self) -> None:
        with self._lock:
            self._running -= 1


class _Exclusive:
    """Notes when two calls overlap that must not."""

    def __init__(self, policy: EchoPolicy) -> None:
        self._policy = policy

    def __enter__(self) -> None:
        self._policy._enter()

    def __exit__(self, *details: object) -> None:
        self._policy._leave()


class SlowPolicy(EchoPolicy):
    """Blocks in every call until the test lets it go; no sleeping, no guessing.

    ``started`` is released once per call that began; ``release(n)`` lets n calls finish.
    """

    def __init__(self, spec: PolicySpec | None = None) -> None:
        super().__init__(spec)
        self.started = threading.Semaphore(0)
        self._gate = threading.Semaphore(0)

    def wait_started(self) -> None:
        """Block until one more call has begun."""
        assert self.started.acquire(timeout=WAIT), 'no call began'

    def release(self, count: int = 1) -> None:
        """Let ``count`` calls finish, now or when they come."""
        self._gate.release(count)

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Signal the start, wait for the gate, answer like Echo."""
        with self._exclusive():
            self.batches.append(tuple(requests))
            self.started.release()
            assert self._gate.acquire(timeout=WAIT), 'the test never released this call'
            return [self.answer(one) for one in requests]


class FailingPolicy(EchoPolicy):
    """Fails as told: each entry of ``script`` serves one call, then it behaves like Echo.

    An exception is raised, a callable gets the requests and returns the results, None echoes.
    """

    def __init__(
        self,
        *script: BaseException | Callable[[Sequence[InferenceRequest]], Any] | None,
        spec: PolicySpec | None = None,
        warm_up_error: BaseException | None = None,
    ) -> None:
        super().__init__(spec)
        self.script = list(script)
        self.warm_up_error = warm_up_error

    def warm_up(self) -> None:
        """Raise ``warm_up_error`` if there is one."""
        super().warm_up()
        if self.warm_up_error is not None:
            raise self.warm_up_error

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Follow the script."""
        step = self.script.pop(0) if self.script else None
        if isinstance(step, BaseException):
            self.batches.append(tuple(requests))
            raise step
        if step is not None:
            self.batches.append(tuple(requests))
            result: list[InferenceResult] = step(requests)
            return result
        return super().infer(requests)


class StatefulPolicy(EchoPolicy):
    """Keeps a counter per session, as a policy with memory does.

    ``actions[0, 0]`` is the number of calls since the session's last reset (1 for the first). A
    call without ``reset`` on a session that is not alive is an error. ``flags`` lists
    (session id, reset) per call; ``live`` is what a leak would show in.
    """

    def __init__(self, spec: PolicySpec | None = None) -> None:
        super().__init__(make_spec(stateful=True) if spec is None else spec)
        self.live: dict[SessionKey, int] = {}
        self.most_live = 0
        self.flags: list[tuple[str, bool]] = []

    def answer(self, one: InferenceRequest) -> InferenceResult:
        """Count the call of its session."""
        self.flags.append((one.session.session_id, one.reset))
        if not one.reset and one.session not in self.live:
            return InvalidObservation(
                'session', f'{one.session} is not alive', expected='reset=True on its first call'
            )
        calls = 1 if one.reset else self.live[one.session] + 1
        self.live[one.session] = calls
        self.most_live = max(self.most_live, len(self.live))
        return super().answer(replace(one, observation={**one.observation, 'value': float(calls)}))

    def close_session(self, key: SessionKey) -> None:
        """Forget the session; unknown keys are fine."""
        super().close_session(key)
        with self._exclusive():
            self.live.pop(key, None)


def _load(wanted: LoadRequest) -> Policy:
    if 'broken' in wanted.model:
        raise CheckpointError(
            f'{wanted.model} has no weights', expected='model.safetensors', remedy='download it'
        )
    if 'sleepy' in wanted.model:
        threading.Event().wait(WAIT)
    if 'stuck' in wanted.model:
        return SlowPolicy()
    return EchoPolicy(make_spec(model=wanted.model))


PLUGIN = PolicyPlugin(load=_load, model_types=('fake',))
"""Registry entry for tests that run the command line in a subprocess. The model's name decides:
``broken`` is refused, ``sleepy`` takes for ever to load, ``stuck`` never answers."""
