"""Objects of a store, reached by URI: fetched once, the same for the whole run.

``obstore`` reaches S3, Google Cloud Storage, Azure and web servers, with credentials from the
environment. ``retry`` retries; ``open_prompts`` reads the files.
"""

import json
import logging
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import (
    BaseError,
    InvalidPathError,
    NotFoundError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
from obstore.store import from_url

from hetrl_core.job.identity import Aspect
from hetrl_core.job.spec import ObjectStore
from hetrl_runtime.data.fetching.retry import Failed, fetch_with_retries
from hetrl_runtime.data.prompt import Unusable

if TYPE_CHECKING:
    from obstore import Bytes, GetOptions, ObjectMeta
    from obstore.store import ClientConfig, RetryConfig
    from obstore.store import ObjectStore as Store

log = logging.getLogger(__name__)

_PIN = "objects.json"
_FOLDER = "objects"

_PART_BYTES = 32 << 20
"""Of one request, so that each has a deadline that does not depend on an object's size."""

_CLIENT: "ClientConfig" = {
    # Stores inside a cluster often have no certificates; a URI says which of the two it is.
    "allow_http": True,
    "timeout": timedelta(seconds=120),
    "connect_timeout": timedelta(seconds=10),
}
_RETRIES: "RetryConfig" = {"max_retries": 2, "retry_timeout": timedelta(seconds=30)}

_FINAL = (
    InvalidPathError,
    NotFoundError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
"""What is no better a moment later."""


class _StoppedError(Exception):
    """The files are no longer needed."""


def fetched(
    source: ObjectStore,
    files: str,
    *,
    state_path: Path,
    timeout_seconds: float,
    stop: threading.Event,
    accepts_changes: bool = False,
) -> Path | Unusable:
    """Return where a store's objects are on this machine, or why they cannot be fetched.

    A request that the store does not answer is retried. The run's state keeps the objects'
    identities: a restarted coordinator reads the same, and refuses objects that have changed.

    Args:
        source: which store.
        files: path of an object, or a pattern for those of one folder.
        state_path: the coordinator's own folder.
        timeout_seconds: how long to retry.
        stop: set when the answer is no longer needed.
        accepts_changes: whether to read objects as they are now, also if they have changed.
    """
    copy = _Copy(
        source=source,
        files=files,
        state_path=state_path,
        stop=stop,
        accepts_changes=accepts_changes,
    )
    return fetch_with_retries(copy.ask, timeout_seconds=timeout_seconds, stop=stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """The objects that one run reads, on their way to this machine."""

    source: ObjectStore
    files: str
    state_path: Path
    stop: threading.Event
    accepts_changes: bool = False

    def ask(self) -> Path | Failed:
        """Fetch what is not here yet."""
        try:
            return self._fetch()
        except _FINAL as error:
            return self._failed(error, may_pass=False)
        except BaseError as error:
            return self._failed(error, may_pass=True)
        except OSError as error:
            return self._failed(error, may_pass=False)
        except _StoppedError:
            return Failed(message=f"{self._uri} was not fetched to its end", may_pass=False)

    def _fetch(self) -> Path | Failed:
        folder, known = self.state_path / _FOLDER, self._pinned()
        if known and not self.accepts_changes and all((folder / path).is_file() for path in known):
            return folder / self.files
        store = from_url(self.source.url, client_options=_CLIENT, retry_config=_RETRIES)
        found = {each["path"]: each for each in self._found(store)}
        tags = {path: _tag(each) for path, each in found.items()}
        if not found:
            return Failed(message=f"no object is named like {self._uri}", may_pass=False)
        if known and known != tags and not self.accepts_changes:
            changed = sorted(path for path in known | tags if known.get(path) != tags.get(path))
            return Failed(
                message=f"{self.source}/{changed[0]} has changed since the run began; to continue "
                f"in the data as they are now, allow the change {Aspect.DATA}: set "
                "spec.storage.checkpoints.allowChanges (hetrl run: --allow-change data)",
                may_pass=False,
            )
        if known != tags:
            self._pin(tags)
        for each in found.values():
            self._download(store, each)
        return folder / self.files

    def _found(self, store: "Store") -> "Iterator[ObjectMeta]":
        """Yield the objects that the pattern names, in no order."""
        folder, _, name = self.files.rpartition("/")
        if "*" not in name:
            yield obstore.head(store, self.files)
            return
        for each in obstore.list_with_delimiter(store, folder or None)["objects"]:
            if fnmatchcase(each["path"].rpartition("/")[2], name):
                yield each

    def _download(self, store: "Store", meta: "ObjectMeta") -> None:
        target = self.state_path / _FOLDER / meta["path"]
        if target.is_file():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f"{target.name}.new")
        with fresh.open("wb") as file:
            for part in self._parts(store, meta):
                file.write(part)
        fresh.replace(target)
        log.info("object fetched: uri=%s/%s bytes=%d", self.source, meta["path"], meta["size"])

    def _parts(self, store: "Store", meta: "ObjectMeta") -> "Iterator[Bytes]":
        """Yield an object piece by piece, all of them of one version of it."""
        options: GetOptions = {"if_match": meta["e_tag"]} if meta["e_tag"] else {}
        if meta["size"] <= _PART_BYTES:
            # Whole: not every web server has parts of files to give.
            yield obstore.get(store, meta["path"], options=options).bytes()
            return
        for start in range(0, meta["size"], _PART_BYTES):
            if self.stop.is_set():
                raise _StoppedError
            part = (start, min(start + _PART_BYTES, meta["size"]))
            yield obstore.get(store, meta["path"], options={**options, "range": part}).bytes()

    @property
    def _uri(self) -> str:
        return f"{self.source}/{self.files}"

    def _failed(self, error: Exception, *, may_pass: bool) -> Failed:
        said = " ".join(str(error).split("\n\nDebug source")[0].split())
        return Failed(message=f"{self._uri} cannot be fetched: {said}", may_pass=may_pass)

    def _pinned(self) -> dict[str, str]:
        """Return the objects that this run has read before, and what tells their versions apart."""
        try:
            kept = json.loads((self.state_path / _PIN).read_text())
        except (OSError, ValueError):
            return {}
        return dict(kept["objects"]) if kept.get("uri") == self._uri else {}

    def _pin(self, tags: dict[str, str]) -> None:
        # What is there is another job's idea of where its data are.
        shutil.rmtree(self.state_path / _FOLDER, ignore_errors=True)
        self.state_path.mkdir(parents=True, exist_ok=True)
        fresh = self.state_path / f"{_PIN}.new"
        fresh.write_text(json.dumps({"uri": self._uri, "objects": tags}) + "\n")
        fresh.replace(self.state_path / _PIN)


def _tag(meta: "ObjectMeta") -> str:
    """Return what changes whenever an object does; web servers often know only when."""
    return meta["e_tag"] or f"{meta['size']} bytes of {meta['last_modified'].isoformat()}"
