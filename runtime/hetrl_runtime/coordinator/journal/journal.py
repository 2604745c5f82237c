"""The run's history on disk, from which a restarted coordinator is rebuilt.

Entries are protobuf messages, each behind its length and CRC32C. An acceptance is handed to
the operating system before it is acknowledged, so it survives the process; a commit is also
forced to the disk, so no consumed trajectory is ever trained twice. A tail that a crash of
the machine truncated is dropped: those trajectories are generated again.
"""

import logging
import os
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import BinaryIO

import google_crc32c

from hetrl_runtime.coordinator.journal.compaction import Compaction, write_all
from hetrl_runtime.process.faults import Point, passing
from hetrl_runtime.wire import hetrl_pb2 as pb

log = logging.getLogger(__name__)

_HEADER = struct.Struct("<II")
_COMPACT_ABOVE_BYTES = 64 << 20


class Journal:
    """An append-only file of entries.

    Where it cannot be written, its methods raise ``OSError`` with the file's name, from then on
    and for good, and ``failure`` keeps it: what the process remembers is ahead of its journal
    then, and what it wrote behind half an entry would never be read.
    """

    def __init__(self, path: Path, *, compact_above_bytes: int = _COMPACT_ABOVE_BYTES) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.failure: OSError | None = None
        self._path = path
        # Unbuffered: entries are gathered here, and what is not written is not forgotten.
        self._file = path.open("ab", buffering=0)
        self._bytes = self._file.tell()
        self._unwritten: list[bytes] = []
        self._compact_above_bytes = compact_above_bytes
        self._compacted_bytes = 0
        self._compaction: Compaction | None = None

    def close(self) -> None:
        """Write everything to the disk and close the file."""
        if self._compaction:
            self._compaction.cancel()
        with self._file:
            self.force()

    def append(self, entry: pb.JournalEntry) -> None:
        """Write an entry; it survives the end of this process after ``flush``."""
        self._unwritten += _framed(entry.SerializeToString())

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        if self.failure:
            raise self.failure
        if not self._unwritten:
            return
        data, self._unwritten = b"".join(self._unwritten), []
        try:
            write_all(self._file, data)
        except OSError as error:
            raise self._failed(error) from error
        self._bytes += len(data)
        if self._compaction and self._compaction.is_done:
            self._finish_compaction(self._compaction)

    def force(self) -> None:
        """Write everything to the disk; it survives the machine's crash."""
        self.forcing()()

    def forcing(self) -> Callable[[], None]:
        """Return what forces to the disk all that is written by now, for a thread to call once."""
        self.flush()
        # The file may be replaced meanwhile; what takes its place is on the disk by then.
        descriptor = os.dup(self._file.fileno())

        def force() -> None:
            try:
                os.fsync(descriptor)
            except OSError as error:
                raise self._failed(error) from error
            finally:
                os.close(descriptor)

        return force

    @property
    def is_long(self) -> bool:
        """Whether history has grown so far that it should be replaced by its outcome."""
        limit = self._compact_above_bytes + 2 * self._compacted_bytes
        return self._compaction is None and self._bytes > limit

    def replace(self, entries: Iterable[pb.JournalEntry]) -> None:
        """Replace the journal with a shorter equivalent; a crash keeps the old or the new one."""
        if self.failure:
            raise self.failure
        if self._compaction:
            self._compaction.cancel()
            self._compaction = None
        # What is not written yet is in the entries' outcome.
        self._unwritten.clear()
        fresh = self._path.with_suffix(".new")
        try:
            with fresh.open("wb") as file:
                file.writelines(map(framed, entries))
                file.flush()
                os.fsync(file.fileno())
            passing(Point.EPOCH_WRITTEN)
            self._change_to(fresh)
        except OSError as error:
            raise self._failed(error) from error

    def compact(self, entries: Iterable[pb.JournalEntry]) -> None:
        """Do as ``replace`` does, in a thread, while history goes on; a full disk puts it off.

        The entries are those of this moment, and are asked for there.
        """
        self.flush()
        self._compaction = Compaction(
            map(framed, entries),
            old=self._path,
            fresh=self._path.with_suffix(".new"),
            offset_bytes=self._bytes,
        )

    def _finish_compaction(self, compaction: Compaction) -> None:
        self._compaction = None
        try:
            compaction.finish()
        except OSError as error:
            compaction.fresh.unlink(missing_ok=True)
            log.warning("journal %s stays long: %s", self._path, error)
            self._compacted_bytes = self._bytes
            return
        try:
            self._change_to(compaction.fresh)
        except OSError as error:
            raise self._failed(error) from error

    def _change_to(self, fresh: Path) -> None:
        file = fresh.open("ab", buffering=0)
        fresh.replace(self._path)
        self._file.close()
        self._file = file
        self._bytes = self._compacted_bytes = self._file.tell()
        # Until the folder is on the disk, a crash of the machine could bring the old one back,
        # without the commits that came after.
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _failed(self, error: OSError) -> OSError:
        reason = f"the journal cannot be written: {error.strerror}"
        self.failure = OSError(error.errno, reason, str(self._path))
        return self.failure


def read(path: Path) -> Iterator[pb.JournalEntry]:
    """Yield the entries of a journal, up to the first that is cut off or damaged.

    What stands behind such an entry is moved to a file beside the journal, so that new entries
    follow the last good one and nothing is lost for good.
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
        kept = _keep_aside(path, good_bytes)
        log.warning(
            "journal %s: %d bytes at its end are damaged, kept in %s", path, lost_bytes, kept
        )
        os.truncate(path, good_bytes)


def _keep_aside(path: Path, offset_bytes: int) -> Path:
    """Copy a journal's damaged tail to a file of its own, on the disk before it is cut off."""
    number = next(each for each in count(1) if not _damaged(path, each).exists())
    kept = _damaged(path, number)
    with path.open("rb") as source, kept.open("xb") as target:
        source.seek(offset_bytes)
        shutil.copyfileobj(source, target)
        target.flush()
        os.fsync(target.fileno())
    return kept


def _damaged(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.damaged-{number}")


def _next_entry(header: bytes, file: BinaryIO) -> pb.JournalEntry | None:
    if len(header) < _HEADER.size:
        return None
    size, checksum = _HEADER.unpack(header)
    # No entry is empty: a power cut leaves a tail of zeros.
    if not size:
        return None
    body = file.read(size)
    if len(body) < size or google_crc32c.value(body) != checksum:
        return None
    return pb.JournalEntry.FromString(body)


def framed(entry: pb.JournalEntry) -> bytes:
    """Return an entry as it stands in the file."""
    return b"".join(_framed(entry.SerializeToString()))


def _framed(body: bytes) -> tuple[bytes, bytes]:
    return _HEADER.pack(len(body), google_crc32c.value(body)), body
