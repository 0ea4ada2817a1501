# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A checkpoint seen by its file names, small files and weight headers, weights unread.

Loading looks at a checkpoint this way before it reads a single weight, and inspecting never does
more: on the hub it fetches the small files and, by range requests, the headers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies import checkpoint_files
from openpi_policy_ros.policies.checkpoint_files import Located
from openpi_policy_ros.policies.weight_files import Header, TensorInfo, read_header

SMALL_FILES = (
    'config.json',
    'arch_overrides.json',
    'adapter_config.json',
    'policy_preprocessor*',
    'policy_postprocessor*',
    'model.safetensors.index.json',
    'tokenizer.json',
    'tokenizer/tokenizer.json',
    'assets/*/norm_stats.json',
    'experiment_cfg/metadata.json',
)
"""The only files that ``view_model`` ever fetches of a hub repository."""

_DEEPEST, _MOST_FILES = 5, 20_000
_LISTED = 20


@dataclass(frozen=True)
class CheckpointView:
    """A checkpoint without its weights.

    Attributes:
        model: what the user called it.
        located: where its small files lie.
        sizes: path inside the checkpoint → bytes, of every file it has.
        on_hub: whether its weights are still on the hub.

    """

    model: str
    located: Located
    sizes: Mapping[str, int]
    on_hub: bool = False
    _headers: dict[str, Header] = field(default_factory=dict, compare=False, repr=False)

    def header(self, name: str) -> Header:
        """Return what the weights file ``name`` holds.

        Raises:
            CheckpointError: no such file, sharded instead, damaged, or not to be had from the hub.

        """
        if name not in self.sizes:
            raise self._no_weights(name)
        if name not in self._headers:
            self._headers[name] = (
                _hub_header(self.model, name, self.located.revision)
                if self.on_hub
                else read_header(self.located.directory / name)
            )
        return self._headers[name]

    def _no_weights(self, name: str) -> CheckpointError:
        where = self.model if self.on_hub else str(self.located.directory)
        if f'{name}.index.json' in self.sizes:
            return CheckpointError(
                f'{where}: its weights are sharded ({name}.index.json), which is not supported yet',
                expected=f'one file {name}',
                remedy='save the checkpoint again with a shard size above its own',
            )
        there = ', '.join(sorted(self.sizes)[:_LISTED]) or 'nothing'
        return CheckpointError(
            f'{where} holds no weights',
            expected=f'a file {name} (there is: {there})',
            remedy='copy or download the whole checkpoint; random weights are never served',
        )


def view_directory(model: str, located: Located) -> CheckpointView:
    """Return the view of a checkpoint that lies on this machine whole."""
    sizes: dict[str, int] = {}
    top = str(located.directory)
    for folder, folders, files in os.walk(top):
        inside = os.path.relpath(folder, top)
        parts = () if inside == os.curdir else Path(inside).parts
        if len(parts) >= _DEEPEST or len(sizes) > _MOST_FILES:
            folders.clear()
        # The hub's client keeps notes of its own in .cache, git in .git.
        folders[:] = sorted(name for name in folders if not name.startswith('.'))
        for name in files:
            path = Path(folder, name)
            # A link into a cache that was cleared has no size, and is no file.
            if path.is_file():
                sizes['/'.join((*parts, name))] = path.stat().st_size
    return CheckpointView(model, located, sizes)


def view_model(model: str, revision: str | None = None) -> CheckpointView:
    """Return the view of a directory or hub repository; of the latter only small files are fetched.

    Raises:
        CheckpointError: neither a directory nor a hub id, or the hub cannot be asked.

    """
    path = Path(model).expanduser()
    if path.exists() or not checkpoint_files.is_hub_id(model):
        return view_directory(model, checkpoint_files.locate(model, None, ()))
    from huggingface_hub import HfApi, constants

    if constants.HF_HUB_OFFLINE:
        # What was downloaded before is all there is.
        return view_directory(model, checkpoint_files.locate(model, revision, SMALL_FILES))
    with checkpoint_files.asking_hub(model, revision):
        info = HfApi().model_info(model, revision=revision, files_metadata=True)
    sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
    located = checkpoint_files.locate(model, info.sha, SMALL_FILES)
    return CheckpointView(model, located, sizes, on_hub=True)


def _hub_header(repository: str, name: str, commit: str) -> Header:
    from huggingface_hub import HfApi

    with checkpoint_files.asking_hub(repository, commit, what=f'the header of {name}'):
        metadata = HfApi().parse_safetensors_file_metadata(repository, name, revision=commit)
    return {
        tensor: TensorInfo(info.dtype, tuple(info.shape))
        for tensor, info in metadata.tensors.items()
    }
