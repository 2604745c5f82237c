"""The run's history on disk, from which a restarted coordinator is rebuilt.

Entries are protobuf messages, each behind its length and CRC32C. An acceptance is handed to
the operating system before it is acknowledged, so it survives the process; a commit is also
forced to the disk, so no consumed trajectory is ever trained twice. A tail that a crash of
the machine cut off is left out: those trajectories are generated again.
"""

import contextlib
import logging
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import google_crc32c

from hetrl_runtime.faults import Point, passing
from hetrl_runtime.wire import hetrl_pb2 as pb

log = logging.getLogger(__name__)

_HEADER = struct.Struct("<II")
_COMPACT_ABOVE_BYTES = 64 << 20


class Journal:
    """An append-only file of entries.

    Where it cannot be written, its methods raise ``OSError`` and ``failure`` keeps it: what
    the process remembers is ahead of its journal then, and it must not go on.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.failure: OSError | None = None
        self._path = path
        self._file = path.open("ab")
        self._compacted_bytes = 0

    def close(self) -> None:
        """Write everything to the disk and close the file."""
        with self._file:
            self.force()

    def append(self, entry: pb.JournalEntry) -> None:
        """Write an entry; it survives the end of this process after ``flush``."""
        with self._remembering_failure():
            self._file.write(_framed(entry))

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        with self._remembering_failure():
            self._file.flush()

    def force(self) -> None:
        """Write everything to the disk; it survives the machine's crash."""
        with self._remembering_failure():
            self._file.flush()
            os.fsync(self._file.fileno())

    @property
    def is_long(self) -> bool:
        """Whether history has grown so far that it should be replaced by its outcome."""
        return self._file.tell() > _COMPACT_ABOVE_BYTES + 2 * self._compacted_bytes

    def replace(self, entries: Iterable[pb.JournalEntry]) -> None:
        """Begin anew with entries that say the same in short; a crash keeps the old or the new."""
        with self._remembering_failure():
            fresh = self._path.with_suffix(".new")
            with fresh.open("wb") as file:
                file.writelines(map(_framed, entries))
                file.flush()
                os.fsync(file.fileno())
            passing(Point.EPOCH_WRITTEN)
            fresh.replace(self._path)
            self._file.close()
            self._file = self._path.open("ab")
            self._compacted_bytes = self._file.tell()

    @contextlib.contextmanager
    def _remembering_failure(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.failure = error
            raise


def read(path: Path) -> Iterator[pb.JournalEntry]:
    """Yield the entries of a journal, up to the first that is cut off or damaged.

    What stands behind such an entry is removed from the file, so that new entries follow
    the last good one.
    """
    if not path.exists():
        return
    good_bytes = 0
    with path.open("rb") as file:
        while (entry := _next_entry(file.read(_HEADER.size), file)) is not None:
            good_bytes = file.tell()
            yield entry
    lost_bytes = path.stat().st_size - good_bytes
    if lost_bytes:
        log.warning("journal %s: %d bytes at the end are damaged, leaving them", path, lost_bytes)
        os.truncate(path, good_bytes)


def _next_entry(header: bytes, file: BinaryIO) -> pb.JournalEntry | None:
    if len(header) < _HEADER.size:
        return None
    size, checksum = _HEADER.unpack(header)
    body = file.read(size)
    if len(body) < size or google_crc32c.value(body) != checksum:
        return None
    return pb.JournalEntry.FromString(body)


def _framed(entry: pb.JournalEntry) -> bytes:
    body = entry.SerializeToString()
    return _HEADER.pack(len(body), google_crc32c.value(body)) + body
