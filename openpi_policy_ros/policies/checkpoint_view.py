# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A checkpoint seen by its file names, small files and weight headers, weights unread.

Loading looks at a checkpoint this way before it reads a single weight, and inspecting never does
more: on the hub it fetches the small files and, by range requests, the headers.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies import checkpoint_files, hub
from openpi_policy_ros.policies.checkpoint_files import Located
from openpi_policy_ros.policies.hub_download import fetch_weights
from openpi_policy_ros.policies.weight_files import Header, merge_headers, read_header, read_index

logger = logging.getLogger('openpi_policy_ros.policies')

SMALL_FILES = (
    'config.json',
    'arch_overrides.json',
    'adapter_config.json',
    'policy_preprocessor*',
    'policy_postprocessor*',
    'model.safetensors.index.json',
    'tokenizer.json',
    'tokenizer.model',
    'tokenizer/tokenizer.json',
    'tokenizer/tokenizer.model',
    'assets/*/norm_stats.json',
    'experiment_cfg/metadata.json',
    'experiment_cfg/conf.yaml',
)
"""The only files that ``view_model`` ever fetches of a hub repository."""

_DEEPEST, _MOST_FILES = 5, 20_000
_LISTED = 20
_AROUND = ('policy_preprocessor', 'assets/', 'experiment_cfg/')


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
        """Return what the weights ``name`` hold: that file, or all the shards of its index.

        Raises:
            CheckpointError: no such file, damaged, not to be had from the hub, or a shard that is
                not there or does not hold what the index says.

        """
        if name not in self._headers:
            if name in self.sizes:
                self._headers[name] = self._read_header(name)
            else:
                weight_map = self._weight_map(name)
                shards = {shard: self.header(shard) for shard in self.weight_files(name)}
                self._headers[name] = merge_headers(self._place(_index(name)), weight_map, shards)
        return self._headers[name]

    def weight_files(self, name: str) -> tuple[str, ...]:
        """Return the files that the weights ``name`` are in: that file, or the shards of its index.

        Raises:
            CheckpointError: neither is there, or not all the shards.

        """
        if name in self.sizes:
            return (name,)
        return tuple(sorted(set(self._weight_map(name).values())))

    def fetch(self, name: str) -> None:
        """Download the weights ``name`` where they are still on the hub.

        ``located.directory`` then holds all that loading reads.

        Raises:
            CheckpointError: they cannot be fetched, or there is no room for them.

        """
        if self.on_hub:
            fetch_weights(self.model, self.located.revision, self.weight_files(name))

    def _read_header(self, name: str) -> Header:
        path = self.located.directory / name
        # What is in the hub's cache already need not be asked for again.
        if self.on_hub and not path.is_file():
            return hub.read_header(self.model, name, self.located.revision, self.sizes[name])
        return read_header(path)

    def _weight_map(self, name: str) -> Mapping[str, str]:
        if _index(name) not in self.sizes:
            raise self._no_weights(name)
        return read_index(self.located.directory / _index(name), self.sizes)

    def _place(self, name: str) -> str:
        return f'{self.model}: {name}' if self.on_hub else str(self.located.directory / name)

    def _no_weights(self, name: str) -> CheckpointError:
        there = ', '.join(sorted(self.sizes)[:_LISTED]) or 'nothing'
        return CheckpointError(
            f'{self.model if self.on_hub else self.located.directory} holds no weights',
            expected=f'a file {name} (there is: {there})',
            remedy=f'{self._whole()}; random weights are never served',
        )

    def _whole(self) -> str:
        if self.located.revision and not self.on_hub:
            return (
                'only a part of it was downloaded so far: start once with a network and without '
                f'HF_HUB_OFFLINE, or `hf download {self.model} --revision {self.located.revision}`'
            )
        return 'copy or download the whole checkpoint'


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

    Where the hub does not answer, or must not be asked, it is what was downloaded before.

    Args:
        model: directory, or hub id where no such directory exists.
        revision: branch, tag or commit of the hub; None = its main branch. Ignored for a directory.

    Raises:
        CheckpointError: neither a directory nor a hub id, or the hub cannot be asked.

    """
    directory = checkpoint_files.find_directory(model)
    if directory is not None:
        return view_directory(model, Located(directory))
    if hub.offline():
        cached = _view_cached(model, revision)
        if cached is None:
            raise _not_cached(model, revision)
        return cached
    try:
        listing = hub.list_files(model, revision)
    except hub.HubUnreachable as error:
        cached = _view_cached(model, revision)
        if cached is None:
            raise
        logger.warning(
            '%s; what was downloaded before is served: commit %s',
            error.what,
            cached.located.revision,
        )
        return cached
    folder = hub.fetch_small(model, listing, revision, SMALL_FILES)
    return CheckpointView(model, Located(folder, listing.commit), listing.sizes, on_hub=True)


def tell_commit(view: CheckpointView, revision: str | None) -> None:
    """Tell in the log which commit a revision of the hub is, where it may be another tomorrow."""
    if view.located.revision not in ('', revision):
        logger.warning(
            '%s: revision %s is commit %s today; pass that commit as revision to pin it',
            view.model,
            revision or 'main',
            view.located.revision,
        )


def _view_cached(model: str, revision: str | None) -> CheckpointView | None:
    found = hub.cached_folder(model, revision, SMALL_FILES)
    if found is None:
        return None
    view = view_directory(model, Located(*found))
    if not hub.has_all_small(model, view.located.revision):
        _refuse_half(view)
    return view


def _refuse_half(view: CheckpointView) -> None:
    """Refuse what another program left in the cache without what belongs around the network.

    That program may have fetched config.json and the weights alone: served so, a fine-tune answers
    in other units.
    """
    if not any(name.startswith(_AROUND) for name in view.sizes):
        commit = view.located.revision
        raise CheckpointError(
            f"{view.model}: the hub's cache holds commit {commit} without "
            'policy_preprocessor.json, assets/ and experiment_cfg/, and whether it has any cannot '
            'be asked now',
            expected='all its small files',
            remedy='start once with a network and without HF_HUB_OFFLINE, or '
            f'`hf download {view.model} --revision {commit} --local-dir …` and pass that directory',
        )


def _not_cached(model: str, revision: str | None) -> CheckpointError:
    return CheckpointError(
        f'{model!r} is no directory here, HF_HUB_OFFLINE is set, and nothing of it was downloaded '
        f'at revision {revision or "main"!r}',
        expected="an existing directory, or a hub repository that lies in this machine's cache",
        remedy='unset HF_HUB_OFFLINE once to download it, or pass a directory',
    )


def _index(name: str) -> str:
    return f'{name}.index.json'
