"""The pause program: its C source and the image made of nothing else.

Does not belong here: anything that a container of ours does besides waiting.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

from e2e.cluster.cache import folder_of

SOURCE = Path(__file__).parent / "pause.c"
IMAGE = "localhost/hetrl-pause:1"


def pause_program() -> Path:
    """Return the path of the static program, compiled on the first call."""
    return _folder() / "pause"


def pause_archive() -> Path:
    """Return the path of the image, as an archive that `ctr images import` reads."""
    return _folder() / "pause.tar"


def _folder() -> Path:
    digest = hashlib.sha256(SOURCE.read_bytes() + Path(__file__).read_bytes())
    return folder_of("pause", digest.hexdigest()[:16], _build)


def _build(folder: Path) -> None:
    program = folder / "pause"
    subprocess.run(["gcc", "-static", "-Os", "-s", "-Wall", "-o", program, SOURCE], check=True)
    layer = _tar({"pause": program.read_bytes()}, mode=0o755)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    ).encode()
    manifest = json.dumps(
        [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    ).encode()
    files = {"layer.tar": layer, "config.json": config, "manifest.json": manifest}
    (folder / "pause.tar").write_bytes(_tar(files, mode=0o644))


def _tar(files: dict[str, bytes], *, mode: int) -> bytes:
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, BytesIO(content))
    return buffer.getvalue()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
