"""Follows a coordinator's journal as it grows, through every replacement and every cut.

The file is read as it lies on the disk, from outside: what is seen here was written by a process
that may be dead a moment later. What the entries mean is ``story``'s.
"""

import os
import struct
from pathlib import Path
from typing import BinaryIO

import google_crc32c

from hetrl_runtime.wire import hetrl_pb2 as pb

_HEADER = struct.Struct("<II")


class JournalTail:
    """The entries of one journal that are whole, each once and in order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None

    @property
    def path(self) -> Path | None:
        """Where the journal is, once there is one."""
        # One that is being written in its place has a suffix.
        return next((path for path in self._folder.glob("journal-*") if not path.suffix), None)

    def read(self) -> list[pb.JournalEntry]:
        """Return what has come since the last time."""
        path = self.path
        if path is None:
            return []
        # Asked before reading: what was replaced by now has got its last entry.
        inode = path.stat().st_ino
        found = self._rest()
        if self._file is None or os.fstat(self._file.fileno()).st_ino != inode:
            self.close()
            self._file = path.open("rb")
            found += self._rest()
        return found

    def cut(self, size_bytes: int) -> None:
        """Go back to where a journal was cut off, so that what follows there is read."""
        if self._file is not None:
            self._file.seek(min(self._file.tell(), size_bytes))

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _rest(self) -> list[pb.JournalEntry]:
        if self._file is None:
            return []
        found = []
        while (entry := self._next(self._file)) is not None:
            found.append(entry)
        return found

    @staticmethod
    def _next(file: BinaryIO) -> pb.JournalEntry | None:
        at = file.tell()
        header = file.read(_HEADER.size)
        if len(header) == _HEADER.size:
            size, checksum = _HEADER.unpack(header)
            body = file.read(size)
            if len(body) == size and google_crc32c.value(body) == checksum:
                return pb.JournalEntry.FromString(body)
        # Half of it is here: the rest comes, or a restarted coordinator cuts it off.
        file.seek(at)
        return None


def end_of(path: Path, *, without_last: int) -> int:
    """Return the size of a journal without its last entries, in bytes."""
    ends = [0]
    with path.open("rb") as file:
        while JournalTail._next(file) is not None:
            ends.append(file.tell())
    return ends[max(0, len(ends) - 1 - without_last)]
