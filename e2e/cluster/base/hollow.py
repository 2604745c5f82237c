"""Replaces CUDA libraries by hollow ones: the same exported functions, none with a body.

PyTorch's ordinary build does not import unless the CUDA libraries that it is linked to resolve.
On a CPU nothing ever calls them, and they are half of the image's bytes, which are written four
times on the way to a pod. A call into a hollow library ends the process with SIGILL.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

# Linked by libtorch_cuda and large. Small ones (cudart, cupti, nvtx) stay as they are.
HOLLOWED = (
    "cublas",
    "cublasLt",
    "cufft",
    "curand",
    "cusolver",
    "cusparse",
    "cusparseLt",
    "nccl",
    "nvJitLink",
    "nvrtc",
)
NO_EXECUTABLE_STACK = '.section .note.GNU-stack,"",@progbits\n'


def hollow_out(packages: Path) -> None:
    """Hollow the CUDA libraries below a site-packages folder."""
    for name in HOLLOWED:
        for library in packages.glob(f"nvidia/*/lib/lib{name}.so.*"):
            _hollow(library)


def _hollow(library: Path) -> None:
    version, functions = _exported(library)
    with tempfile.TemporaryDirectory() as folder:
        assembly = Path(folder, "hollow.s")
        assembly.write_text("".join([*map(_trap, functions), NO_EXECUTABLE_STACK]))
        flags = ["-shared", "-nostdlib", f"-Wl,-soname,{library.name}"]
        if version:
            script = Path(folder, "versions")
            script.write_text(f"{version} {{ global: *; }};\n")
            flags.append(f"-Wl,--version-script={script}")
        hollow = Path(folder, library.name)
        subprocess.run(["gcc", *flags, "-o", hollow, assembly], check=True)
        # Unlinked first: the package installer's cache holds the same file under another name.
        library.unlink()
        library.write_bytes(hollow.read_bytes())


def _exported(library: Path) -> tuple[str, list[str]]:
    """Return the version that the functions carry, and their names."""
    listing = subprocess.run(
        ["nm", "--dynamic", "--defined-only", library],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    entries = [line.split()[-2:] for line in listing.splitlines()]
    functions = [name.partition("@@") for kind, name in entries if _is_function(kind, name)]
    versions = {version for _, _, version in functions}
    assert len(versions) == 1, f"{library} exports several versions: {versions}"
    return versions.pop(), [name for name, _, _ in functions]


def _is_function(kind: str, name: str) -> bool:
    # Weak C++ symbols are the standard library's templates: hollow ones would replace everyone's.
    return kind == "T" or (kind == "W" and not name.startswith("_Z"))


def _trap(function: str) -> str:
    return f".globl {function}\n.type {function},@function\n{function}: ud2\n"
