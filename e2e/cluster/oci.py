"""Reads and writes images as OCI layout folders: blobs named by digest, an index that names images.

Several images share one folder, so a layer they have in common exists once. Specification:
opencontainers/image-spec, image-layout.md.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
REFERENCE = "org.opencontainers.image.ref.name"
# containerd takes an image's full name from here.
CONTAINERD_NAME = "io.containerd.image.name"
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A blob as manifests name it."""

    media_type: str
    digest: str
    size_bytes: int

    def descriptor(self) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size_bytes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """An OCI layout folder."""

    folder: Path

    def add_layer(self, archive: IO[bytes]) -> Blob:
        """Store an uncompressed tar stream as a layer."""
        digest, size = hashlib.sha256(), 0
        self._blobs.mkdir(parents=True, exist_ok=True)
        partial = self._blobs / "partial"
        with partial.open("wb") as output:
            while chunk := archive.read(CHUNK_BYTES):
                digest.update(chunk)
                output.write(chunk)
                size += len(chunk)
        partial.rename(self._blobs / digest.hexdigest())
        return Blob(media_type=LAYER, digest=f"sha256:{digest.hexdigest()}", size_bytes=size)

    def add_image(self, name: str, layers: Sequence[Blob], settings: dict[str, Any]) -> None:
        """Name an image of these layers; `settings` is the `config` of its configuration."""
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]},
            # Optional by the specification, but buildah builds only on images that tell it.
            "history": [{"created_by": "e2e.cluster"} for _ in layers],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self._add_json(config, CONFIG).descriptor(),
            "layers": [layer.descriptor() for layer in layers],
        }
        named = self._add_json(manifest, MANIFEST).descriptor() | {"annotations": {REFERENCE: name}}
        others = [entry for entry in self._index() if entry["annotations"][REFERENCE] != name]
        self._write_index([*others, named])

    def digest(self, name: str) -> str:
        """Return the digest of the image's manifest."""
        return str(self._entry(name)["digest"])

    def compressed_bytes(self, name: str) -> int:
        """Return what a registry would hold of the image's layers, by gzip at its quickest."""
        manifest = json.loads(self._blob(self.digest(name)).read_text())
        return sum(_gzipped_bytes(self._blob(layer["digest"])) for layer in manifest["layers"])

    def stream(self, name: str, write: IO[bytes], *, has: Callable[[str], bool]) -> None:
        """Write the image as a tar that containerd imports, without the blobs it `has`."""
        entry = self._entry(name)
        entry["annotations"] = {CONTAINERD_NAME: name}
        with tarfile.open(fileobj=write, mode="w|") as archive:
            for path, content in (
                ("oci-layout", LAYOUT_VERSION),
                ("index.json", _index_of([entry])),
            ):
                member = tarfile.TarInfo(path)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
            for digest in self._blobs_of(entry):
                if not has(digest):
                    hexadecimal = digest.removeprefix("sha256:")
                    archive.add(self._blobs / hexadecimal, f"blobs/sha256/{hexadecimal}")

    def take_all_of(self, other: Layout) -> None:
        """Add the other layout's images, its blobs as hard links."""
        self._blobs.mkdir(parents=True, exist_ok=True)
        for blob in other._blobs.iterdir():
            own = self._blobs / blob.name
            if not own.exists():
                own.hardlink_to(blob)
        names = {entry["annotations"][REFERENCE] for entry in other._index()}
        kept = [entry for entry in self._index() if entry["annotations"][REFERENCE] not in names]
        self._write_index([*kept, *other._index()])

    def prune(self) -> None:
        """Forget nameless images, and delete the blobs that no image has."""
        self._write_index(self._index())
        wanted = {digest for entry in self._index() for digest in self._blobs_of(entry)}
        for blob in self._blobs.iterdir():
            if f"sha256:{blob.name}" not in wanted:
                blob.unlink()

    @property
    def _blobs(self) -> Path:
        return self.folder / "blobs" / "sha256"

    def _index(self) -> list[dict[str, Any]]:
        path = self.folder / "index.json"
        entries = json.loads(path.read_text())["manifests"] if path.exists() else []
        # A build that takes over a name leaves the earlier image nameless.
        return [entry for entry in entries if REFERENCE in entry.get("annotations", {})]

    def _write_index(self, entries: Sequence[dict[str, Any]]) -> None:
        (self.folder / "oci-layout").write_bytes(LAYOUT_VERSION)
        (self.folder / "index.json").write_bytes(_index_of(entries))

    def _entry(self, name: str) -> dict[str, Any]:
        return next(entry for entry in self._index() if entry["annotations"][REFERENCE] == name)

    def _blobs_of(self, entry: dict[str, Any]) -> Iterator[str]:
        manifest = json.loads(self._blob(entry["digest"]).read_text())
        yield from (layer["digest"] for layer in manifest["layers"])
        yield manifest["config"]["digest"]
        yield entry["digest"]

    def _blob(self, digest: str) -> Path:
        return self._blobs / digest.removeprefix("sha256:")

    def _add_json(self, content: dict[str, Any], media_type: str) -> Blob:
        encoded = json.dumps(content).encode()
        stored = self.add_layer(io.BytesIO(encoded))
        return Blob(media_type=media_type, digest=stored.digest, size_bytes=len(encoded))


def _gzipped_bytes(path: Path) -> int:
    packer, size = zlib.compressobj(level=1, wbits=31), 0
    with path.open("rb") as layer:
        while chunk := layer.read(CHUNK_BYTES):
            size += len(packer.compress(chunk))
    return size + len(packer.flush())


LAYOUT_VERSION = b'{"imageLayoutVersion": "1.0.0"}'


def _index_of(entries: Sequence[dict[str, Any]]) -> bytes:
    return json.dumps({"schemaVersion": 2, "manifests": list(entries)}).encode()
