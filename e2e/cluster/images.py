"""Builds the operator's, trainer's and rollout's images by their Dockerfiles, for CPUs.

    Dockerfile ─ buildah, on `base` ─▶ OCI layout ─▶ image store ─▶ nodes

Only what changed moves: unchanged sources cost a hash, changed ones the thin layers on top.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import image_store
from e2e.cluster.base import CHECKOUT, CPU_BASE, PYTHON_BASE, base_layout
from e2e.cluster.cache import cache_root, exclusive
from e2e.cluster.errors import ClusterError, CommandFailedError
from e2e.cluster.namespaces import run
from e2e.cluster.oci import Layout
from e2e.cluster.packages import IMAGE_PACKAGES, require_packages, require_root

BASE_FOR = {"operator": PYTHON_BASE, "trainer": CPU_BASE, "rollout": CPU_BASE}
IMAGES = {name: f"localhost/hetrl-{name}:e2e" for name in BASE_FOR}
"""Image names as pods use them, with `imagePullPolicy: IfNotPresent`."""

SOURCES = ("pyproject.toml", "README.md", "LICENSE", "core", "operator", "runtime", "requirements")


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """buildah's storage, in the cache, so that an emptied cache is an empty storage."""

    root: Path

    def buildah(self, command: str, *arguments: str | Path) -> str:
        # Options of `buildah` stand before its command.
        location = [f"--root={self.root / 'root'}", f"--runroot={self.root / 'run'}"]
        return run(["buildah", *location, command, *arguments])

    def reference(self, name: str) -> str:
        """Return the image as skopeo names it."""
        return f"containers-storage:[overlay@{self.root / 'root'}+{self.root / 'run'}]{name}"


def build_images() -> Layout:
    """Build what changed, take it into the image store, and return the layout with all images."""
    require_root("building images")
    require_packages(IMAGE_PACKAGES)
    bases = base_layout()
    layout = Layout(folder=cache_root() / "images" / f"built-on-{bases.folder.name}")
    with exclusive("images"):
        digest = _digest_of_sources(bases)
        built = layout.folder / "built-from"
        if not built.exists() or built.read_text() != digest:
            built.unlink(missing_ok=True)
            _build_all(bases, layout)
            built.write_text(digest)
        for name in IMAGES.values():
            image_store.import_image(layout, name)
        layout.prune()
        _delete_earlier(keep=(bases, layout))
    return layout


def _build_all(bases: Layout, layout: Layout) -> None:
    storage = Storage(root=cache_root() / "containers")
    layout.take_all_of(bases)
    _provide_bases(storage, bases)
    for name, base in BASE_FOR.items():
        started = time.monotonic()
        _build(storage, name, base)
        _probe(storage, name)
        image = IMAGES[name]
        destination = f"oci:{layout.folder}:{image}"
        uncompressed = "--dest-oci-accept-uncompressed-layers"
        run(["skopeo", "copy", "--quiet", uncompressed, storage.reference(image), destination])
        print(f"built {image} in {time.monotonic() - started:.0f} s", flush=True)
    # Earlier builds' layers; those that the images stand on have a child and stay.
    storage.buildah("rmi", "--prune", "--force")


def _digest_of_sources(bases: Layout) -> str:
    digest = hashlib.sha256(bases.folder.name.encode())
    for path in _source_files():
        digest.update(str(path.relative_to(CHECKOUT)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _source_files() -> Iterator[Path]:
    yield from (CHECKOUT / f"Dockerfile.{name}" for name in BASE_FOR)
    for source in map(CHECKOUT.joinpath, SOURCES):
        files = sorted(source.rglob("*")) if source.is_dir() else [source]
        yield from (path for path in files if path.is_file() and "__pycache__" not in path.parts)


def _provide_bases(storage: Storage, bases: Layout) -> None:
    wanted = {base: _name_in_storage(bases, base) for base in (PYTHON_BASE, CPU_BASE)}
    present = storage.buildah("images", "--format={{.Name}}:{{.Tag}}").split()
    if set(wanted.values()) <= set(present):
        return
    # On a new base no earlier layer is of use, and each base has gigabytes.
    storage.buildah("rmi", "--all", "--force")
    for base, image in wanted.items():
        run(["skopeo", "copy", "--quiet", f"oci:{bases.folder}:{base}", storage.reference(image)])


def _delete_earlier(*, keep: tuple[Layout, ...]) -> None:
    kept = {layout.folder for layout in keep}
    for folder in (cache_root() / "images").iterdir():
        if folder not in kept and not folder.name.startswith(".partial-"):
            shutil.rmtree(folder)


def _name_in_storage(bases: Layout, base: str) -> str:
    repository = base.rpartition(":")[0]
    return f"{repository}:{bases.digest(base).removeprefix('sha256:')[:16]}"


def _build(storage: Storage, name: str, base: str) -> None:
    bases = base_layout()
    with _pip_settings() as volumes:
        storage.buildah(
            "bud",
            "--layers",
            # Needs no container engine and no network set-up.
            "--isolation=chroot",
            f"--build-arg=BASE_IMAGE={_name_in_storage(bases, base)}",
            f"--build-arg=BUILD_IMAGE={_name_in_storage(bases, PYTHON_BASE)}",
            *(f"--volume={path}:{inside}:ro" for path, inside in volumes.items()),
            f"--file={CHECKOUT / f'Dockerfile.{name}'}",
            f"--tag={IMAGES[name]}",
            CHECKOUT,
        )


@contextmanager
def _pip_settings() -> Iterator[dict[Path, Path]]:
    """Give pip in the build what pip has here: its $PIP_ settings and the trusted authorities.

    Mounted, so that nothing of this machine is written into an image.
    """
    settings = {
        name.removeprefix("PIP_").lower().replace("_", "-"): value
        for name, value in os.environ.items()
        if name.startswith("PIP_") and name != "PIP_FIND_LINKS"
    }
    with tempfile.NamedTemporaryFile("w", prefix="pip-", suffix=".conf") as config:
        config.write(
            "[global]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items())
        )
        config.flush()
        volumes = {Path(config.name): Path("/etc/pip.conf")}
        if "cert" in settings:
            authorities = Path(settings["cert"])
            volumes[authorities] = authorities
        yield volumes


def _probe(storage: Storage, name: str) -> None:
    """Run `hetrl --version` in the image as the user that the image names."""
    container = storage.buildah("from", "--pull=false", IMAGES[name]).strip()
    try:
        storage.buildah("run", "--isolation=chroot", container, "--", "hetrl", "--version")
    except CommandFailedError as error:
        raise ClusterError(f"{IMAGES[name]} does not start: {error}") from error
    finally:
        storage.buildah("rm", container)
