# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure a DreamZero call stage by stage, and what each thing that is kept saves.

A round is one window of a session: its first call and those that go on, served as always, and then
each time with something computed as often as the reference computes it: the texts in every call,
the keys and values of text and picture in every forward, the time embedding for every token. The
chunks have to be the same; one that differs is an error, not a number. What goes without a cache
is computed and thrown away, so that the ratio is that of the added work alone. On a CPU the time of
a stage is the processor's, which other programs disturb least.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from openpi_policy_ros.bench.statistics import Spread, ratios, table
from openpi_policy_ros.errors import ConfigurationError, InvalidObservation, InvalidOutput
from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, SessionKey
from openpi_policy_ros.policies.dreamzero.dit import CausalWan
from openpi_policy_ros.policies.dreamzero.guidance import Flow, Guidance, OneBatch, TwoPasses
from openpi_policy_ros.policies.dreamzero.layers import time_sinusoid
from openpi_policy_ros.policies.dreamzero.load import load
from openpi_policy_ros.policies.dreamzero.memory import size as in_words
from openpi_policy_ros.policies.dreamzero.policy import DreamZeroPolicy
from openpi_policy_ros.policies.dreamzero.window import BLOCK_FRAMES
from openpi_policy_ros.policies.registry import LoadRequest
from openpi_policy_ros.policies.stage_clock import StageClock

POLICY = 'dreamzero'
SERVED = 'as served'
STAGES = ('preprocess', 'text', 'clip', 'vae', 'prefill', 'denoise', 'model')
KEY = SessionKey('bench', 'bench')
SCALE = 5.0
PATIENCE = 300.0
"""Seconds that the rounds may take together; of a slow checkpoint fewer are run, at least one."""
TOLERANCE = {'float32': 1e-4, 'bfloat16': 0.2}
"""Largest difference between two ways to compute one chunk in the model's units."""


@dataclass(frozen=True)
class Way:
    """What is computed again although it need not be.

    Attributes:
        text: both texts, in every call.
        cross: keys and values of text and picture, in every forward.
        time: the time embedding, for every token.
        passes: the two branches one after the other, as the reference on one device.
        every_step: no sampler step is skipped; the chunk is another one then.

    """

    text: bool = False
    cross: bool = False
    time: bool = False
    passes: bool = False
    every_step: bool = False


WAYS: Mapping[str, Way] = {
    SERVED: Way(),
    'texts in every call': Way(text=True),
    'cross K/V in every forward': Way(cross=True),
    'time embedding per token': Way(time=True),
    'none of the three kept': Way(text=True, cross=True, time=True),
    'two passes instead of a batch': Way(passes=True),
    'all sampler steps': Way(every_step=True),
}


class Again(Guidance):
    """Another guidance that also computes what it need not.

    Args:
        inner: who runs the network.
        dit: the network.
        way: what is computed again.

    """

    def __init__(self, inner: Guidance, dit: CausalWan, way: Way) -> None:
        self._inner, self._dit, self._way = inner, dit, way
        self.device, self.dtype = inner.device, inner.dtype
        self._begun: tuple[Tensor, Tensor] | None = None

    @property
    def bytes_per_session(self) -> int:
        """Return what the inner one takes."""
        return self._inner.bytes_per_session

    def open(self) -> int:
        """Open a session of the inner one."""
        return self._inner.open()

    def begin(self, handle: int, text: Tensor, text_neg: Tensor, clip: Tensor) -> None:
        """Begin a window, and remember with what."""
        self._begun = torch.cat([text, text_neg]), clip
        self._inner.begin(handle, text, text_neg, clip)

    def prefill(self, handle: int, x: Tensor, y: Tensor, start_frame: int) -> None:
        """Write to the window."""
        self._again(x.shape[2], registers=False)
        self._inner.prefill(handle, x, y, start_frame)

    def denoise(
        self,
        handle: int,
        x: Tensor,
        y: Tensor,
        action: Tensor,
        state: Tensor,
        t_video: int,
        t_action: int,
        start_frame: int,
    ) -> Flow:
        """Return the flow."""
        self._again(x.shape[2], registers=True)
        return self._inner.denoise(handle, x, y, action, state, t_video, t_action, start_frame)

    def close(self, handle: int) -> None:
        """Close a session of the inner one."""
        self._inner.close(handle)

    def shutdown(self) -> None:
        """Shut the inner one down."""
        self._inner.shutdown()

    def _again(self, frames: int, *, registers: bool) -> None:
        config = self._dit.config
        if self._way.cross:
            assert self._begun is not None
            self._dit.cross(*self._begun)
        if self._way.time:
            tokens = frames * config.frame_seqlen
            if registers:
                tokens += config.num_action_per_block + config.num_state_per_block
            row = time_sinusoid(500, config.freq_dim).to(self.device, self.dtype)
            rows = row.expand(2, tokens, -1).contiguous()
            self._dit.time_projection(self._dit.time_embedding(rows))


def measure(model: str, *, steps: int | None, device: str, rounds: int) -> dict[str, Any]:
    """Return the time of each stage, and what each cache saves.

    Args:
        model: a checkpoint directory or hub id.
        steps: of the sampler; None = the policy's.
        device: of torch.
        rounds: windows of each kind; fewer where they would take longer than ``PATIENCE``.

    Raises:
        CheckpointError: it cannot be loaded.
        InvalidObservation: it does not take so many steps.
        InvalidOutput: a chunk is not the served one.

    """
    policy = load(LoadRequest(model, device))
    networks = policy.model
    if networks.device.type == 'cpu':
        policy.new_clock = lambda: StageClock(networks.device, time.process_time)
    try:
        if steps is not None:
            _ask(policy, KEY, 0, steps)
        return {
            'policy': POLICY,
            'model': model,
            'transformer_parameters': sum(one.numel() for one in _dit(policy).parameters()),
            'dtype': _name(networks.dtype),
            'device': torch.cuda.get_device_name(device) if device.startswith('cuda') else device,
            'threads': torch.get_num_threads(),
            'steps': steps or networks.sampling.num_inference_steps,
            'step_cache': networks.sampling.step_cache,
            'calls_per_window': _calls(policy),
            'session_bytes': _session_bytes(policy),
            **_compare(policy, steps, rounds),
        }
    finally:
        policy.close()


def _compare(policy: DreamZeroPolicy, steps: int | None, rounds: int) -> dict[str, Any]:
    """Return stages of the two kinds of call, and each way beside the served one."""
    played: dict[str, list[_Window]] = {name: [] for name in WAYS}
    difference = 0.0
    turn = 0
    while turn <= rounds:
        began = time.monotonic()
        windows = {name: _play(policy, way, steps) for name, way in WAYS.items()}
        if not turn:
            rounds = _affordable(rounds, time.monotonic() - began)
        for name, window in windows.items():
            if not WAYS[name].every_step:
                gaps = np.abs(window.chunks - windows[SERVED].chunks)
                difference = max(difference, float(gaps.max()))
        if turn:  # The first one chooses kernels, gets memory, fills the caches.
            for name, window in windows.items():
                played[name].append(window)
        turn += 1
    if not difference <= TOLERANCE[_name(policy.model.dtype)]:
        raise InvalidOutput(
            f'a chunk computed without a cache differs by {difference:.3g}',
            expected=f'at most {TOLERANCE[_name(policy.model.dtype)]:g}',
            remedy='report it: a faster wrong chunk is worth nothing',
        )
    served = played[SERVED]
    return {
        'rounds': rounds,
        'difference': difference,
        'first_call_ms': _stages([window.first for window in served]),
        'later_call_ms': _stages([window.later for window in served]),
        'ways': {
            name: {
                'transformer_ms': Spread.of([one.transformer_ms for one in windows]).as_dict(),
                'stages_ms': _stages([one.sums for one in windows]),
                'times': ratios(
                    [one.transformer_ms for one in windows],
                    [one.transformer_ms for one in served],
                ).as_dict(),
                'window_times': ratios(
                    [one.sums['model'] for one in windows],
                    [one.sums['model'] for one in served],
                ).as_dict(),
            }
            for name, windows in played.items()
        },
    }


def _affordable(rounds: int, each: float) -> int:
    """Return how many rounds of ``each`` seconds are run, and say how long that takes if long."""
    count = max(1, min(rounds, int(PATIENCE // each))) if each else rounds
    if count < rounds or count * each > PATIENCE / 10.0:
        fewer = f', not the {rounds} asked for' if count < rounds else ''
        print(
            f'a round takes {each:.0f} s: {count} of them{fewer}, about '
            f'{max(1, round(count * each / 60.0))} min',
            file=sys.stderr,
            flush=True,
        )
    return count


@dataclass(frozen=True)
class _Window:
    """One window.

    Attributes:
        first: stages of its first call, ms.
        later: of the others, per call.
        sums: of all calls.
        chunks: [calls, H, D].

    """

    first: dict[str, float]
    later: dict[str, float]
    sums: dict[str, float]
    chunks: np.ndarray

    @property
    def transformer_ms(self) -> float:
        """Return the ms of the stages that a way can change."""
        return sum(self.sums[name] for name in ('text', 'prefill', 'denoise'))


def _play(policy: DreamZeroPolicy, way: Way, steps: int | None) -> _Window:
    """Return a window of a new session, computed in one way."""
    networks = policy.model
    usual, sampling = networks.guidance, networks.sampling
    dit = _dit(policy)
    kind = TwoPasses if way.passes else OneBatch
    networks.guidance = Again(kind(dit, SCALE), dit, way)
    if way.every_step:
        networks.sampling = replace(sampling, step_cache='off')
    stages: list[dict[str, float]] = []
    chunks = []
    try:
        for call in range(_calls(policy)):
            again = _encode_texts(policy) if way.text else 0.0
            chunk = _ask(policy, KEY, call, steps)
            timing = dict.fromkeys(STAGES, 0.0) | dict(chunk.timing_ms)
            timing['text'] += again
            timing['model'] += again
            stages.append(timing)
            chunks.append(chunk.actions)
    finally:
        policy.close_session(KEY)
        networks.guidance, networks.sampling = usual, sampling
    return _Window(
        stages[0],
        {name: float(np.mean([one[name] for one in stages[1:] or stages])) for name in STAGES},
        {name: sum(one[name] for one in stages) for name in STAGES},
        np.stack(chunks),
    )


def _ask(policy: DreamZeroPolicy, key: SessionKey, call: int, steps: int | None) -> ActionChunk:
    """Return the chunk of a session's call, with one image at first and four later."""
    observation = policy.transform.example(BLOCK_FRAMES if call else 1)
    request = InferenceRequest(observation, key, num_inference_steps=steps)
    (result,) = policy.infer([request])
    if isinstance(result, InvalidObservation):
        raise result
    return result


def _encode_texts(policy: DreamZeroPolicy) -> float:
    """Encode both texts; return the ms that took."""
    networks = policy.model
    clock = policy.new_clock()
    with torch.inference_mode(), clock.stage('text'):
        for _ in range(2):
            networks.encoders.text(*policy.prompts.negative)
    return clock.milliseconds()['text']


def _session_bytes(policy: DreamZeroPolicy) -> dict[str, int]:
    """Return what a session takes by computation, and what one was found to take."""
    others = SessionKey('bench', 'another')
    held = []
    # The first session also pays for what all of them share.
    for key in (KEY, others):
        before = tensor_bytes()
        for call in range(_calls(policy)):
            _ask(policy, key, call, None)
        session = policy.session(key)
        assert session is not None
        frames = sum(frame.nbytes for frame in session.frames)
        held.append(tensor_bytes() - before + frames)
    for key in (KEY, others):
        policy.close_session(key)
    return {'computed': policy.model.bytes_per_session, 'measured': held[1]}


def tensor_bytes() -> int:
    """Return the bytes of all tensors' memory that is in use, on whatever device."""
    gc.collect()
    found: dict[tuple[str, int], int] = {}
    for one in gc.get_objects():
        # isinstance would ask objects that pretend to be of another class.
        if issubclass(type(one), Tensor) and one.device.type != 'meta':
            storage = one.untyped_storage()
            found[str(one.device), storage.data_ptr()] = storage.nbytes()
    return sum(found.values())


def _calls(policy: DreamZeroPolicy) -> int:
    """Return the calls of one window."""
    dit = policy.model.config.dit
    return (dit.local_attn_size - 1) // dit.num_frame_per_block


def _dit(policy: DreamZeroPolicy) -> CausalWan:
    guidance = policy.model.guidance
    if not isinstance(guidance, (OneBatch, TwoPasses)):
        raise ConfigurationError(
            'bench --model', ['the guidance runs on two devices; set cfg_parallel_size: 1']
        )
    return guidance.dit


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix('torch.')


def _stages(calls: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    return {name: Spread.of([one[name] for one in calls]).as_dict() for name in STAGES}


def report(result: dict[str, Any]) -> str:
    """Return the tables."""
    sessions = result['session_bytes']
    head = (
        f'{result["model"]}: transformer of {result["transformer_parameters"] / 1e6:.1f} M '
        f'parameters in {result["dtype"]} on {result["device"]}, {result["threads"]} threads, '
        f'{result["steps"]} steps (step_cache {result["step_cache"]}), '
        f'{result["calls_per_window"]} calls a window, {result["rounds"]} rounds'
        f'{"; ms of processor time" if result["device"] == "cpu" else ""}\n'
        f'a session takes {sessions["computed"]} bytes ({in_words(sessions["computed"])}) by '
        f'computation, {sessions["measured"]} were found'
    )
    kinds = [
        [kind, *(f'{result[key][name]["median"]:.1f}' for name in STAGES)]
        for kind, key in (
            ('starts a window', 'first_call_ms'),
            ('goes on', 'later_call_ms'),
        )
    ]
    ways = [
        [
            name,
            *(f'{one["stages_ms"][stage]["median"]:.1f}' for stage in STAGES[1:]),
            f'{one["transformer_ms"]["median"]:.1f}',
            Spread(**one['times']).text(),
            Spread(**one['window_times']).text(),
        ]
        for name, one in result['ways'].items()
    ]
    stages = [f'{name} ms' for name in STAGES]
    return '\n\n'.join(
        [
            head,
            table(['call', *stages], kinds),
            table(
                [
                    'window',
                    *stages[1:],
                    'text + prefill + denoise ms',
                    'times',
                    'times (model)',
                ],
                ways,
            ),
            f'largest difference between two ways to compute a chunk: {result["difference"]:.1e}',
        ]
    )
