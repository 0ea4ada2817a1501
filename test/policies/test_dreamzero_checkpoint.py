# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""DreamZero's weights are loaded whole or not at all, and in the memory of what is kept."""

from __future__ import annotations

import base64
import json
import logging
import math
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from dreamzero_tiny import CPU, DREAMZERO_TINY
from policy_checkpoints import rewrite_weights
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from openpi_policy_ros.errors import CheckpointError, ConfigurationError
from openpi_policy_ros.policies.dreamzero import checkpoint, networks
from openpi_policy_ros.policies.dreamzero.checkpoint import check_header, load_weights
from openpi_policy_ros.policies.dreamzero.config import (
    ClipConfig,
    DreamZeroConfig,
    TextConfig,
    VaeConfig,
    parse_config,
)
from openpi_policy_ros.policies.dreamzero.networks import build
from openpi_policy_ros.policies.dreamzero.remap import slots
from openpi_policy_ros.policies.progress import EVERY
from openpi_policy_ros.policies.weight_files import Weights, read_header

pytest.importorskip('diffusers')
pytest.importorskip('transformers')

WEIGHTS = 'model.safetensors'
BYTES = {'F32': 4, 'BF16': 2}
PATCH = 'action_head.model.patch_embedding.weight'


@pytest.fixture(scope='module')
def config() -> DreamZeroConfig:
    source = DREAMZERO_TINY / 'config.json'
    return parse_config(json.loads(source.read_text()), str(source))


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Return a copy of the reference checkpoint that a test may damage."""
    directory = tmp_path / 'checkpoint'
    directory.mkdir()
    for name in ('config.json', WEIGHTS):
        shutil.copy(DREAMZERO_TINY / name, directory / name)
    return directory


def load(
    directory: Path, config: DreamZeroConfig, dtype: torch.dtype = torch.float32, **options: Any
) -> tuple[dict[str, Tensor], str]:
    """Return every parameter of the four networks, by network and name, and the digest."""
    dit, encoders, digest = load_weights(directory, config, CPU, dtype, **options)
    parts = {'dit': dit, 'text': encoders._text, 'clip': encoders._clip, 'vae': encoders._vae}
    return {
        f'{part}.{name}': parameter
        for part, network in parts.items()
        for name, parameter in network.named_parameters()
    }, digest


def refusal(directory: Path, config: DreamZeroConfig) -> str:
    with pytest.raises(CheckpointError) as caught:
        load(directory, config)
    assert caught.value.remedy
    return str(caught.value)


def shard(directory: Path, parts: int = 3) -> dict[str, str]:
    """Spread the weights over files as the published checkpoints are; return the index's map."""
    weights = load_file(directory / WEIGHTS)
    (directory / WEIGHTS).unlink()
    names = sorted(weights)
    weight_map = {}
    for number in range(parts):
        file = f'model-{number + 1:05}-of-{parts:05}.safetensors'
        mine = names[number::parts]
        save_file({name: weights[name] for name in mine}, directory / file)
        weight_map |= dict.fromkeys(mine, file)
    write_index(directory, weight_map)
    return weight_map


def write_index(directory: Path, weight_map: dict[str, str]) -> None:
    index = {'metadata': {}, 'weight_map': weight_map}
    (directory / f'{WEIGHTS}.index.json').write_text(json.dumps(index))


# What is loaded


def test_every_parameter_has_the_values_of_its_tensor(config: DreamZeroConfig) -> None:
    stored = load_file(DREAMZERO_TINY / WEIGHTS)
    parameters, digest = load(DREAMZERO_TINY, config)
    assert len(digest) == 12
    assert int(digest, 16) >= 0
    assert all(not parameter.requires_grad for parameter in parameters.values())
    networks_ = build(config)
    for name, slot in slots(networks_, config).items():
        if slot.parts:
            values = [parameters[f'{part.network}.{part.parameter}'] for part in slot.parts]
            joined = torch.cat([value.flatten() for value in values])
            assert torch.equal(joined, stored[name].flatten()), name


def test_the_table_of_tokens_is_one_under_both_its_names(config: DreamZeroConfig) -> None:
    _, encoders, _ = load_weights(DREAMZERO_TINY, config, CPU, torch.float32)
    text = encoders._text
    assert text.get_parameter('shared.weight') is text.get_parameter('encoder.embed_tokens.weight')
    for network in (text, encoders._clip, encoders._vae):
        assert not network.training


def test_shards_give_the_same_networks_and_the_same_digest(
    tiny: Path, config: DreamZeroConfig
) -> None:
    expected, digest = load(tiny, config)
    shard(tiny)
    parameters, again = load(tiny, config)
    assert again == digest
    assert all(torch.equal(parameters[name], expected[name]) for name in expected)


def test_the_digest_is_of_what_is_served(tiny: Path, config: DreamZeroConfig) -> None:
    _, digest = load(tiny, config)

    def change(name: str) -> str:
        rewrite_weights(tiny, lambda weights: weights[name].view(-1)[:1].add_(0.5))
        return load(tiny, config)[1]

    assert change('action_head.image_encoder.model.visual.head') == digest
    assert change('action_head.vae.model.conv2.bias') != digest


@pytest.mark.parametrize('stored', [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16])
def test_every_stored_type_is_cast_as_it_is_copied(
    tiny: Path, config: DreamZeroConfig, stored: torch.dtype, dtype: torch.dtype
) -> None:
    def cast(weights: dict[str, Tensor]) -> None:
        weights |= {name: tensor.to(stored) for name, tensor in weights.items()}

    rewrite_weights(tiny, cast)
    weights, (parameters, _) = load_file(tiny / WEIGHTS), load(tiny, config, dtype)
    assert {parameter.dtype for parameter in parameters.values()} == {dtype}
    assert torch.equal(parameters['dit.patch_embedding.weight'], weights[PATCH].to(dtype))
    to_qkv = weights['action_head.image_encoder.model.visual.transformer.1.attn.to_qkv.weight']
    key = parameters['clip.encoder.layers.1.self_attn.k_proj.weight']
    assert torch.equal(key, to_qkv[32:64].to(dtype))


@pytest.mark.parametrize('block', [1000, 1 << 20])
def test_the_weights_do_not_depend_on_how_much_is_copied_at_once(
    config: DreamZeroConfig, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    expected, _ = load(DREAMZERO_TINY, config)
    monkeypatch.setattr(checkpoint, '_BLOCK', block)
    for name, tensor in load(DREAMZERO_TINY, config)[0].items():
        assert torch.equal(tensor, expected[name]), name


def test_what_no_inference_uses_is_never_read(
    config: DreamZeroConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    tensor = Weights.tensor
    monkeypatch.setattr(
        Weights, 'tensor', lambda self, name: read.append(name) or tensor(self, name)
    )
    load(DREAMZERO_TINY, config)
    unread = set(load_file(DREAMZERO_TINY / WEIGHTS)) - set(read)
    assert len(read) == len(set(read))
    assert len(unread) == 16
    assert all(name.startswith('action_head.image_encoder.model.') for name in unread)


def test_an_engine_for_other_hardware_beside_the_weights_is_ignored(
    tiny: Path, config: DreamZeroConfig
) -> None:
    _, digest = load(tiny, config)
    engine = tiny / 'tensorrt' / 'wan'
    engine.mkdir(parents=True)
    (engine / 'WanModel_nvfp4.trt').write_bytes(b'not to be opened')
    (engine / 'model.safetensors').write_bytes(b'nor this')
    (tiny / 'optimizer.pt').write_bytes(b'nor this')
    assert load(tiny, config)[1] == digest


def test_a_long_load_says_how_far_it_is(
    config: DreamZeroConfig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, 'openpi_policy_ros.policies')
    ticks = count()
    load(DREAMZERO_TINY, config, clock=lambda: next(ticks) * EVERY)
    assert any('GB read' in record.getMessage() for record in caplog.records)


# What is refused


def test_missing_unknown_and_wrongly_shaped_tensors_are_all_listed(
    tiny: Path, config: DreamZeroConfig
) -> None:
    def damage(weights: dict[str, Tensor]) -> None:
        del weights['action_head.text_encoder.norm.weight']
        weights['action_head.model.blocks.2.norm3.weight'] = torch.zeros(48)
        weights[PATCH] = weights[PATCH][:47]

    rewrite_weights(tiny, damage)
    text = refusal(tiny, config)
    assert f'{tiny / WEIGHTS} does not fit a DreamZero of these sizes' in text
    assert '1 missing: action_head.text_encoder.norm.weight' in text
    assert '1 unexpected: action_head.model.blocks.2.norm3.weight' in text
    assert f'{PATCH} is [47, 36, 1, 2, 2], expected [48, 36, 1, 2, 2]' in text
    assert 'config.json' in text


def test_weights_of_other_sizes_are_refused_before_one_is_read(
    config: DreamZeroConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Weights, 'tensor', lambda *_: pytest.fail('read'))
    larger = replace(config, dit=replace(config.dit, num_layers=3))
    text = refusal(DREAMZERO_TINY, larger)
    assert '32 missing' in text
    assert 'action_head.model.blocks.2.' in text


def test_an_adapter_is_refused_with_the_reason(tiny: Path, config: DreamZeroConfig) -> None:
    base = 'action_head.model.base_model.model.blocks.0.self_attn.q.lora_'
    adapter = {f'{base}A.weight': torch.zeros(4, 48), f'{base}B.weight': torch.zeros(48, 4)}
    save_file(adapter, tiny / WEIGHTS)
    text = refusal(tiny, config)
    assert 'holds a LoRA adapter, not a whole model' in text
    assert f'{base}A.weight' in text
    assert 'exactly the checkpoint it was trained on' in text


def test_a_missing_shard_is_named(tiny: Path, config: DreamZeroConfig) -> None:
    shard(tiny)
    (tiny / 'model-00002-of-00003.safetensors').unlink()
    text = refusal(tiny, config)
    assert 'names 3 shards, 1 of which are missing: model-00002-of-00003.safetensors' in text


def test_an_index_that_contradicts_its_shards_is_refused(
    tiny: Path, config: DreamZeroConfig
) -> None:
    weight_map = shard(tiny)
    wrong = next(f for f in sorted(set(weight_map.values())) if f != weight_map[PATCH])
    write_index(tiny, {**weight_map, PATCH: wrong})
    text = refusal(tiny, config)
    assert f'{wrong} does not hold {PATCH}, which the index says' in text


@pytest.mark.parametrize('sharded', [False, True])
def test_a_truncated_file_is_refused(tiny: Path, config: DreamZeroConfig, sharded: bool) -> None:
    path = tiny / WEIGHTS
    if sharded:
        path = tiny / sorted(set(shard(tiny).values()))[1]
    path.write_bytes(path.read_bytes()[:-100])
    text = refusal(tiny, config)
    assert str(path) in text
    assert 'copy or download it again' in text


def test_a_folder_without_weights_is_refused(tiny: Path, config: DreamZeroConfig) -> None:
    (tiny / WEIGHTS).unlink()
    assert str(tiny / WEIGHTS) in refusal(tiny, config)


def test_a_header_alone_is_refused_for_what_a_load_is_refused_for(config: DreamZeroConfig) -> None:
    header = dict(read_header(DREAMZERO_TINY / WEIGHTS))
    check_header(header, config, 'there')
    del header[PATCH]
    with pytest.raises(CheckpointError, match=f'^there does not fit .*\n.*1 missing: {PATCH}'):
        check_header(header, config, 'there')


@pytest.mark.parametrize('library', ['diffusers', 'transformers'])
def test_a_library_that_is_not_installed_is_named_with_its_command(
    config: DreamZeroConfig, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ConfigurationError) as caught:
        networks.build(config)
    assert f'it needs the library {library}' in str(caught.value)
    assert "pip install 'openpi_policy_ros[dreamzero]'" in str(caught.value)


def test_an_autoencoder_whose_latents_have_no_known_scale_is_refused(
    config: DreamZeroConfig,
) -> None:
    with pytest.raises(CheckpointError, match=r'z_dim is 8; expected 16'):
        build(replace(config, vae=replace(config.vae, z_dim=8)))


def test_a_buffer_without_a_value_is_never_served() -> None:
    module = nn.Module()
    module.register_buffer('table', torch.empty(3, device='meta'))
    with pytest.raises(AssertionError, match=r'Module\.table'):
        networks.allocate(module, CPU, torch.float32)


# Memory


def large(config: DreamZeroConfig, dtype: str) -> DreamZeroConfig:
    """Return sizes of about 0.1 G values: wide layers, and a large table of tokens."""
    return replace(
        config,
        dtype=dtype,
        dit=replace(
            config.dit,
            dim=1024,
            ffn_dim=4096,
            num_heads=8,
            num_layers=3,
            text_dim=512,
            clip_dim=512,
        ),
        text=TextConfig(65536, 512, 512, 1024, 8, 2, 32),
        clip=ClipConfig(512, 8, 4, 256),
        vae=VaeConfig(32),
    )


def write_sparse(directory: Path, config: DreamZeroConfig, stored: str, shards: int) -> int:
    """Write a checkpoint of holes, which take no room on the disk; return its bytes."""
    names = list(slots(build(config), config).items())
    total, weight_map = 0, {}
    for number in range(shards):
        path = directory / f'model-{number + 1:05}-of-{shards:05}.safetensors'
        if shards == 1:
            path = directory / WEIGHTS
        header: dict[str, Any] = {}
        end = 0
        for name, slot in names[number::shards]:
            start, end = end, end + BYTES[stored] * math.prod(slot.shape)
            header[name] = {
                'dtype': stored,
                'shape': list(slot.shape),
                'data_offsets': [start, end],
            }
            weight_map[name] = path.name
        text = json.dumps(header).encode()
        with path.open('wb') as file:
            file.write(len(text).to_bytes(8, 'little') + text)
            file.truncate(file.tell() + end)
        total += end
    if shards > 1:
        write_index(directory, weight_map)
    return total


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """Return a folder whose large files do not outlast the test."""
    yield tmp_path
    for path in tmp_path.glob('*.safetensors'):
        path.unlink()


@pytest.mark.parametrize(
    ('stored', 'dtype', 'shards'), [('BF16', 'float32', 3), ('F32', 'bfloat16', 1)]
)
def test_loading_takes_the_memory_of_the_weights_that_are_kept(
    config: DreamZeroConfig, scratch: Path, stored: str, dtype: str, shards: int
) -> None:
    sizes = large(config, dtype)
    assert write_sparse(scratch, sizes, stored, shards) * 4 // BYTES[stored] > 350e6
    pickled = base64.b64encode(pickle.dumps(sizes)).decode()
    script = Path(__file__).with_name('measure_loading.py')
    run = subprocess.run(
        [sys.executable, str(script), str(scratch), pickled],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    measured = json.loads(run.stdout.splitlines()[-1])
    assert measured['growth'] <= 1.1 * measured['kept'], measured
    # The parameters were written at all.
    assert measured['growth'] >= 0.9 * measured['kept'], measured
