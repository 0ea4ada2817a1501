# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Write one rosbag2 folder: one MCAP file and its ``metadata.yaml``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.rosbag2.storage_mcap import McapWriter

from openpi_policy_ros.recording.messages import STORE, Message

if TYPE_CHECKING:
    from rosbags.interfaces import Connection

FORMAT: Literal[8] = 8
"""Of ``metadata.yaml``: the newest one that ROS 2 Humble can read as well."""

METADATA = 'metadata.yaml'


def new_writer(folder: Path) -> Writer:
    """Return a writer of a folder that does not exist yet; to be opened."""
    writer = Writer(folder, version=FORMAT, storage_plugin=StoragePlugin.MCAP)
    # The whole chunks of the file, which ROS's own readers unpack by themselves.
    writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
    return writer


class BagWriter:
    """Writes messages of any topic; not thread-safe.

    What was flushed can be read after a crash (``salvage``); only ``close`` makes a folder that
    every ROS tool reads.

    Args:
        folder: must not exist.

    Raises:
        OSError: as every method does, where the disk fails.

    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written = 0
        self.dirty = False
        self._writer = new_writer(folder)
        self._writer.open()
        self._topics: dict[tuple[str, str], Connection] = {}

    @property
    def file(self) -> Path:
        """Return the path of the MCAP file."""
        return self._storage.path

    def write(self, topic: str, message: Message, time_ns: int) -> int:
        """Append a message that belongs to ``time_ns``; return its bytes before compression."""
        kind = message.__msgtype__
        connection = self._topics.get((topic, kind))
        if connection is None:
            connection = self._writer.add_connection(topic, kind, typestore=STORE)
            self._topics[topic, kind] = connection
        data = STORE.serialize_cdr(message, kind)
        self._writer.write(connection, time_ns, data)
        self.written += 1
        self.dirty = True
        return len(data)

    def flush(self) -> None:
        """Hand everything to the operating system: it outlives this process."""
        storage = self._storage
        if storage.chunk.bio.tell():
            storage.close_chunk()
        storage.bio.flush()
        self.dirty = False

    def close(self) -> None:
        """Write the index and ``metadata.yaml``."""
        self._writer.close()

    def abort(self) -> None:
        """Close the file as it is."""
        self._writer.abort()

    @property
    def _storage(self) -> McapWriter:
        storage = self._writer.storage
        assert isinstance(storage, McapWriter)
        return storage
