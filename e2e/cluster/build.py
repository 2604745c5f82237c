"""Builds the cluster's Go programs from the modules in `tools/`, once, into the cache.

Each module only names tools and pins versions. What runs the programs is left to
`control_plane`, `nodes` and `fake_nodes`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from e2e.cluster.cache import folder_of
from e2e.cluster.errors import ClusterError

TOOLS = Path(__file__).parent / "tools"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolModule:
    """A Go module under `tools/` and the programs that are built from it."""

    name: str
    programs: Mapping[str, str]
    """Program name -> package path."""
    source_module: str
    """The required module that the programs come from."""
    version_package: str = ""
    """The package whose gitVersion, gitMajor and gitMinor are set to that version."""
    copied: tuple[str, ...] = ()
    """Folders of that module that are wanted beside the programs."""


# Without its version flags the API server calls itself v0.0.0 and helm's kubeVersion check fails.
MODULES = (
    ToolModule(
        name="etcd",
        programs={"etcd": "go.etcd.io/etcd/server/v3"},
        source_module="go.etcd.io/etcd/server/v3",
    ),
    ToolModule(
        name="kubernetes",
        programs={
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in (
                "kube-apiserver",
                "kube-controller-manager",
                "kube-scheduler",
                "kubectl",
                "kubelet",
                "kube-proxy",
            )
        },
        source_module="k8s.io/kubernetes",
        version_package="k8s.io/component-base/version",
    ),
    ToolModule(
        name="kwok",
        programs={"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
        source_module="sigs.k8s.io/kwok",
        copied=("kustomize/stage",),
    ),
    ToolModule(
        name="helm",
        programs={"helm": "helm.sh/helm/v4/cmd/helm"},
        source_module="helm.sh/helm/v4",
    ),
    ToolModule(
        name="coredns",
        programs={"coredns": "github.com/coredns/coredns"},
        source_module="github.com/coredns/coredns",
    ),
)

# Built only where it is asked for: it takes longer than all others together.
KUEUE = ToolModule(
    name="kueue",
    programs={"kueue": "sigs.k8s.io/kueue/cmd/kueue"},
    source_module="sigs.k8s.io/kueue",
    copied=("config/components/crd/bases", "config/components/webhook"),
)
KUEUE_KINDS = ToolModule(
    name="kueue",
    programs={},
    source_module="sigs.k8s.io/kueue",
    copied=("config/components/crd/bases",),
)
"""Its CustomResourceDefinitions alone, which need no build."""

JOBSET = ToolModule(
    name="jobset",
    programs={"jobset": "sigs.k8s.io/jobset"},
    source_module="sigs.k8s.io/jobset",
    copied=("config/components/crd/bases", "config/components/webhook"),
)
"""Built only to be measured beside us."""


def program(name: str) -> Path:
    """Return the path of a built program, building its module on the first call."""
    return folder_of_program(name) / name


def folder_of_program(name: str) -> Path:
    """Return the cache folder of the program's module, with what was copied beside it."""
    return folder_of_module(next(module for module in MODULES if name in module.programs))


def build_all() -> None:
    """Build every module; a call that finds them built takes no time."""
    for module in MODULES:
        folder_of_module(module)


def folder_of_module(module: ToolModule) -> Path:
    """Return the cache folder with the module's programs and copied folders."""
    return folder_of("tools", f"{module.name}-{_digest(module)}", lambda to: _build(module, to))


def _digest(module: ToolModule) -> str:
    digest = hashlib.sha256(_go_version().encode())
    digest.update(repr(module).encode())
    for name in ("go.mod", "go.sum"):
        digest.update((TOOLS / module.name / name).read_bytes())
    return digest.hexdigest()[:16]


def _build(module: ToolModule, folder: Path) -> None:
    started = time.monotonic()
    source = TOOLS / module.name
    print(f"building {module.name}: {', '.join(module.programs) or 'files'}", flush=True)
    if not module.programs:
        _go("mod", "download", module.source_module, cwd=source)
    flags = _linker_flags(module, version=_go_list(module, "{{.Version}}"))
    for name, package in module.programs.items():
        output = str(folder / name)
        _go("build", "-trimpath", f"-ldflags={flags}", "-o", output, package, cwd=source)
        print(f"  {name} after {time.monotonic() - started:.0f} s", flush=True)
    for relative in module.copied:
        shutil.copytree(_go_list(module, "{{.Dir}}") / Path(relative), folder / Path(relative).name)


def _linker_flags(module: ToolModule, *, version: str) -> str:
    flags = ["-s", "-w"]
    if module.version_package:
        major, minor, _ = version.removeprefix("v").split(".", 2)
        reported = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        flags += [f"-X {module.version_package}.{name}={v}" for name, v in reported.items()]
    return " ".join(flags)


def _go_list(module: ToolModule, template: str) -> str:
    return _go("list", "-m", "-f", template, module.source_module, cwd=TOOLS / module.name)


@cache
def _go_version() -> str:
    return _go("env", "GOVERSION")


def _go(*arguments: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(
            ["go", *arguments],
            cwd=cwd,
            env=os.environ | {"CGO_ENABLED": "0"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    except FileNotFoundError:
        raise ClusterError("the cluster needs Go 1.26 or later: `go` is not on PATH") from None
    except subprocess.CalledProcessError as error:
        raise ClusterError(f"go {arguments[0]} failed in {cwd}; its reason is above") from error
    return done.stdout.strip()
