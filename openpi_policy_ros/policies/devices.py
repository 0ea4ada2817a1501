# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Find the device a policy is to run on."""

from __future__ import annotations

import torch

from openpi_policy_ros.errors import ConfigurationError


def find_device(name: str) -> torch.device:
    """Return the torch device called ``name``, known to be usable.

    Raises:
        ConfigurationError: neither cpu, cuda nor cuda:N, or this machine has no such device.

    """
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device('meta')
    if device.type == 'cpu':
        return device
    if device.type != 'cuda':
        raise ConfigurationError('device', [f'{name!r} is not known; expected cpu, cuda or cuda:N'])
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if (device.index or 0) >= count:
        raise ConfigurationError(
            'device',
            [
                f'{name!r} is not there: torch {torch.__version__} sees {count} CUDA devices; '
                'install a torch build with CUDA and its driver, or use device cpu'
            ],
        )
    return device
