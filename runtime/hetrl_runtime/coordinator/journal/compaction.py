"""Compaction of a journal by a thread, while its owner goes on writing the long one.

The thread writes the outcome of history up to an offset, then copies what the long journal has
got since; the owner copies the rest and changes over. What stands in a journal, and when it is
long, is ``journal``'s.
"""

import os
import threading
from collections.abc import Iterable
from io import FileIO
from pathlib import Path
from typing import BinaryIO

_COPY_BYTES = 1 << 20
_SHORT_BYTES = 1 << 20
"""Bytes that the owner may copy at the end: it must not block for long."""


class Compaction:
    """One rewriting, from its start to ``finish`` or ``cancel``."""

    def __init__(
        self, entries: Iterable[bytes], *, old: Path, fresh: Path, offset_bytes: int
    ) -> None:
        """Start at once; ``entries`` stand for the first ``offset_bytes`` of the old file."""
        self.fresh = fresh
        self.is_done = False
        self._entries = entries
        self._old = old
        self._copied_to = offset_bytes
        self._error: OSError | None = None
        self._is_cancelled = False
        self._thread = threading.Thread(target=self._run, name="journal-compaction", daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Leave it; the long journal stays."""
        self._is_cancelled = True
        self._thread.join()
        self.fresh.unlink(missing_ok=True)

    def finish(self) -> None:
        """Copy what is still missing, and flush it to the disk.

        Raises:
            OSError: there, or in the thread.
        """
        self._thread.join()
        if self._error:
            raise self._error
        with self._old.open("rb") as old, self.fresh.open("ab", buffering=0) as fresh:
            self._copy(old, fresh)
            os.fsync(fresh.fileno())

    def _run(self) -> None:
        try:
            with self._old.open("rb") as old, self.fresh.open("wb", buffering=0) as fresh:
                for entry in self._entries:
                    if self._is_cancelled:
                        return
                    write_all(fresh, entry)
                while self._copy(old, fresh) > _SHORT_BYTES:
                    os.fsync(fresh.fileno())
                os.fsync(fresh.fileno())
        except OSError as error:
            self._error = error
        finally:
            self.is_done = True

    def _copy(self, old: BinaryIO, fresh: FileIO) -> int:
        """Copy from where we are to the old file's end; return how much that was."""
        begun_at = self._copied_to
        while data := os.pread(old.fileno(), _COPY_BYTES, self._copied_to):
            write_all(fresh, data)
            self._copied_to += len(data)
        return self._copied_to - begun_at


def write_all(file: FileIO, data: bytes) -> None:
    """Write to an unbuffered file, which may take only a part at a time where a disk fills up."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
