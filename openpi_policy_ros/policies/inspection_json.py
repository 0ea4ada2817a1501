# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""An inspection as plain values, for programs; the keys are documented in docs/inspect.md."""

from __future__ import annotations

from typing import Any

from openpi_policy_ros.policies.inspection import Inspection
from openpi_policy_ros.policies.report import PolicyReport


def as_json(inspection: Inspection) -> dict[str, Any]:
    """Return what json.dumps takes; what is not known is null or left out."""
    view = inspection.view
    return {
        'model': view.model,
        'revision': view.located.revision,
        'directory': str(view.located.directory),
        'layout': inspection.layout.name,
        'type': inspection.model_type,
        'served': inspection.served,
        'errors': [
            {'what': error.what, 'expected': error.expected, 'remedy': error.remedy}
            for error in inspection.errors
        ],
        'unchecked': list(inspection.unchecked),
        'warnings': list(inspection.warnings),
        'files': dict(sorted(view.sizes.items())),
        'weights': [
            {
                'file': file.name,
                'bytes': file.size,
                'tensors': file.tensors,
                'parameters': dict(file.parameters),
            }
            for file in inspection.weights
        ],
        'declared': dict(inspection.declared),
        'policy': _policy(inspection.report) if inspection.report is not None else None,
    }


def _policy(report: PolicyReport) -> dict[str, Any]:
    values: dict[str, Any] = {
        'dtype': report.dtype,
        'steps': report.steps,
        'served_parameters': report.served_parameters,
        'image_resolution': report.image_resolution,
        'camera_slots': report.camera_slots,
        'normalisation': report.normalisation,
        'statistics': list(report.statistics),
        'processors': report.processors,
        'state_exact': report.state_exact,
        'delta_mask': list(report.delta_mask),
        'prompt_text': report.prompt_text,
        'antialias': report.antialias,
        'tokenizer': report.tokenizer,
        'max_tokens': report.max_tokens,
        'chunk': report.chunk,
        'facts': dict(report.facts),
    }
    features, spec = report.features, report.spec
    if features is not None:
        values |= {
            'cameras': [
                {
                    'feature': camera.feature,
                    'keys': list(camera.wire_keys),
                    'required': camera.required,
                }
                for camera in features.cameras
            ],
            'layout': features.layout,
            'colour_order': features.colour_order,
            'state': {'parts': [list(keys) for keys in features.state_parts]}
            | {'max_dim': features.state_dim},
            'prompt': {'key': features.prompt_key, 'default': features.default_prompt},
        }
    if spec is not None:
        values |= {
            'name': spec.name,
            'actions': {
                'rows': spec.horizon,
                'columns': spec.action_dim,
                'space': spec.action_space,
                'names': list(spec.action_names),
            },
            'handshake': spec.handshake,
        }
    return values
