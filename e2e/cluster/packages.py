"""The Debian packages that real nodes and images need, installed when they are missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster.cache import exclusive
from e2e.cluster.errors import ClusterError, MissingPackagesError

# A program (or file) that tells whether the package is there -> the package.
NODE_PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "nft": "nftables",
    "gcc": "gcc",
    "/usr/include/stdlib.h": "libc6-dev",
}
IMAGE_PACKAGES = {
    **NODE_PACKAGES,
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "nm": "binutils",
    "skopeo": "skopeo",
}
PROMETHEUS_PACKAGES = {"prometheus": "prometheus", "promtool": "prometheus"}
BROWSER_PACKAGES = {"chromium": "chromium", "/usr/share/fonts/truetype/dejavu": "fonts-dejavu-core"}


def require_packages(wanted: dict[str, str]) -> None:
    """Install what is missing.

    Raises:
        MissingPackagesError: it takes root on Debian to install them.
    """
    missing = _missing(wanted)
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        needed = " ".join(missing)
        text = f"please install, or run as root on Debian: apt-get install {needed}"
        raise MissingPackagesError(text)
    with exclusive("apt-get"):
        print(f"installing Debian packages: {' '.join(missing)}", flush=True)
        _apt_get("update", "-qq")
        _apt_get("install", "-qq", "--no-install-recommends", *missing)
    still_missing = _missing(wanted)
    if still_missing:
        raise ClusterError(f"installed, but its program is not found: {' '.join(still_missing)}")


def require_root(purpose: str) -> None:
    if os.geteuid() != 0:
        raise ClusterError(f"{purpose} needs root; `--nodes none` does not")


def _missing(wanted: dict[str, str]) -> Sequence[str]:
    return sorted(
        {
            package
            for program, package in wanted.items()
            if not shutil.which(program) and not Path(program).exists()
        }
    )


def _apt_get(*arguments: str) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        ["apt-get", *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ClusterError(f"apt-get {' '.join(arguments)}: {done.stderr.strip()}")
