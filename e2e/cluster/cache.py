"""The cache of built tools, images and cluster state: a folder outside the checkout.

Everything here is content-addressed or owned by one named cluster, so a fresh clone finds what an
earlier one built. `build` and `images` fill it, `state` keeps running clusters in it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_root() -> Path:
    """Return `$HETRL_CACHE`, by default `hetrl` in the user's cache folder."""
    explicit = os.environ.get("HETRL_CACHE")
    if explicit:
        return Path(explicit).resolve()
    user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user_cache) / "hetrl"


@contextmanager
def exclusive(name: str) -> Iterator[None]:
    """Hold the cache's lock `name`; a second holder waits until the first leaves or dies."""
    path = cache_root() / "locks" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def folder_of(kind: str, key: str, fill: Callable[[Path], None]) -> Path:
    """Return the folder `kind/key`, filled on the first call and never half.

    `fill` writes into a temporary sibling that is renamed when it returns.
    """
    folder = cache_root() / kind / key
    if folder.is_dir():
        return folder
    with exclusive(f"{kind}-{key}".replace("/", "-")):
        if folder.is_dir():
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder.parent))
        try:
            fill(partial)
            partial.chmod(0o755)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder
