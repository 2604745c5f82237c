"""Measures what is missing and writes the page: `make proof-speed`; `python -m bench.runtime`.

What is measured is kept in a folder, a file a case, so that a cut proof goes on where it was.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

from bench.runtime import page, steps
from bench.runtime.task import LONG, SHORT, SMALL, Lengths, Size, make_model
from bench.runtime.turns import Side

RUNS = Path("runs/proof-speed")
RESULTS = Path("docs/results/speed.md")
VLLM = Path(".venv-vllm/bin/python")


def main() -> None:
    """Measure, case by case, and write the page after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5, help="timed, of engines alone")
    parser.add_argument("--scale", type=float, default=2.0, help="of simulated GPUs' times")
    parser.add_argument("--only", default="", help="a word in the names of what to measure")
    parser.add_argument("--out", type=Path, default=RUNS)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    cores = set(sorted(os.sched_getaffinity(0))[:1])
    measures: dict[str, Callable[[], str]] = {
        "split": lambda: _split(arguments.scale),
        **{
            f"generation-{lengths.name}": _generation_of(lengths, arguments.turns, cores)
            for lengths in (SHORT, LONG)
        },
        **{f"steps-{case.name}": _steps_of(case, cores) for case in steps.CASES},
    }
    (arguments.out / "commit.json").write_text(json.dumps({"commit": _commit()}))
    for name, measure in measures.items():
        file = arguments.out / f"{name}.json"
        if arguments.only in name and not file.exists():
            print(f"== {name}", flush=True)
            file.write_text(measure())
        page.write(arguments.out, RESULTS)


def _split(scale: float) -> str:
    return subprocess.run(
        [sys.executable, "-m", "bench.runtime.split", "--scale", str(scale)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def _steps_of(case: steps.Case, cores: set[int]) -> Callable[[], str]:
    def measure() -> str:
        model = RUNS / "models" / case.name
        _made_apart(model, case.size, case.lengths)
        return steps.measure(case, model, cores=cores).to_json()

    return measure


def _made_apart(model: Path, size: Size, lengths: Lengths) -> None:
    """Make it in a process that ends: what it used, some gigabytes, all sides together need."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as process:
        process.submit(make_model, model, size, lengths).result()


def _generation_of(lengths: Lengths, turns: int, cores: set[int]) -> Callable[[], str]:
    def measure() -> str:
        model = RUNS / "models" / f"{SMALL.name}-{lengths.name}"
        _made_apart(model, SMALL, lengths)
        return json.dumps(_generation(model, lengths, turns, cores))

    return measure


def _generation(model: Path, lengths: Lengths, turns: int, cores: set[int]) -> dict[str, float]:
    settings: dict[str, object] = {
        "model": str(model),
        "threads": 1,
        "seed": 1,
        "batch_size": 256,
        "group_size": 8,
        "min_tokens": lengths.fewest,
        "max_tokens": lengths.most,
        "places": 256 if lengths is SHORT else 64,
    }
    with ExitStack() as sides:
        opened = {
            name: sides.enter_context(
                Side(
                    VLLM if name == "vllm" else Path(sys.executable),
                    ("bench.runtime.generation", name),
                    settings,
                    cores,
                )
            )
            for name in page.ENGINES
        }
        found: dict[str, list[float]] = {name: [] for name in opened}
        for _ in range(turns + 1):
            for name, side in opened.items():
                turn = side.take_turn()
                found[name].append(turn.num_tokens / turn.cpu_seconds)
    return {name: statistics.median(rates[1:]) for name, rates in found.items()}


def _commit() -> str:
    said = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], check=True, capture_output=True, text=True
    )
    return said.stdout.strip()


if __name__ == "__main__":
    main()
