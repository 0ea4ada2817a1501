# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Loading takes the memory of the weights it keeps and no more, and says how far it is."""

from __future__ import annotations

import base64
import json
import logging
import math
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, repeat
from pathlib import Path
from typing import Any

import pytest
import torch
from policy_checkpoints import rewrite_weights
from safetensors.torch import load_file
from torch import Tensor

from openpi_policy_ros.policies.pi0 import checkpoint
from openpi_policy_ros.policies.pi0.checkpoint import load_weights
from openpi_policy_ros.policies.pi0.config import Family, GemmaSize, Pi0Config, VisionSize
from openpi_policy_ros.policies.pi0.layout import tensors
from openpi_policy_ros.policies.pi0.lerobot_config import read_config
from openpi_policy_ros.policies.progress import EVERY, Progress
from openpi_policy_ros.policies.weight_digest import WeightDigest
from openpi_policy_ros.policies.weight_files import Weights

CPU = torch.device('cpu')
BYTES = {'F32': 4, 'BF16': 2}
MARGIN = 1.1
LOGGER = 'openpi_policy_ros.policies'


def large(small: Path, family: Family, dtype: str) -> Pi0Config:
    """Return sizes of about 0.25 G values: tables, wide layers and heads nobody reads."""
    return replace(
        read_config(small),
        family=family,
        dtype=dtype,
        vision=VisionSize(width=384, depth=4, mlp_dim=1536, num_heads=6),
        language=GemmaSize(1024, 6, 8192, 8, 1, 128),
        expert=GemmaSize(512, 6, 2048, 8, 1, 128),
        vocab_size=32768,
    )


def write_sparse(directory: Path, config: Pi0Config, stored: str, shards: int) -> int:
    """Write a checkpoint of holes, which take no room on the disk; return its bytes.

    Args:
        directory: that exists.
        config: sizes.
        stored: type of every tensor.
        shards: 1 = one file.

    """
    names = list(tensors(config).items())
    paths = ['model.safetensors'] + [
        f'model-{number:05}-of-{shards:05}.safetensors' for number in range(1, shards + 1)
    ]
    total, weight_map = 0, {}
    for number in range(shards):
        path = directory / paths[0 if shards == 1 else number + 1]
        header: dict[str, Any] = {}
        end = 0
        for name, slot in names[number::shards]:
            start, end = end, end + BYTES[stored] * math.prod(slot.shape)
            shape = list(slot.shape)
            header[f'model.{name}'] = {
                'dtype': stored,
                'shape': shape,
                'data_offsets': [start, end],
            }
            weight_map[f'model.{name}'] = path.name
        text = json.dumps(header).encode()
        with path.open('wb') as file:
            file.write(len(text).to_bytes(8, 'little') + text)
            file.truncate(file.tell() + end)
        total += end
    if shards > 1:
        (directory / 'model.safetensors.index.json').write_text(
            json.dumps({'weight_map': weight_map})
        )
    return total


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """Return a folder whose large files do not outlast the test."""
    yield tmp_path
    for path in tmp_path.glob('*.safetensors'):
        path.unlink()


@pytest.mark.parametrize(
    ('family', 'stored', 'dtype', 'shards'),
    [
        ('pi0', 'F32', 'float32', 1),
        ('pi05', 'F32', 'bfloat16', 1),
        ('pi0', 'BF16', 'float32', 3),
        ('pi05', 'F32', 'float32', 3),
    ],
)
def test_loading_takes_the_memory_of_the_weights_that_are_kept(
    small: Path, scratch: Path, family: Family, stored: str, dtype: str, shards: int
) -> None:
    config = large(small, family, dtype)
    size = write_sparse(scratch, config, stored, shards)
    assert size * 4 // BYTES[stored] > 900e6
    pickled = base64.b64encode(pickle.dumps(config)).decode()
    script = Path(__file__).with_name('measure_loading.py')
    run = subprocess.run(
        [sys.executable, str(script), str(scratch), pickled],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    measured = json.loads(run.stdout)
    assert measured['growth'] <= MARGIN * measured['kept'], measured
    # The parameters were written at all.
    assert measured['growth'] >= 0.9 * measured['kept'], measured


# What is read, and how


def parameters(directory: Path, **changes: Any) -> tuple[dict[str, Tensor], str]:
    model, digest = load_weights(directory, replace(read_config(directory), **changes), CPU)
    return dict(model.named_parameters()), digest


def test_what_no_inference_uses_is_never_read(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    tensor = Weights.tensor
    monkeypatch.setattr(
        Weights, 'tensor', lambda self, name: read.append(name) or tensor(self, name)
    )
    parameters(small)
    unread = set(load_file(small / 'model.safetensors')) - set(read)
    assert len(read) == len(set(read))
    last = 'model.paligemma_with_expert.paligemma.model.language_model.layers.2'
    assert unread == {
        'model.paligemma_with_expert.paligemma.lm_head.weight',
        'model.paligemma_with_expert.gemma_expert.lm_head.weight',
        'model.paligemma_with_expert.paligemma.model.language_model.norm.weight',
        f'{last}.self_attn.q_proj.weight',
        f'{last}.self_attn.o_proj.weight',
        f'{last}.post_attention_layernorm.weight',
        f'{last}.mlp.gate_proj.weight',
        f'{last}.mlp.up_proj.weight',
        f'{last}.mlp.down_proj.weight',
    }


@pytest.mark.parametrize('block', [100, 4096, 1 << 20])
def test_the_weights_do_not_depend_on_how_much_is_copied_at_once(
    small: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    expected, _ = parameters(small)
    monkeypatch.setattr(checkpoint, '_BLOCK', block)
    for name, tensor in parameters(small)[0].items():
        assert torch.equal(tensor, expected[name]), name


@pytest.mark.parametrize('stored', [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_every_stored_type_is_cast_as_it_is_copied(
    copy: Path, stored: torch.dtype, dtype: str
) -> None:
    def cast(weights: dict[str, Tensor]) -> None:
        for name in weights:
            weights[name] = weights[name].to(stored)

    rewrite_weights(copy, cast)
    weights, (loaded, _) = load_file(copy / 'model.safetensors'), parameters(copy, dtype=dtype)
    layer = 'model.paligemma_with_expert.gemma_expert.model.layers.1'
    down = weights[f'{layer}.mlp.down_proj.weight'].to(getattr(torch, dtype))
    assert torch.equal(loaded['expert.1.down.weight'], down)
    # Wide whatever the rest is, and the sum is made wide too.
    norm = weights[f'{layer}.input_layernorm.weight'].float() + 1.0
    assert torch.equal(loaded['expert.1.norm1.weight'], norm)
    assert torch.equal(loaded['state_proj.weight'], weights['model.state_proj.weight'].float())


# The digest


def test_a_digest_counts_bytes_labels_and_order() -> None:
    def digest(*blocks: tuple[str, bytes]) -> str:
        with WeightDigest() as made:
            for label, block in blocks:
                made.add(label, block)
            return made.hexdigest()

    many = [(str(number), bytes([number]) * 5000) for number in range(40)]
    expected = digest(*many)
    assert digest(*many) == expected
    assert len({digest(*many[::-1]), digest(*many[1:]), digest(('x', many[0][1]), *many[1:])}) == 3
    assert expected not in {digest(*many[::-1]), digest(*many[1:])}


def test_the_digest_does_not_depend_on_the_type_it_is_served_in(small: Path) -> None:
    assert parameters(small)[1] == parameters(small, dtype='bfloat16')[1]


def test_no_thread_outlasts_a_load_even_a_failed_one(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Progress, count: int) -> None:
        raise RuntimeError('the device is gone')

    before = threading.active_count()
    parameters(small)
    monkeypatch.setattr(Progress, 'advance', fail)
    with pytest.raises(RuntimeError, match='device is gone'):
        parameters(small)
    assert threading.active_count() == before


# Progress


def test_a_long_load_says_how_far_it_is(small: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    seconds = count(0.0, 0.9)
    load_weights(small, read_config(small), CPU, lambda: next(seconds))
    start = f'{small / "model.safetensors"}: 0.0 of 0.0 GB read, '
    assert all(record.getMessage().startswith(start) for record in caplog.records)
    # Every sixth step of 0.9 s is the first that is EVERY or more after the last line.
    assert 5 < len(caplog.records) <= next(seconds) / EVERY


def test_progress_tells_bytes_and_rate(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    now = 100.0
    progress = Progress('weights', 12_950_000_000, lambda: now)
    for seconds in (2.0, 4.9, 5.1, 9.9, 10.2, 15.0):
        now = 100.0 + seconds
        progress.advance(1_000_000_000)
    assert [record.getMessage() for record in caplog.records] == [
        'weights: 3.0 of 12.9 GB read, 588 MB/s',
        'weights: 5.0 of 12.9 GB read, 490 MB/s',
    ]


def test_the_last_byte_is_no_progress_to_tell(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    now = 0.0
    progress = Progress('weights', 10, lambda: now)
    now = 60.0
    progress.advance(10)
    assert caplog.records == []


def test_a_fast_load_says_nothing(small: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    still = repeat(7.0)
    load_weights(small, read_config(small), CPU, lambda: next(still))
    assert caplog.records == []
