# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether the model can be had, and what it needs: memory on its device, room for a download."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from openpi_policy_ros.client.address import parse_address
from openpi_policy_ros.doctor.asked import Asked
from openpi_policy_ros.doctor.findings import Finding, fail, gigabytes, ok, skipped, warn
from openpi_policy_ros.errors import ConfigurationError, PolicyRosError
from openpi_policy_ros.policies import hub
from openpi_policy_ros.policies.checkpoint_files import find_directory
from openpi_policy_ros.policies.inspection import Inspection, inspect_model
from openpi_policy_ros.policies.loading import needs_model

CHECK = 'model'
_BYTES = {'float32': 4, 'bfloat16': 2}
_PATIENCE = 3.0
"""Seconds that another server gets to answer."""
_WEIGHTS = ('.safetensors', '.pt', '.bin')


@dataclass(frozen=True)
class ModelFacts:
    """What is known of the model.

    Attributes:
        findings: what is to be said of it.
        weights: bytes that its weights take once loaded; None = unknown, 0 = they are elsewhere.
        missing: bytes to be downloaded; None = unknown.

    """

    findings: tuple[Finding, ...]
    weights: int | None = None
    missing: int | None = None


def look(asked: Asked) -> ModelFacts:
    """Look for the model; nothing of it is loaded, or written to the hub's cache."""
    if not asked.model:
        return _look_without_model(asked.policy)
    if '://' in asked.model:
        return ModelFacts((_look_at_server(asked.model),), 0, 0)
    try:
        if find_directory(asked.model) is None:
            return _look_at_hub(asked.model, asked.revision)
        inspection = inspect_model(
            asked.model, policy=asked.policy, robot=_robot(asked), revision=asked.revision
        )
    except PolicyRosError as error:
        return ModelFacts((refused(error),))
    return judge_folder(asked.model, inspection)


def _look_without_model(policy: str | None) -> ModelFacts:
    try:
        if needs_model(policy):
            return ModelFacts((skipped(CHECK, 'no --model was named'),))
    except ConfigurationError as error:
        return ModelFacts((fail(CHECK, '; '.join(error.problems), 'correct --policy'),))
    return ModelFacts((ok(CHECK, f'policy {policy} needs none'),), 0, 0)


def judge_folder(model: str, inspection: Inspection) -> ModelFacts:
    """Judge a checkpoint on this machine."""
    report = inspection.report
    stored = sum(file.size for file in inspection.weights)
    need = stored
    if report is not None and report.served_parameters is not None:
        need = report.served_parameters * _BYTES.get(report.dtype, 4)
    if inspection.errors:
        findings = [refused(error) for error in inspection.errors]
    else:
        text = f'{model} would be served: {inspection.layout.name}, {gigabytes(need)} of weights'
        findings = [ok(CHECK, text)]
    findings += [
        warn(CHECK, text, 'see what it says before the robot is enabled')
        for text in inspection.warnings
    ]
    return ModelFacts(tuple(findings), need, 0)


def refused(error: PolicyRosError) -> Finding:
    """Return an error of ours as a finding."""
    found = f'{error.what}; expected {error.expected}' if error.expected else error.what
    return fail(CHECK, found, error.remedy or '`openpi-policy inspect` says more')


def judge_hub(
    repository: str, listing: hub.Listing | PolicyRosError, cached: str | None, *, offline: bool
) -> ModelFacts:
    """Judge a model of the hub.

    Args:
        repository: its id.
        listing: its files, or why the hub does not tell.
        cached: commit that was downloaded before, weights and all; None = none.
        offline: whether the hub must not be asked.

    """
    if isinstance(listing, PolicyRosError):
        if cached is None:
            return ModelFacts((refused(listing),))
        why = 'HF_HUB_OFFLINE is set' if offline else listing.what
        text = f'{repository}: commit {cached} is in the cache and is served ({why})'
        if offline:
            return ModelFacts((ok(CHECK, text),), None, 0)
        return ModelFacts((warn(CHECK, text, listing.remedy),), None, 0)
    size = sum(size for name, size in listing.sizes.items() if name.endswith(_WEIGHTS))
    if not size:
        remedy = 'check the spelling: a checkpoint has files *.safetensors'
        return ModelFacts((fail(CHECK, f'{repository} holds no weights', remedy),))
    missing = 0 if cached == listing.commit else size
    there = 'downloaded already' if not missing else f'{gigabytes(size)} to be downloaded'
    text = f'{repository} may be read: commit {listing.commit}, {there}'
    return ModelFacts((ok(CHECK, text),), size, missing)


def _look_at_hub(repository: str, revision: str | None) -> ModelFacts:
    offline = hub.offline()
    cached = _cached_commit(repository, revision)
    listing: hub.Listing | PolicyRosError
    try:
        # The hub's client refuses by itself where it must not ask.
        listing = hub.list_files(repository, revision)
    except PolicyRosError as error:
        listing = error
    return judge_hub(repository, listing, cached, offline=offline)


def _cached_commit(repository: str, revision: str | None) -> str | None:
    """Return the commit in the hub's cache whose weights are there too."""
    try:
        cached = hub.cached_folder(repository, revision, ['*'])
    except PolicyRosError:
        return None
    if cached is None:
        return None
    folder, commit = cached
    return commit if _has_weights(folder) else None


def _has_weights(folder: Path) -> bool:
    return any(path.suffix in _WEIGHTS for path in folder.iterdir())


def _look_at_server(address: str) -> Finding:
    try:
        parsed = parse_address(address)
    except ConfigurationError as error:
        return fail(CHECK, '; '.join(error.problems), 'write ws://host:port/path')
    try:
        socket.create_connection((parsed.host, parsed.port), _PATIENCE).close()
    except OSError as error:
        return fail(
            CHECK,
            f'{address} does not answer: {error}',
            'start that server, check the address, or let its firewall pass this machine',
        )
    return ok(CHECK, f'{address} takes connections; `openpi-policy client --url` asks it more')


def _robot(asked: Asked) -> str | None:
    # One that is wrong has been told of.
    return asked.robot_name if asked.robot is not None else None
