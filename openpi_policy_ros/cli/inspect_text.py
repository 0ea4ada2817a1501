# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""An inspection for people."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator

from openpi_policy_ros.errors import PolicyRosError
from openpi_policy_ros.policies.inspection import Inspection, WeightFile
from openpi_policy_ros.policies.report import PolicyReport

_INDENT = 15
_WIDTH = 100
_NO_HANDSHAKE = 'none declared: OpenPI clients are answered "unsupported"'
_BYTES = {'float32': 4, 'bfloat16': 2}


def as_text(inspection: Inspection) -> str:
    """Return lines of at most 100 columns, paths and messages excepted."""
    view = inspection.view
    head = f'{view.model}: {inspection.layout.title}'
    if inspection.model_type:
        head += f', type {inspection.model_type}'
    lines = [head]
    if view.located.revision:
        lines += _row('revision', view.located.revision)
    total = sum(view.sizes.values())
    lines += _row('files', f'{len(view.sizes)}, {_bytes(total)} in all')
    for file in inspection.weights:
        lines += _row('weights', _weights(file))
    report = inspection.report
    if report is not None:
        lines += _report(report)
    if report is None or report.features is None:
        for feature, shape in inspection.declared.items():
            lines += _row('declares', f'{feature} {shape}')
    lines += _verdict(inspection)
    return '\n'.join(lines)


def _bytes(count: int) -> str:
    return _rounded(count, ((1e9, ' GB'), (1e6, ' MB'), (1e3, ' kB')), ' B')


def _parameters(count: int) -> str:
    return _rounded(count, ((1e9, ' billion'), (1e6, ' million')), '')


def _rounded(count: int, units: Iterable[tuple[float, str]], last: str) -> str:
    for size, unit in units:
        if count >= size:
            return f'{count / size:.3g}{unit}'
    return f'{count}{last}'


def _weights(file: WeightFile) -> str:
    if file.tensors is None:
        return f'{file.name}: {_bytes(file.size)}, its header cannot be read'
    kinds = ' and '.join(
        f'{_parameters(count)} parameters in {kind}' for kind, count in file.parameters.items()
    )
    return f'{file.name}: {_bytes(file.size)}, {file.tensors} tensors, {kinds}'


def _report(report: PolicyReport) -> Iterator[str]:
    if report.served_parameters is not None:
        memory = report.served_parameters * _BYTES[report.dtype]
        yield from _row(
            'served',
            f'{_parameters(report.served_parameters)} of the parameters, in {report.dtype} '
            f'({_bytes(memory)}); {report.steps} sampler steps',
        )
    features, spec = report.features, report.spec
    if features is not None:
        width = max(len(camera.feature) for camera in features.cameras)
        for index, camera in enumerate(features.cameras):
            need = 'required' if camera.required else 'optional'
            text = f'{need}  {camera.feature}'
            keys = ' or '.join(camera.wire_keys) or 'nothing: masked'
            if keys != camera.feature:
                text = f'{need}  {camera.feature:{width}} <- {keys}'
            yield from _row('' if index else 'cameras', text)
        height_width = 'x'.join(map(str, report.image_resolution or ()))
        order = '[height, width, 3]' if features.layout == 'HWC' else '[3, height, width]'
        if features.time_axis:
            order += ', also with an axis of frames in front'
        yield from _row(
            'images',
            f'uint8 or float 0..1, {order}, {features.colour_order}; resized to {height_width}'
            + (' with antialiasing' if report.antialias else ''),
        )
        parts = ', '.join(' or '.join(keys) for keys in features.state_parts)
        if report.state_exact is not None:
            most = 'exactly' if report.state_exact else 'at most'
            parts = f'{parts}: {most} {features.state_dim} values'
        yield from _row('state', parts)
        default = f', else "{features.default_prompt}"' if features.default_prompt else ''
        yield from _row(
            'prompt', f'{features.prompt_key}{default}: at most {report.max_tokens} tokens'
        )
        if report.prompt_text:
            yield from _row('text', report.prompt_text)
    if spec is not None:
        space = f', {spec.action_space}' if spec.action_space else ''
        cut = ''
        if report.chunk is not None and report.chunk != (spec.horizon, spec.action_dim):
            cut = f', cut from {report.chunk[0]} x {report.chunk[1]}'
        yield from _row('actions', f'{spec.horizon} rows x {spec.action_dim} columns{cut}{space}')
    if report.delta_mask:
        columns = [str(column) for column, delta in enumerate(report.delta_mask) if delta]
        yield from _row('', f'differences from the state in columns {", ".join(columns)}')
    if report.normalisation is not None:
        modes = ', '.join(f'{kind} {mode}' for kind, mode in report.normalisation.items())
        statistics = f' ({", ".join(report.statistics)})' if report.statistics and modes else ''
        yield from _row('normalisation', (modes or 'none') + statistics)
    if report.processors is not None:
        yield from _row('processors', ', '.join(report.processors) or 'no files')
    for name, fact in report.facts.items():
        yield from _row(name, fact)
    if report.tokenizer:
        yield from _row('tokenizer', report.tokenizer)
    if spec is not None:
        sent = _NO_HANDSHAKE if spec.handshake is None else json.dumps(spec.handshake)
        yield from _row('handshake', sent)


def _verdict(inspection: Inspection) -> Iterator[str]:
    for warning in inspection.warnings:
        yield from _row('warning', warning)
    yield ''
    errors = inspection.errors
    if not errors:
        yield 'It would be served.'
        return
    yield f'It would be refused: {len(errors)} problem{"s" if len(errors) > 1 else ""}.'
    for number, error in enumerate(errors, 1):
        yield from _numbered(number, error)
    if inspection.unchecked:
        yield f'Not checked because of that: {", ".join(dict.fromkeys(inspection.unchecked))}.'


def _numbered(number: int, error: PolicyRosError) -> Iterator[str]:
    parts = [error.what]
    if error.expected:
        parts.append(f'expected: {error.expected}')
    if error.remedy:
        parts.append(f'what to do: {error.remedy}')
    label = f'{number:3}. '
    for part in parts:
        yield from _wrapped(label, part.splitlines())
        label = ' ' * len(label)


def _row(name: str, text: str) -> Iterator[str]:
    yield from _wrapped(f'  {name:{_INDENT - 2}} ', text.splitlines())


def _wrapped(label: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        wrapped = textwrap.wrap(
            line, _WIDTH - len(label), break_long_words=False, break_on_hyphens=False
        )
        for piece in wrapped:
            yield label + piece
            label = ' ' * len(label)
