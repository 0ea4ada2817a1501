# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure a π0 chunk stage by stage, and against the reference algorithm on the same weights.

A checkpoint of DreamZero is measured by ``bench.dreamzero``.
Both get the same three 480×640 images, prompt, state and seed, in turns, on the same threads. A
chunk that differs from the reference's is an error, not a number. On a CPU the processor time of
the whole call, preprocessing included, is compared too: on a busy machine it is the steadier one.
A DreamZero checkpoint is measured by ``bench.dreamzero``.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from openpi_policy_ros.bench.statistics import Spread, ratios, table
from openpi_policy_ros.errors import ConfigurationError, InvalidOutput

CPU = 'cpu'
DREAMZERO = 'vla'
"""Kind of model in a DreamZero checkpoint's config.json."""
STAGES = ('preprocess', 'vision', 'prefix', 'denoise', 'model')
PROMPT = 'pick up the red block and put it into the box'
SEED = 1
TOLERANCE = {'float32': 1e-4, 'bfloat16': 0.1}
"""Largest difference from the reference's actions, which are of order 1; sums are rounded in
another order, in bfloat16 to three digits."""


def measure(
    *,
    model: str | None,
    size: str,
    cameras: Sequence[int],
    steps: int | None,
    threads: int | None,
    device: str,
    rounds: int,
    reference: bool = True,
) -> dict[str, Any]:
    """Return the time of each stage for each number of cameras.

    Args:
        model: a checkpoint directory or hub id; None = make one of ``size`` and throw it away.
        size: of the checkpoint that is made.
        cameras: numbers of cameras that send an image; the others are missing.
        steps: of the sampler; None = the checkpoint's.
        threads: of torch; None = as it is.
        device: of torch.
        rounds: chunks of each kind.
        reference: compare with the reference algorithm, which needs the weights a second time.

    Raises:
        ConfigurationError: the checkpoint has not that many cameras.
        CheckpointError: it cannot be loaded, or is none of π0 or DreamZero.
        InvalidOutput: the chunk is not the reference's.

    """
    import torch

    from openpi_policy_ros.policies.checkpoint_view import view_model
    from openpi_policy_ros.policies.loading import model_type
    from openpi_policy_ros.policies.pi0.lerobot_config import read_config
    from openpi_policy_ros.policies.pi0.load import load
    from openpi_policy_ros.policies.registry import LoadRequest

    if threads is not None:
        torch.set_num_threads(threads)
    with ExitStack() as stack:
        if model is None:
            from openpi_policy_ros.policies.pi0.make_checkpoint import make_checkpoint

            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix='openpi_bench_'))
            model = str(Path(scratch) / size)
            make_checkpoint(Path(model), size, 0)
        located = view_model(model).located
        if model_type(located.directory) == DREAMZERO:
            from openpi_policy_ros.bench import dreamzero

            return dreamzero.measure(model, steps=steps, device=device, rounds=rounds)
        config = read_config(located.directory)
        features = config.image_features
        if max(cameras) > len(features):
            raise ConfigurationError(
                'bench --cameras', [f'{max(cameras)} cameras, but {model} has {len(features)}']
            )
        # Any camera may be missing here, whatever a robot file would require.
        options = {'optional_cameras': list(features)}
        request = LoadRequest(model, device, options, revision=located.revision or None)
        policy = load(request, config.family)
        stack.callback(policy.close)
        policy.warm_up()
        naive = None
        if reference:
            from openpi_policy_ros.bench.naive_pi0 import NaivePi0

            net = policy.model
            naive = NaivePi0(located.directory, net.config, net.device, net.dtype)
        counts = {str(count): _compare(policy, naive, count, steps, rounds) for count in cameras}
        return {
            'model': model if not model.startswith(tempfile.gettempdir()) else f'made: {size}',
            'parameters': sum(weight.numel() for weight in policy.model.parameters()),
            'dtype': str(policy.model.dtype).removeprefix('torch.'),
            'device': _device_name(device),
            'threads': torch.get_num_threads(),
            'steps': steps if steps is not None else policy.model.config.num_inference_steps,
            'rounds': rounds,
            'cameras': counts,
        }


def _device_name(device: str) -> str:
    import torch

    return torch.cuda.get_device_name(device) if device.startswith('cuda') else device


def _compare(
    policy: Any, naive: Any, cameras: int, steps: int | None, rounds: int
) -> dict[str, Any]:
    """Return stages and ratio for one number of cameras."""
    observation = example_observation(policy, cameras)
    steps = steps if steps is not None else policy.model.config.num_inference_steps
    ours: list[dict[str, float]] = []
    rival: list[float] = []
    rival_cpu: list[float] = []
    difference = 0.0
    for turn in range(rounds + 1):
        stages, chunk = _ours(policy, observation, steps)
        if naive is not None:
            took, cpu_ms, expected = _theirs(policy, naive, observation, steps)
            difference = max(difference, float(np.abs(chunk - expected).max()))
        if turn == 0:
            continue  # The first of a shape chooses kernels and gets memory.
        ours.append(stages)
        if naive is not None:
            rival.append(took)
            rival_cpu.append(cpu_ms)
    result: dict[str, Any] = {
        'stages_ms': {
            name: Spread.of([stages[name] for stages in ours]).as_dict() for name in STAGES
        },
        'cpu_ms': Spread.of([stages[CPU] for stages in ours]).as_dict(),
    }
    if naive is not None:
        dtype = str(policy.model.dtype).removeprefix('torch.')
        if not difference <= TOLERANCE[dtype]:
            raise InvalidOutput(
                f'with {cameras} cameras the chunk differs from the reference by {difference:.3g}',
                expected=f'at most {TOLERANCE[dtype]:g}',
                remedy='report it: a faster wrong chunk is worth nothing',
            )
        model_ms = [stages['model'] for stages in ours]
        result['reference_ms'] = Spread.of(rival).as_dict()
        # How many times faster, so the reference goes on top.
        result['speedup'] = ratios(rival, model_ms).as_dict()
        result['reference_cpu_ms'] = Spread.of(rival_cpu).as_dict()
        result['cpu_speedup'] = ratios(rival_cpu, [stages[CPU] for stages in ours]).as_dict()
        result['difference'] = difference
    return result


def example_observation(policy: Any, cameras: int) -> dict[str, Any]:
    """Return so many images uint8 [480, 640, 3], a state and a prompt."""
    rng = np.random.default_rng(0)
    spec = policy.spec
    observation: dict[str, Any] = {
        camera.wire_keys[0]: rng.integers(0, 256, (480, 640, 3), np.uint8)
        for camera in spec.cameras[:cameras]
    }
    return {**observation, **policy.example_state(), 'prompt': PROMPT}


def _ours(
    policy: Any, observation: dict[str, Any], steps: int
) -> tuple[dict[str, float], np.ndarray]:
    from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, SessionKey

    request = InferenceRequest(
        observation, SessionKey('bench', 'bench'), seed=SEED, num_inference_steps=steps
    )
    began = time.process_time()
    (result,) = policy.infer([request])
    cpu_ms = 1e3 * (time.process_time() - began)
    if not isinstance(result, ActionChunk):
        raise result
    assert result.model_actions is not None
    return {**result.timing_ms, CPU: cpu_ms}, result.model_actions


def _theirs(
    policy: Any, naive: Any, observation: dict[str, Any], steps: int
) -> tuple[float, float, np.ndarray]:
    """Return ms without the preprocessing, which both share, CPU ms with it, and the chunk."""
    import torch

    from openpi_policy_ros.policies.base import InferenceRequest, SessionKey

    device = naive.device
    request = InferenceRequest(observation, SessionKey('bench', 'bench'), seed=SEED)
    cpu_began = time.process_time()
    inputs = policy.prepare(request)
    present = [one.feature for one in policy.spec.cameras if one.wire_keys[0] in observation]
    images = dict(zip(present, inputs.images, strict=True))
    tokens, state = inputs.tokens.tolist(), inputs.state
    if state is None:  # It is in the text.
        state = torch.zeros(naive.config.max_state_dim, device=device)
    if device.type == 'cuda':
        torch.cuda.synchronize(device)
    began = time.perf_counter()
    chunk = naive.chunk(images, tokens, state, inputs.noise, steps).cpu().numpy()
    took = 1e3 * (time.perf_counter() - began)
    return took, 1e3 * (time.process_time() - cpu_began), chunk


def report(result: dict[str, Any]) -> str:
    """Return the table."""
    if result.get('policy') == 'dreamzero':
        from openpi_policy_ros.bench import dreamzero

        return dreamzero.report(result)
    head = (
        f'{result["model"]}: {result["parameters"] / 1e6:.1f} M parameters in {result["dtype"]} '
        f'on {result["device"]}, {result["threads"]} threads, {result["steps"]} steps, '
        f'{result["rounds"]} rounds'
    )
    rows = []
    for cameras, one in result['cameras'].items():
        stages = one['stages_ms']
        row = [cameras, *(f'{stages[name]["median"]:.1f}' for name in STAGES)]
        if 'speedup' in one:
            row += [
                f'{one["reference_ms"]["median"]:.1f}',
                Spread(**one['speedup']).text(),
                f'{one["cpu_ms"]["median"]:.1f}',
                f'{one["reference_cpu_ms"]["median"]:.1f}',
                Spread(**one['cpu_speedup']).text(),
                f'{one["difference"]:.1e}',
            ]
        else:
            row += ['–', '–', f'{one["cpu_ms"]["median"]:.1f}', '–', '–', '–']
        rows.append(row)
    headings = [
        'cameras',
        *(f'{name} ms' for name in STAGES),
        'reference ms',
        'speedup',
        'CPU ms',
        'reference CPU ms',
        'CPU speedup',
        'difference',
    ]
    return f'{head}\n\n{table(headings, rows)}'
