# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What two processes that share the guidance say to each other: messages, and tensors beside them.

Messages go over a pair of sockets, whose end tells at once that the other process is gone; tensors
over ``torch.distributed`` (gloo, loopback alone). A step moves less than 1 MB in the published
sizes, so copies through the host's memory do not count; and unlike NCCL, which waits for a lost
peer inside the device's stream, every wait here ends in time.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_HEAD = struct.Struct('>I')
_LONGEST = 1 << 20
_TAG = 0
_CONNECT = 60.0
_CHUNK = 32 << 20
"""Bytes of one transfer at most."""

Message = dict[str, Any]


class LinkLost(Exception):
    """The other process is gone, does not answer in time, or speaks nonsense."""


class Link:
    """One end.

    Args:
        end: of a pair of stream sockets.
        rank: of this process, 0 or 1.
        store: file through which the two find each other; neither exists longer than they do.
        timeout: seconds that a wait for the other process may take.

    """

    def __init__(self, end: socket.socket, rank: int, store: Path, timeout: float) -> None:
        self._end, self._rank, self._store = end, rank, store
        self.timeout = timeout
        self._group: Any = None

    def connect(self) -> None:
        """Open the way for tensors; returns when the other process does the same.

        Raises:
            LinkLost: it does not within a minute.

        """
        import torch.distributed as dist

        gloo: Any = dist.ProcessGroupGloo
        try:
            options = gloo._Options()
            options._devices = [gloo.create_device(hostname='127.0.0.1')]
            options._timeout = timedelta(seconds=_CONNECT)
            self._group = gloo(dist.FileStore(str(self._store), 2), self._rank, 2, options)
        except RuntimeError as error:
            raise LinkLost(f'no connection within {_CONNECT:g} s: {error}') from None

    def say(self, message: Message, timeout: float | None = None) -> None:
        """Send a message.

        Raises:
            LinkLost: nobody is there.

        """
        data = json.dumps(message).encode()
        self._end.settimeout(self.timeout if timeout is None else timeout)
        try:
            self._end.sendall(_HEAD.pack(len(data)) + data)
        except OSError as error:
            raise LinkLost(f'nobody takes messages: {error}') from None

    def hear(self, timeout: float | None) -> Message:
        """Return the next message.

        Args:
            timeout: seconds to wait; None = for ever.

        Raises:
            LinkLost: none comes in time, or nobody is there.

        """
        deadline = None if timeout is None else time.monotonic() + timeout
        (length,) = _HEAD.unpack(self._read(_HEAD.size, deadline, timeout))
        if length > _LONGEST:
            raise LinkLost(f'a message of {length} bytes')
        message: Message = json.loads(self._read(length, deadline, timeout))
        return message

    def send(self, tensors: Sequence[Tensor]) -> Sending:
        """Begin to send tensors, whose shapes and dtype the other end knows."""
        parts = [part for tensor in tensors for part in _parts(tensor.detach().cpu().contiguous())]
        try:
            works = [self._group.send([part], 1 - self._rank, _TAG) for part in parts]
        except RuntimeError as error:
            raise LinkLost(str(error)) from None
        return Sending(works, parts, self.timeout)

    def receive(self, shapes: Sequence[Sequence[int]], dtype: torch.dtype) -> list[Tensor]:
        """Return the tensors, on the CPU, that the other end sends.

        Raises:
            LinkLost: they do not come.

        """
        tensors = [torch.empty(tuple(shape), dtype=dtype) for shape in shapes]
        for tensor in tensors:
            self.receive_into(tensor)
        return tensors

    def receive_into(self, tensor: Tensor) -> None:
        """Fill a contiguous CPU tensor with the one that the other end sends; see ``receive``."""
        for part in _parts(tensor):
            try:
                _wait(self._group.recv([part], 1 - self._rank, _TAG), self.timeout)
            except RuntimeError as error:
                raise LinkLost(str(error)) from None

    def close(self) -> None:
        """Let go of everything; the other end hears of it."""
        self._group = None
        with suppress(OSError):
            self._end.close()

    def _read(self, count: int, deadline: float | None, timeout: float | None) -> bytes:
        data = b''
        while len(data) < count:
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0.0:
                    raise LinkLost(f'no answer within {timeout:g} s')
                self._end.settimeout(left)
            else:
                self._end.settimeout(None)
            try:
                more = self._end.recv(count - len(data))
            except TimeoutError:
                continue
            except OSError as error:
                raise LinkLost(f'nobody is there: {error}') from None
            if not more:
                raise LinkLost('the other process is gone')
            data += more
        return data


class Sending:
    """Tensors on their way, kept alive until they have arrived.

    Args:
        works: what sends them.
        tensors: what is sent.
        timeout: seconds for each.

    """

    def __init__(self, works: Sequence[Any], tensors: Sequence[Tensor], timeout: float) -> None:
        self._works, self._tensors, self._timeout = works, tensors, timeout

    def finish(self) -> None:
        """Wait until all have been taken.

        Raises:
            LinkLost: they are not.

        """
        for work in self._works:
            try:
                _wait(work, self._timeout)
            except RuntimeError as error:
                raise LinkLost(str(error)) from None


def _wait(work: Any, timeout: float) -> None:
    work.wait(timedelta(seconds=timeout))


def _parts(tensor: Tensor) -> Sequence[Tensor]:
    """Return views of a contiguous tensor that are not too long for one transfer."""
    return tensor.view(-1).split(max(1, _CHUNK // tensor.element_size()))
