"""Rules about the repository itself, kept as tests so that they cannot rot."""

import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [
    "hetrl_core",
    "hetrl_ownership",
    "hetrl_api",
    "hetrl_planner",
    "hetrl_operator",
    "hetrl_cli",
    "hetrl_runtime",
]


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


@pytest.mark.parametrize("root", ["core", "operator", "runtime"])
def test_source_roots_are_not_packages(root: str) -> None:
    # An `operator` package at the root would hide the standard library's.
    assert not (ROOT / root / "__init__.py").exists()


@pytest.mark.parametrize(
    ("module", "banned"),
    [
        ("hetrl_core.launch", {"kopf", "torch", "vllm", "networkx", "pulp", "kubernetes", "grpc"}),
        ("hetrl_planner.plan_job", {"kopf", "torch", "vllm", "kubernetes", "grpc"}),
        ("hetrl_cli.main", {"torch", "vllm", "transformers", "kopf", "grpc"}),
        ("hetrl_operator.decide", {"torch", "vllm", "kopf", "kubernetes", "grpc"}),
        (
            "hetrl_runtime.pod_commands.coordinator",
            {"kopf", "torch", "vllm", "pulp", "transformers"},
        ),
    ],
)
@pytest.mark.slow
def test_importing_stays_light(module: str, banned: set[str]) -> None:
    # A coordinator that imports torch costs a gigabyte; a planner that does costs seconds.
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert not banned & set(loaded.stdout.split())


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_say_what_belongs_there(package: str) -> None:
    (source,) = [
        root / package
        for root in map(ROOT.joinpath, ["core", "operator", "runtime"])
        if (root / package).is_dir()
    ]
    for room in [source, *(path for path in source.rglob("*") if path.is_dir())]:
        if any(room.glob("*.py")):
            opening = (room / "__init__.py").read_text()
            assert opening.startswith('"""'), f"{room} does not open with a docstring"


def test_modules_open_with_a_docstring() -> None:
    silent = [
        path.relative_to(ROOT)
        for path in tracked_files()
        if path.suffix == ".py"
        and "_pb2" not in path.name
        and path.parts[-2] != "tests"
        and path.read_text().strip()
        and not path.read_text().startswith(('"""', "#!"))
        and path.relative_to(ROOT).parts[0] in {"core", "operator", "runtime"}
    ]
    assert not silent


def test_package_registries_are_not_named() -> None:
    # A lock that names one works only where that one is reached.
    hosts = re.compile(
        r"files\.python" r"hosted|pypi\.org/" r"simple|proxy\.gol" r"ang\.org|deb\.deb" r"ian\.org"
    )
    named = [
        path.relative_to(ROOT)
        for path in tracked_files()
        if path.stat().st_size < 2_000_000 and hosts.search(path.read_text(errors="ignore"))
    ]
    assert not named


def test_dependencies_have_an_upper_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    open_ended = [name for name in listed if "<" not in name and not name.startswith("hetrl[")]
    assert not open_ended


def test_locked_requirements_carry_their_hash() -> None:
    for lock in (ROOT / "requirements").glob("*.txt"):
        text = lock.read_text()
        pinned = len(re.findall(r"^[a-z0-9._-]+(?:\[.*\])?==", text, re.MULTILINE))
        assert pinned, lock
        assert len(re.findall(r"\\\n    --hash=", text)) >= pinned, lock
