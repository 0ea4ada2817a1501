# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Mend a bag whose process was killed: it has no index and no ``metadata.yaml``.

The format of an MCAP file: https://mcap.dev/spec. A file is a row of records (opcode, length,
content) between two magic numbers; one that was not closed just ends somewhere.
"""

from __future__ import annotations

import logging
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rosbags.interfaces import Connection
from rosbags.rosbag2 import Reader
from rosbags.rosbag2.storage_mcap import McapReader, decompress

from openpi_policy_ros.errors import PolicyRosError
from openpi_policy_ros.recording.bag import METADATA, new_writer
from openpi_policy_ros.recording.messages import STORE

_log = logging.getLogger('openpi_policy_ros.recording')

_MAGIC = b'\x89MCAP0\r\n'
_RECORD = struct.Struct('<BQ')
_CHUNK_HEAD = struct.Struct('<QQQII')
_LENGTH = struct.Struct('<Q')
_FOOTER, _DATA_END, _LAST = 0x02, 0x0F, 0x0F
_CHUNK = 0x06
_END = _RECORD.pack(_DATA_END, 4) + bytes(4) + _RECORD.pack(_FOOTER, 20) + bytes(20) + _MAGIC
_WORK = '.repair'


def is_whole(folder: Path) -> bool:
    """Return whether a bag was closed properly."""
    try:
        with Reader(folder):
            return True
    except Exception:
        # A damaged index holds numbers of any size, and text of any kind.
        return False


def repair(folder: Path) -> int:
    """Mend a bag in place; return how many messages it holds.

    The file is cut after the last whole record, then written anew with an index, and replaced only
    when that is complete. A bag that was closed properly is left alone.

    Raises:
        PolicyRosError: it holds nothing that could be read.
        OSError: the disk failed, or has no room for a second copy.

    """
    if is_whole(folder):
        with Reader(folder) as reader:
            return reader.message_count
    files = sorted(folder.glob('*.mcap'))
    if len(files) != 1:
        raise PolicyRosError(
            f'{folder} holds {len(files)} .mcap files', expected='one, as recorded here'
        )
    _cut(files[0])
    work = folder / _WORK
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        # The file is named after its folder.
        count = _rewrite(files[0], work / files[0].stem)
        (work / files[0].stem / files[0].name).replace(files[0])
        (work / files[0].stem / METADATA).replace(folder / METADATA)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return count


def _cut(path: Path) -> None:
    """Let a file end after its last whole record."""
    with path.open('r+b') as file:
        end = _whole_records(file, path.stat().st_size)
        if end == 0:
            raise PolicyRosError(
                f'{path} holds no whole chunk',
                expected='at least one: they are written once a second',
                remedy='nothing can be saved from it; delete the folder',
            )
        file.truncate(end)
        file.seek(end)
        file.write(_END)


def _whole_records(file: BinaryIO, size: int) -> int:
    """Return where the last whole record with data ends; 0 = there is none."""
    if file.read(len(_MAGIC)) != _MAGIC:
        return 0
    end, chunks = file.tell(), 0
    while True:
        head = file.read(_RECORD.size)
        if len(head) < _RECORD.size:
            break
        opcode, length = _RECORD.unpack(head)
        # Zeros where the disk lost power; at the end of data a footer of ours follows.
        if not 0 < opcode < _LAST or opcode == _FOOTER or file.tell() + length > size:
            break
        content = file.read(length)
        if opcode == _CHUNK:
            if not _can_unpack(content):
                break
            chunks += 1
        end = file.tell()
    return end if chunks else 0


def _can_unpack(chunk: bytes) -> bool:
    _, _, size, crc, name_length = _CHUNK_HEAD.unpack_from(chunk)
    start = _CHUNK_HEAD.size + name_length
    name = chunk[_CHUNK_HEAD.size : start].decode()
    try:
        decompress(chunk[start + _LENGTH.size :], name, size, crc)
    except Exception as error:
        # Each library of compression has its own; all mean that the disk kept only a part of it.
        _log.info('the last chunk is damaged: %s', error)
        return False
    return True


@contextmanager
def _opened(path: Path) -> Iterator[McapReader]:
    reader = McapReader(path)
    reader.open()
    try:
        yield reader
    finally:
        reader.close()


def _rewrite(source: Path, target: Path) -> int:
    with _opened(source) as reader, new_writer(target) as writer:
        topics: dict[int, Connection] = {}
        count = 0
        for connection, time_ns, data in reader.messages_scan(reader.connections):
            if connection.id not in topics:
                topics[connection.id] = writer.add_connection(
                    connection.topic, connection.msgtype, typestore=STORE
                )
            writer.write(topics[connection.id], time_ns, data)
            count += 1
        return count
