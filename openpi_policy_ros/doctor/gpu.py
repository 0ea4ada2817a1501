# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The GPU: whether torch was built for it, and whether the weights fit.

torch is asked in a process of its own: importing it takes seconds, and a broken driver can take
its process along.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openpi_policy_ros.doctor import children
from openpi_policy_ros.doctor.asked import Asked
from openpi_policy_ros.doctor.findings import Finding, fail, gigabytes, ok, skipped, warn
from openpi_policy_ros.doctor.model import ModelFacts

CHECK = 'GPU'
PATIENCE = 12.0
"""Seconds that importing torch may take."""
_ROOM = 1.15
"""Memory of the device per byte of weights: workspace and activations come on top."""
_CUDA = 'install a torch build with CUDA (its web page has the command), or use device cpu'
_JETSON = (
    'on a Jetson, torch of the usual index has no CUDA: install the wheel that NVIDIA builds for '
    'this JetPack'
)


def examine(asked: Asked, facts: ModelFacts) -> list[Finding]:
    """Ask torch and the driver."""
    return judge(
        asked.device,
        children.ask('openpi_policy_ros.doctor.gpu', [], PATIENCE),
        driver=_driver(),
        jetson=_jetson(),
        weights=facts.weights,
    )


def judge(
    device: str, answer: Mapping[str, Any], *, driver: str, jetson: bool, weights: int | None
) -> list[Finding]:
    """Judge what torch says.

    Args:
        device: on which the policy is to run.
        answer: of ``facts``, or its problem.
        driver: version of the NVIDIA driver, '' = none is loaded.
        jetson: whether this is one.
        weights: bytes of weights once loaded; None = unknown.

    """
    if 'problem' in answer:
        remedy = 'see that `python -c "import torch"` works'
        return [children.unanswered(CHECK, 'torch cannot be asked', answer, remedy)]
    build = f'torch {answer["torch"]} for {"CUDA " + answer["cuda"] if answer["cuda"] else "CPUs"}'
    devices = answer['devices']
    if device == 'cpu':
        if devices:
            names = ', '.join(one['name'] for one in devices)
            text = f'{build}; device is cpu, though there is {names}'
            return [warn(CHECK, text, 'pass device:=cuda (or --device cuda): far faster')]
        if driver:
            text = f'{build}; device is cpu, though driver {driver} is loaded'
            return [warn(CHECK, text, _JETSON if jetson else _CUDA)]
        return [skipped(CHECK, f'{build}; the device is cpu and no NVIDIA driver is loaded')]
    index = int(device.partition(':')[2] or 0)
    if not answer['cuda']:
        return [fail(CHECK, f'{build}, but device is {device}', _JETSON if jetson else _CUDA)]
    if index >= len(devices):
        why = answer.get('why') or f'it sees {len(devices)} devices'
        text = f'{build} cannot use {device}: {why}; driver {driver or "not loaded"}'
        remedy = 'install or update the NVIDIA driver; in a container, start it with --gpus all'
        return [fail(CHECK, text, remedy)]
    return [_judge_device(build, driver, devices[index], answer['architectures'], weights)]


def _judge_device(
    build: str,
    driver: str,
    device: Mapping[str, Any],
    architectures: list[str],
    weights: int | None,
) -> Finding:
    free, total = device['free'], device['total']
    text = f'{device["name"]}, {gigabytes(free)} of {gigabytes(total)} free, {build}'
    text += f', driver {driver}' if driver else ''
    major, minor = device['capability']
    # Code of a lower minor runs on a higher one of the same major.
    if not any(_runs_on(name, major, minor) for name in architectures):
        text += f'; it has no code for capability {major}.{minor}'
        return fail(CHECK, text, 'install a torch build that names this architecture')
    if weights is None:
        return ok(CHECK, f'{text}; what the model needs is not known')
    need = int(weights * _ROOM)
    if free < need:
        remedy = (
            'end what else uses it (nvidia-smi), set dtype: bfloat16 in the policy file, or take a '
            'larger one'
        )
        return fail(CHECK, f'{text}, {gigabytes(need)} needed', remedy)
    return ok(CHECK, f'{text}, {gigabytes(need)} needed')


def _runs_on(name: str, major: int, minor: int) -> bool:
    kind, _, number = name.rstrip('af').partition('_')
    if not number.isdigit():
        return False
    built = int(number[:-1]), int(number[-1])
    if kind == 'compute':
        return built <= (major, minor)
    return built[0] == major and built[1] <= minor


def facts() -> dict[str, Any]:
    """Return what torch says of itself and its devices."""
    import torch

    why = ''
    devices = []
    if torch.version.cuda:
        try:
            torch.cuda.init()
            for index in range(torch.cuda.device_count()):
                free, total = torch.cuda.mem_get_info(index)
                devices.append(
                    {
                        'name': torch.cuda.get_device_name(index),
                        'capability': torch.cuda.get_device_capability(index),
                        'free': free,
                        'total': total,
                    }
                )
        # torch raises a RuntimeError or an AssertionError, by what is missing.
        except (RuntimeError, AssertionError) as error:
            why = str(error).splitlines()[0]
    return {
        'torch': torch.__version__,
        'cuda': torch.version.cuda or '',
        'architectures': torch.cuda.get_arch_list() if devices else [],
        'devices': devices,
        'why': why,
    }


def _driver() -> str:
    path = Path('/sys/module/nvidia/version')
    return path.read_text(encoding='ascii').strip() if path.is_file() else ''


def _jetson() -> bool:
    return Path('/etc/nv_tegra_release').is_file()


if __name__ == '__main__':
    json.dump(facts(), sys.stdout)
