# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The process that runs the unconditional branch of the guidance: rank 1 of ``TwoDevices``.

It does what it is told until it is told to stop, its parent is gone, or a message makes no sense.
It holds the diffusion transformer alone, and keys and values of one branch of every session.
"""

from __future__ import annotations

import os
import socket
import sys
import traceback
from pathlib import Path

import torch
from torch import Tensor

from openpi_policy_ros.policies.dreamzero.config import DitConfig
from openpi_policy_ros.policies.dreamzero.dit import CausalWan
from openpi_policy_ros.policies.dreamzero.guidance import Branches
from openpi_policy_ros.policies.dreamzero.guidance_link import Link, LinkLost, Message
from openpi_policy_ros.policies.dreamzero.guidance_start import leave

FAILED = 1
"""Exit code of a worker that met an error which it cannot answer with; its traceback is above."""


def serve(end: int, store: Path, timeout: float) -> None:
    """Serve the parent; does not return.

    Args:
        end: file descriptor of the socket to it.
        store: see ``Link``.
        timeout: likewise, seconds.

    """
    link = Link(socket.socket(fileno=end), 1, store, timeout)
    try:
        worker = set_up(link)
        if worker is not None:
            worker.serve()
    except LinkLost:
        # The parent is gone, or has given up on this process and says why itself.
        leave(store)
    except BaseException:
        # Whatever a device or a bug may do: the parent tells that this process died of it.
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(FAILED)
    os._exit(0)


def set_up(link: Link) -> Worker | None:
    """Make the transformer and receive its weights; None = could not, and said so."""
    # What takes longest, importing torch, is behind us.
    link.say({'rank': 1})
    orders = link.hear(None)
    link.connect()
    torch.set_num_threads(orders['threads'])
    torch.set_float32_matmul_precision(orders['matmul'])
    dtype = getattr(torch, orders['dtype'])
    try:
        dit = make_dit(DitConfig(**orders['config']), torch.device(orders['device']), dtype)
        link.say({'ready': True})
    except (RuntimeError, AssertionError) as error:
        # The latter: torch without CUDA.
        link.say({'error': str(error)})
        return None
    for _, parameter in sorted(dit.named_parameters()):
        received = torch.empty(parameter.shape, dtype=dtype)
        link.receive_into(received)
        parameter.copy_(received)
    link.say({'ready': True})
    return Worker(link, dit)


def make_dit(config: DitConfig, device: torch.device, dtype: torch.dtype) -> CausalWan:
    """Return a transformer with memory for its weights and no values in it."""
    with torch.device('meta'):
        dit = CausalWan(config)
    return dit.to(dtype).to_empty(device=device).requires_grad_(False).eval()


class Worker:
    """Answers the parent's messages, one by one.

    Args:
        link: to the parent.
        dit: with its weights.

    """

    def __init__(self, link: Link, dit: CausalWan) -> None:
        self._link, self._dit = link, dit
        self._sessions: dict[int, Branches] = {}

    def serve(self) -> None:
        """Answer until told to stop.

        Only what leaves this process as it was is an answer: no memory, a wrong input.

        Raises:
            LinkLost: the parent is gone.

        """
        while True:
            message = self._link.hear(None)
            if message['do'] == 'stop':
                return
            tensors = self._link.receive(message['shapes'], self._dit.dtype)
            try:
                answer = self._do(message, tensors)
            except torch.OutOfMemoryError as error:
                self._link.say({'error': str(error), 'memory': True})
            except ValueError as error:
                self._link.say({'error': str(error)})
            else:
                shapes = [list(tensor.shape) for tensor in answer]
                self._link.say({'shapes': shapes})
                self._link.send(answer).finish()

    @torch.inference_mode()
    def _do(self, message: Message, tensors: list[Tensor]) -> list[Tensor]:
        """Do what a message says; return what goes back."""
        handle: int = message['handle']
        numbers: dict[str, int] = message['numbers']
        if message['do'] == 'open':
            self._sessions[handle] = Branches(self._dit, 1)
        elif message['do'] == 'close':
            self._sessions.pop(handle, None)
        elif message['do'] == 'begin':
            text, clip = tensors
            self._sessions[handle].begin(text, clip)
        elif message['do'] == 'prefill':
            x, y = tensors
            self._sessions[handle].prefill(x, y, **numbers)
        elif message['do'] == 'denoise':
            x, y, action, state = tensors
            return [self._sessions[handle].denoise(x, y, action, state, **numbers)[0]]
        else:
            raise ValueError(f'no such thing to do: {message["do"]!r}')
        return []
