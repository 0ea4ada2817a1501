# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Find a policy by name: an entry-point group, so that another package can add one.

A package adds a policy with

    [options.entry_points]
    openpi_policy_ros.policies =
        my_policy = my_package.my_policy:PLUGIN

where ``PLUGIN`` is a ``PolicyPlugin``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from openpi_policy_ros.configuration.robot import Profile, RobotConfig
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.base import Policy

if TYPE_CHECKING:
    from openpi_policy_ros.policies.checkpoint_view import CheckpointView
    from openpi_policy_ros.policies.report import PolicyReport

GROUP = 'openpi_policy_ros.policies'


@dataclass(frozen=True)
class LoadRequest:
    """Everything a plugin needs to load a policy.

    Attributes:
        model: directory, or hub id where no such directory exists.
        device: torch device, e.g. ``cpu``, ``cuda:0``.
        options: the policy file's keys without ``policy``; None = no policy file was given, so
            everything (the handshake too) is derived from the checkpoint.
        options_source: path of that file, for messages.
        profile: the robot's conventions, from the robot file; None = the model's own names.
        revision: hub revision; ignored for a directory.
        robot: the whole robot file, for a policy that is about the robot itself; None = unknown.

    """

    model: str
    device: str = 'cpu'
    options: Mapping[str, Any] | None = None
    options_source: str = ''
    profile: Profile | None = None
    revision: str | None = None
    robot: RobotConfig | None = None


@dataclass(frozen=True)
class CheckpointOptions:
    """What the files of a made checkpoint are to look like; None = the policy's own default.

    Attributes:
        layout: whose files, e.g. ``lerobot``, ``openpi``.
        normalization: of state and actions, e.g. ``mean_std``.
        relative: whether the actions are differences from the state.
        shards: number of weight files.
        state_dim, action_dim: numbers of a state, columns of a chunk.
        dtype: of the weights.
        cameras: short names of the camera features, in order; () = the policy's own.

    """

    layout: str | None = None
    normalization: str | None = None
    relative: bool = False
    shards: int | None = None
    state_dim: int | None = None
    action_dim: int | None = None
    dtype: str | None = None
    cameras: tuple[str, ...] = ()


class CheckpointMaker(Protocol):
    """Writes a small seeded checkpoint into an empty directory."""

    def __call__(
        self, directory: Path, size: str, seed: int, options: CheckpointOptions | None = None
    ) -> None:
        """Write it; raises ``ConfigurationError`` for what it cannot write, with the reason."""


@dataclass(frozen=True)
class PolicyPlugin:
    """One registry entry.

    Attributes:
        load: loads the weights and returns a policy that still has to be warmed up; raises
            ``CheckpointError`` or ``ConfigurationError``.
        model_types: values of ``type`` in a checkpoint's config.json that this entry serves, so
            that ``--model`` alone finds it.
        make_checkpoint: writes a small seeded checkpoint; None = cannot.
        checkpoint_sizes: sizes ``make_checkpoint`` knows, the default first.
        option_names: keys of its policy file, so that the others of a whole deploy file can be
            ignored; None = all are passed on.

        inspect: tells what ``load`` would make of a checkpoint, all it would refuse at once,
            without reading its weights; None = cannot.
        needs_model: False for a policy that loads nothing, so that ``model`` may be left out.

    """

    load: Callable[[LoadRequest], Policy]
    model_types: tuple[str, ...] = ()
    make_checkpoint: CheckpointMaker | None = None
    checkpoint_sizes: tuple[str, ...] = field(default=())
    option_names: tuple[str, ...] | None = None
    inspect: Callable[[LoadRequest, CheckpointView], PolicyReport] | None = None
    needs_model: bool = True


def names() -> tuple[str, ...]:
    """Return the names of all registered policies, sorted."""
    return tuple(sorted({entry.name for entry in metadata.entry_points(group=GROUP)}))


def find(name: str) -> PolicyPlugin:
    """Return the plugin registered under ``name``.

    Raises:
        ConfigurationError: nothing (or something else) is registered under that name.

    """
    for entry in metadata.entry_points(group=GROUP):
        if entry.name == name:
            plugin = entry.load()
            if not isinstance(plugin, PolicyPlugin):
                raise ConfigurationError(
                    f'policy {name!r}',
                    [f'entry point {entry.value} is a {type(plugin).__name__}, not a PolicyPlugin'],
                )
            return plugin
    known = names()
    close = difflib.get_close_matches(name, known, n=1)
    hint = f', did you mean {close[0]!r}?' if close else ''
    listing = ', '.join(known) or 'none: is the package installed (pip install .)?'
    raise ConfigurationError('policy', [f'{name!r} is not registered{hint} (known: {listing})'])


def find_by_model_type(model_type: str) -> tuple[str, PolicyPlugin] | None:
    """Return (name, plugin) of the entry that serves this checkpoint type, or None."""
    for name in names():
        plugin = find(name)
        if model_type in plugin.model_types:
            return name, plugin
    return None
