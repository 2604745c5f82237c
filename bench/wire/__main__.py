"""Measures what is missing and writes the page: `make proof-wire`; `python -m bench.wire`.

What is measured is kept in a folder, a file a case, so that a cut proof goes on where it was.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.proof.commit import commit
from bench.wire import bare, load, page, stage
from hetrl_runtime.transport.event_loop import on_the_fastest_loop

RUNS = Path("runs/proof-wire")
RESULTS = Path("docs/results/wire.md")
_NUM_KEPT_FLAT = 200_000
_WARM_UP = 2000
_TO_ALL_BYTES = 256 << 20


def main() -> None:
    """Measure, case by case, and write the page after each."""
    parser = argparse.ArgumentParser(prog="python -m bench.wire", description=__doc__)
    parser.add_argument("--turns", type=int, default=5, help="of each side that is compared")
    parser.add_argument("--trajectories", type=int, default=20_000, help="a turn")
    parser.add_argument("--only", default="", help="a word in the names of what to measure")
    parser.add_argument("--again", action="store_true", help="also what is measured already")
    arguments = parser.parse_args()
    RUNS.mkdir(parents=True, exist_ok=True)
    measures: dict[str, Callable[[], Any]] = {
        "trajectories": lambda: _trajectories(arguments.turns, arguments.trajectories),
        "memory": _memory,
        "stream": lambda: _stream(arguments.turns),
        "readers": lambda: _readers(arguments.turns),
        "engine": _engine,
        "changes": _changes,
    }
    for name, measure in measures.items():
        file = RUNS / f"{name}.json"
        if arguments.only in name and (arguments.again or not file.exists()):
            print(f"== {name}", flush=True)
            busy = page.Busy.now()
            found = measure()
            busy_cores = page.Busy.now().cores_since(busy)
            record = {"commit": commit(), "busy_cores": busy_cores, "found": found}
            file.write_text(json.dumps(record))
        RESULTS.write_text(page.page(RUNS))


def _trajectories(turns: int, number: int) -> dict[str, Any]:
    measured, calling = stage.cores()
    os.sched_setaffinity(0, {calling})
    found: dict[str, Any] = {"ours": [], "bare": []}
    for _ in range(turns):
        with stage.coordinator(measured) as running:
            loaded = on_the_fastest_loop(
                load.put_on(running, num_trajectories=number, in_flight=1, warm_up=_WARM_UP)
            )
        with tempfile.TemporaryDirectory(prefix="hetrl-wire-") as folder:
            beside = bare.measure(
                Path(folder),
                core=measured,
                message_bytes=loaded.message_bytes,
                num_messages=number,
            )
        found["ours"].append({**asdict(loaded), "costs": []})
        found["bare"].append(beside)
    return found


def _memory() -> list[dict[str, Any]]:
    measured, calling = stage.cores()
    os.sched_setaffinity(0, {calling})
    with stage.coordinator(measured) as running:
        loaded = on_the_fastest_loop(
            load.put_on(running, num_trajectories=_NUM_KEPT_FLAT, in_flight=4, warm_up=_WARM_UP)
        )
    return [{"accepted": number, **asdict(cost)} for number, cost in loaded.costs]


def _stream(turns: int) -> dict[str, Any]:
    from bench.wire import weights  # noqa: PLC0415  # cases above are free of torch

    return weights.stream(turns)


def _readers(turns: int) -> dict[str, Any]:
    from bench.wire import readers  # noqa: PLC0415  # torch

    return readers.to_all(_TO_ALL_BYTES, turns)


def _engine() -> dict[str, Any]:
    import torch  # noqa: PLC0415

    from bench.runtime import task  # noqa: PLC0415
    from bench.wire import changes, weights  # noqa: PLC0415

    found = {}
    for size in (task.SMALL, task.LARGE):
        with tempfile.TemporaryDirectory(prefix="hetrl-wire-") as name:
            model = changes.random_model(Path(name), size, torch.bfloat16)
            found[size.name] = weights.into_engine(model)
    return found


def _changes() -> list[dict[str, Any]]:
    import torch  # noqa: PLC0415

    from bench.runtime import task  # noqa: PLC0415
    from bench.wire import changes  # noqa: PLC0415

    return [
        {
            "model": size.name,
            "dtype": str(dtype).removeprefix("torch."),
            "learning_rate": learning_rate,
            **changes.measure(size, dtype, learning_rate),
        }
        for size in (task.SMALL, task.LARGE)
        for dtype in (torch.float32, torch.bfloat16)
        for learning_rate in changes.LEARNING_RATES
    ]


if __name__ == "__main__":
    main()
