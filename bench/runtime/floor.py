"""Whole steps of both sides beside what no step can do without: what is left to be gained.

    make test-oracles && .venv/bin/python -m bench.runtime.floor

On a CPU that multiplies nothing faster than float32, both sides of ``steps`` spend most of a wide
model's step in matrix products. So ours and TRL's take turns as there, and after each turn the
``parts`` of as many tokens are computed by themselves on the same core, products by the fastest of
torch's kernels. Not among them: attention, norms, sampling, and Python.
"""

import argparse
import json
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch

from bench.runtime import steps, task
from bench.runtime.parts import Floor, Parts
from bench.runtime.turns import Turn
from hetrl_runtime.compute import memory

RUNS = Path("runs/proof-speed-floor")
CASE = next(each for each in steps.CASES if (each.size, each.lengths) == (task.LARGE, task.SHORT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One turn of both sides, and the floors of as many tokens."""

    ours: Turn
    trl: Turn
    ours_floor: Floor
    trl_floor: Floor


def measure(trls: str, *, num_turns: int) -> Iterator[Measured]:
    """Yield turns after one of warm-up; ``trls`` is TRL's setting, of those that are tried."""
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    memory.keep_freed()
    model = RUNS / "model"
    task.make_model(model, CASE.size, CASE.lengths)
    settings = CASE.settings(model)
    parts = Parts(CASE)
    with ExitStack() as opened:
        ours = opened.enter_context(steps.side_of("ours", settings, {core}))
        trl = opened.enter_context(steps.side_of("trl", settings | dict(CASE.trls())[trls], {core}))
        for number in range(1 + num_turns):
            turns = ours.take_turn(), trl.take_turn()
            floors = [parts.floor(each.num_tokens) for each in turns]
            if number:
                yield Measured(
                    ours=turns[0], trl=turns[1], ours_floor=floors[0], trl_floor=floors[1]
                )


def table(found: Sequence[Measured]) -> str:
    """Return medians of all turns, as Markdown."""

    def row(name: str, of: Callable[[Turn, Floor], float]) -> str:
        ours = statistics.median(of(each.ours, each.ours_floor) for each in found)
        trl = statistics.median(of(each.trl, each.trl_floor) for each in found)
        return f"| {name} | {ours:.3g} | {trl:.3g} |"

    def least(of: Callable[[Floor], float]) -> float:
        return statistics.median(each.trl.cpu_seconds / of(each.ours_floor) for each in found)

    ratio = statistics.median(each.trl.cpu_seconds / each.ours.cpu_seconds for each in found)
    return "\n".join(
        [
            "| seconds of a step, medians | ours | TRL |",
            "|---|---|---|",
            row("whole", lambda turn, _: turn.cpu_seconds),
            *(
                row(f"{each.name}, alone", lambda _, floor, name=each.name: getattr(floor, name))  # type: ignore[misc]
                for each in fields(Floor)
            ),
            row("these together", lambda _, floor: floor.whole),
            row("tokens a sample", lambda turn, _: turn.num_tokens / turn.num_samples),
            "",
            f"TRL's step is {ratio:.2f} times ours, {least(lambda each: each.products):.2f} times "
            f"its products, and {least(lambda each: each.whole):.2f} times all these parts of it.",
        ]
    )


def main() -> None:
    """Measure, keep every turn, and print medians."""
    parser = argparse.ArgumentParser(description="What a step cannot do without.")
    parser.add_argument("--turns", type=int, default=15, help="timed, after one of warm-up")
    parser.add_argument(
        "--trl", choices=dict(CASE.trls()), default="passes of 8", help="its setting"
    )
    arguments = parser.parse_args()
    RUNS.mkdir(parents=True, exist_ok=True)
    found: list[Measured] = []
    for each in measure(arguments.trl, num_turns=arguments.turns):
        found.append(each)
        (RUNS / "turns.json").write_text(json.dumps([asdict(each) for each in found], indent=1))
        print(f"turn {len(found)} of {arguments.turns}: {each}", flush=True)
    print(table(found))


if __name__ == "__main__":
    main()
