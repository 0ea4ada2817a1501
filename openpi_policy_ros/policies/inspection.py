# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Look at a checkpoint without loading it: what it is, and all that loading would refuse."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.errors import CheckpointError, PolicyRosError
from openpi_policy_ros.policies import checkpoint_files, layouts
from openpi_policy_ros.policies.checkpoint_view import CheckpointView, view_model
from openpi_policy_ros.policies.layouts import Layout
from openpi_policy_ros.policies.loading import choose_policy
from openpi_policy_ros.policies.problems import Problems
from openpi_policy_ros.policies.report import PolicyReport

_WEIGHTS = re.compile(r'(?:model|adapter_model|diffusion_pytorch_model)[\w.-]*\.safetensors')


@dataclass(frozen=True)
class WeightFile:
    """One file of weights.

    Attributes:
        name: inside the checkpoint.
        size: bytes.
        tensors: number of them; None = its header cannot be read.
        parameters: stored type, e.g. ``F32`` → number of values.

    """

    name: str
    size: int
    tensors: int | None
    parameters: Mapping[str, int]


@dataclass(frozen=True)
class Inspection:
    """What a checkpoint is.

    Attributes:
        view: its files.
        layout: its kind.
        model_type: ``type`` (DreamZero: ``model_type``) in config.json, '' where there is none.
        declared: feature → shape, as config.json declares them.
        weights: files of weights.
        report: what the policy that serves it says; None = nobody does.
        errors: everything loading would refuse.
        unchecked: what could not be looked at because of them.
        warnings: what loading would warn about.

    """

    view: CheckpointView
    layout: Layout
    model_type: str
    declared: Mapping[str, list[int]]
    weights: tuple[WeightFile, ...]
    report: PolicyReport | None
    errors: tuple[PolicyRosError, ...]
    unchecked: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def served(self) -> bool:
        """Return whether loading would go as far as reading the weights."""
        return self.report is not None and not self.errors


def inspect_model(
    model: str,
    *,
    policy: str | None = None,
    robot: str | None = None,
    revision: str | None = None,
) -> Inspection:
    """Return what ``model`` is and whether it would be served.

    A directory never touches the network; of a hub repository small files and headers are fetched.

    Args:
        model: directory, or hub id where no such directory exists.
        policy: policy file; None = everything is derived from the checkpoint.
        robot: robot file; None = the model's own names.
        revision: hub revision; ignored for a directory.

    Raises:
        CheckpointError: there is nothing to look at: no directory, no such hub repository.

    """
    if '://' in model:
        raise CheckpointError(
            f'{model} is the address of a server',
            expected='a checkpoint: a directory or a hub id',
            remedy='`openpi-policy client --url …` tells what a server serves',
        )
    view = view_model(model, revision)
    problems = Problems()
    layout, report = layouts.UNKNOWN, None
    with _warnings() as warnings:
        with problems.collecting():
            layout = layouts.identify(view)
        if layout.remedy:
            problems.add(layout.refusal(model))
        else:
            with problems.collecting():
                report = _report(view, policy, robot, problems)
        weights = tuple(_weights(view, problems))
    config = _config(view)
    return Inspection(
        view,
        layout,
        model_type=str(config.get('type') or config.get('model_type') or ''),
        declared=_declared(config),
        weights=weights,
        report=report,
        errors=tuple(problems.errors),
        unchecked=tuple(problems.unchecked),
        warnings=tuple(warnings),
    )


def _report(
    view: CheckpointView, policy: str | None, robot: str | None, problems: Problems
) -> PolicyReport | None:
    profile = None
    if robot is not None:
        with problems.collecting():
            profile = load_robot(robot).profile
        if profile is None:
            problems.unchecked.append('robot')
    revision = view.located.revision or None
    plugin, request = choose_policy(view.model, policy=policy, profile=profile, revision=revision)
    if plugin.inspect is None:
        raise CheckpointError(
            f'{view.model}: the policy that serves it cannot be asked before it is loaded',
            remedy='load it (openpi-policy check, openpi-policy serve), or ask a server with '
            'openpi-policy client',
        )
    report = plugin.inspect(request, view)
    for error in report.problems.errors:
        problems.add(error)
    problems.unchecked += report.problems.unchecked
    return report


def _weights(view: CheckpointView, problems: Problems) -> Iterator[WeightFile]:
    for name, size in sorted(view.sizes.items()):
        # Processors keep their statistics in files of the same format.
        if not _WEIGHTS.fullmatch(name):
            continue
        count, parameters = None, Counter[str]()
        with problems.collecting():
            header = view.header(name)
            count = len(header)
            for info in header.values():
                parameters[info.dtype] += info.values
        yield WeightFile(name, size, count, dict(parameters))


def _config(view: CheckpointView) -> Mapping[str, Any]:
    """Return config.json, {} where it cannot be read: that has been told by then."""
    try:
        return checkpoint_files.read_json(view.located.directory / layouts.CONFIG)
    except CheckpointError:
        return {}


def _declared(config: Mapping[str, Any]) -> dict[str, list[int]]:
    declared = {}
    for group in ('input_features', 'output_features'):
        features = config.get(group)
        for name, feature in features.items() if isinstance(features, dict) else ():
            shape = feature.get('shape') if isinstance(feature, dict) else None
            if isinstance(shape, list):
                declared[str(name)] = shape
    return declared


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Collect what the policies log as warnings, instead of scattering it over stderr."""
    found: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    logger = logging.getLogger('openpi_policy_ros.policies')
    handler = Collector(logging.WARNING)
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield found
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
