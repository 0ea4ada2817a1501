# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Run recorded observations through a policy again, in their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from openpi_policy_ros.engine import Engine, Lane
from openpi_policy_ros.errors import PolicyRosError
from openpi_policy_ros.policies.base import PolicySpec, SessionKey
from openpi_policy_ros.recording.compare import Comparison, Matching
from openpi_policy_ros.recording.reader import Recorded, Recording
from openpi_policy_ros.recording.units import action_units


def replay(recording: Recording, engine: Engine) -> Comparison:
    """Return how the policy's answers differ from the recorded ones.

    Sessions, resets, seeds, sampler steps and the rest of the previous chunk are as they were.

    Args:
        recording: one session.
        engine: started; nobody else uses it.

    Raises:
        PolicyRosError: the chunks have nothing in common, or an observation is not whole.
        EngineStopped: the policy's worker died.

    """
    spec = engine.spec
    matching = Matching(recording.action_names, spec.action_names, recording.name)
    length = int(recording.header['policy']['horizon'])
    rows = min(length, spec.horizon)
    result = Comparison(
        recording.name,
        matching.names,
        rows,
        units=action_units(recording.header),
        notes=matching.notes,
    )
    if length != spec.horizon:
        result.notes.append(
            f'recorded chunks have {length} steps, the policy makes {spec.horizon}: the first '
            f'{rows} are compared'
        )
    key, continued = None, 0
    for one in _counted(recording.inferences(), result):
        key = one.request.session
        if one.actions is None:
            result.skipped += 1
            continue
        result.unseeded += one.request.seed is None
        continued += one.request.rtc is not None
        request = one.request if spec.supports_rtc else replace(one.request, rtc=None)
        try:
            chunk = engine.submit(request, Lane.REMOTE).result()
        except PolicyRosError as error:
            result.failed[one.number] = str(error)
            continue
        recorded, replayed = matching.pair(one.actions, chunk.actions, rows)
        result.numbers.append(one.number)
        result.times_ns.append(one.observed_ns)
        result.recorded.append(recorded)
        result.replayed.append(replayed)
    _free(engine, key)
    if continued and not spec.supports_rtc:
        result.notes.append(
            f'{continued} chunks continued the last one (real-time chunking), which this policy '
            'cannot: they were made afresh'
        )
    _note(result, spec)
    return result


def _free(engine: Engine, key: SessionKey | None) -> None:
    if key is not None:
        engine.close_session(key)


def _counted(all_: Iterable[Recorded], result: Comparison) -> Iterator[Recorded]:
    expected = 1
    for one in all_:
        result.missing += one.number - expected
        expected = one.number + 1
        yield one


def _note(result: Comparison, spec: PolicySpec) -> None:
    if result.unseeded and spec.default_seed is None:
        result.notes.append(
            f'{result.unseeded} requests had no seed: a policy that draws noise answers them '
            'differently each time'
        )
    if result.missing and spec.stateful:
        result.notes.append(
            f'{result.missing} inferences are missing: the policy has a memory, so that all later '
            'answers differ'
        )
