# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Load a checkpoint in a process of its own and print what that took, as JSON.

Run as a script: ``measure_loading.py DIRECTORY CONFIG``, CONFIG a pickled ``Pi0Config`` or
``DreamZeroConfig``.
"""

from __future__ import annotations

import base64
import json
import pickle
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from openpi_policy_ros.policies.dreamzero.config import DreamZeroConfig
from openpi_policy_ros.policies.pi0.checkpoint import load_weights

STATUS = Path('/proc/self/status')


def anonymous() -> int:
    """Return the bytes of this process's memory that no file backs."""
    match = re.search(r'^RssAnon:\s+(\d+) kB$', STATUS.read_text(), re.MULTILINE)
    assert match is not None
    return 1024 * int(match[1])


CPU = torch.device('cpu')


def loader(directory: Path, config: Any) -> Callable[[], tuple[list[nn.Module], str]]:
    """Return what loads the weights: networks and digest; its imports are done."""
    if not isinstance(config, DreamZeroConfig):

        def load() -> tuple[list[nn.Module], str]:
            model, digest = load_weights(directory, config, CPU)
            return [model], digest

        return load
    from openpi_policy_ros.policies.dreamzero import checkpoint, networks

    # What importing and building take is no part of the weights.
    networks.build(config)

    def load_dreamzero() -> tuple[list[nn.Module], str]:
        dit, encoders, digest = checkpoint.load_weights(
            directory, config, CPU, getattr(torch, config.dtype)
        )
        return [dit, encoders._text, encoders._clip, encoders._vae], digest

    return load_dreamzero


def main(directory: str, config: str) -> None:
    torch.set_num_threads(1)
    load = loader(Path(directory), pickle.loads(base64.b64decode(config)))
    # What the first use of torch's kernels and of threads takes is no part of the weights.
    torch.zeros(1 << 10).copy_(torch.zeros(1 << 10, dtype=torch.bfloat16))
    done = threading.Event()
    baseline = peak = anonymous()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.002):
            peak = max(peak, anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    networks, digest = load()
    seconds = time.perf_counter() - began
    done.set()
    watcher.join()
    peak = max(peak, anonymous())
    kept = sum(parameter.nbytes for network in networks for parameter in network.parameters())
    said = {'kept': kept, 'growth': peak - baseline, 'seconds': seconds, 'digest': digest}
    print(json.dumps(said))


if __name__ == '__main__':
    main(*sys.argv[1:])
