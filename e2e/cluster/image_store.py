"""The images of this machine, unpacked once, from which every node's containerd starts.

A layer of some gigabytes takes minutes to unpack. So one containerd root in the cache takes
the images in, and a new node gets its database, its blobs as hard links and its unpacked layers
as symbolic links: no copy, whatever the size. Making images is left to `images`.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster.cache import cache_root, exclusive
from e2e.cluster.containerd import Containerd
from e2e.cluster.errors import ClusterError, CommandFailedError
from e2e.cluster.namespaces import run
from e2e.cluster.oci import Layout
from e2e.cluster.pause import pause_archive
from e2e.cluster.state import clusters

CONTENT = "io.containerd.content.v1.content"
METADATA = "io.containerd.metadata.v1.bolt"
SNAPSHOTS = "io.containerd.snapshotter.v1.overlayfs"
START_SECONDS = 30.0


def store_root() -> Path:
    return cache_root() / "image-store"


def import_image(layout: Layout, name: str) -> None:
    """Take in an image of a layout, and unpack it; no work when it is there already."""
    marker = _taken_in() / name.replace("/", "_")
    digest = layout.digest(name)
    with exclusive("image-store"):
        if marker.exists() and marker.read_text() == digest:
            return
        with _running_store() as store:
            stream_image(layout, name, into=store, command=store.ctr)
            # A second name keeps its layers from being collected when a later build takes the
            # first: nodes that run use these layers.
            keeper = f"{name.rpartition(':')[0]}@{digest}"
            run(store.ctr("images", "tag", "--force", name, keeper))
            marker.parent.mkdir(exist_ok=True)
            marker.write_text(digest)
            if not any(state.nodes for state in clusters()):
                _forget_earlier_builds(store)


def import_archive(archive: Path) -> None:
    """Take in an image archive (docker or OCI), and unpack it."""
    with exclusive("image-store"), _running_store() as store:
        run(store.ctr("images", "import", str(archive)))


def stream_image(
    layout: Layout, name: str, *, into: Containerd, command: Callable[..., Sequence[str]]
) -> None:
    """Send an image of a layout to a containerd, less the blobs that it has.

    `command` makes the `ctr` command line that reaches it.
    """

    def has(digest: str) -> bool:
        return (_blobs(into.root) / digest.removeprefix("sha256:")).exists()

    importing = subprocess.Popen(
        command("images", "import", "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    with importing:
        assert importing.stdin is not None
        assert importing.stdout is not None
        layout.stream(name, importing.stdin, has=has)
        importing.stdin.close()
        output = importing.stdout.read().decode()
    if importing.returncode:
        raise CommandFailedError(["ctr", "images", "import", name], output)


def _forget_earlier_builds(store: Containerd) -> None:
    current = {marker.read_text() for marker in _taken_in().iterdir()}
    names = run(store.ctr("images", "list", "--quiet")).split()
    earlier = [name for name in names if "@" in name and name.partition("@")[2] not in current]
    if earlier:
        run(store.ctr("images", "remove", "--sync", *earlier))


def _taken_in() -> Path:
    """Return the folder that tells which digest the store has of which image."""
    return store_root() / "taken-in"


def fill(root: Path) -> None:
    """Make a new containerd root that holds every image of the store."""
    _ensure_pause_image()
    with exclusive("image-store"):
        store = store_root()
        for database in (f"{METADATA}/meta.db", f"{SNAPSHOTS}/metadata.db"):
            (root / database).parent.mkdir(parents=True)
            shutil.copyfile(store / database, root / database)
        shutil.copytree(_blobs(store), _blobs(root), copy_function=_hard_link)
        (root / SNAPSHOTS / "snapshots").mkdir()
        for layer in (store / SNAPSHOTS / "snapshots").iterdir():
            (root / SNAPSHOTS / "snapshots" / layer.name).symlink_to(layer)


def _hard_link(source: str, destination: str) -> None:
    Path(destination).hardlink_to(source)


def _blobs(root: Path) -> Path:
    return root / CONTENT / "blobs" / "sha256"


def _ensure_pause_image() -> None:
    marker = store_root() / f"has-{pause_archive().parent.name}"
    if not marker.exists():
        import_archive(pause_archive())
        marker.touch()


@contextmanager
def _running_store() -> Iterator[Containerd]:
    with tempfile.TemporaryDirectory(prefix="hetrl-store-") as folder:
        run_folder = Path(folder)
        store = Containerd(root=store_root(), run=run_folder, cni_folder=run_folder)
        store.write_config(serves_kubelet=False)
        log = store_root().with_suffix(".log")
        with log.open("wb") as output:
            daemon = subprocess.Popen(store.command, stdout=output, stderr=subprocess.STDOUT)
        try:
            _wait_until_serving(store, daemon, log)
            yield store
        finally:
            daemon.terminate()
            daemon.wait()


def _wait_until_serving(store: Containerd, daemon: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while subprocess.run(store.ctr("version"), capture_output=True, check=False).returncode:
        if daemon.poll() is not None or time.monotonic() > deadline:
            raise ClusterError(f"the image store's containerd did not start:\n{log.read_text()}")
        time.sleep(0.05)
