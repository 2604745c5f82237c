"""AReaL-Hex's table: mixed fleets against the best of one kind, at one budget and one throughput.

`python -m bench.planner.areal_hex_table` makes it. Both sides rent machines in one region and are
planned by our ArealHex, one side on one kind only: the best that can be had of it. Workload and
budgets are ours, for the paper's are not published; prices are the catalogue's.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from bench.planner import ours, scenarios
from bench.planner.records import RESULTS, RUNS, Record, commit, kept, machine, part_of
from hetrl_core.fleet.snapshot import ClusterSnapshot, Machine
from hetrl_core.job.spec import Strategy
from hetrl_core.task import Task
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.problem.goals import Cheapest, Goal
from hetrl_planner.problem.workload import Workload

FOLDER = RUNS / "areal-hex-table"
MODELS = ("Qwen2.5-1.5B", "Qwen2.5-7B", "Qwen2.5-14B")
FLEETS = {"A100/L40S/L4": ("A100-40GB", "L40S", "L4"), "H800/H20": ("H800-80GB", "H20")}
BUDGETS = {"A100/L40S/L4": 60.0, "H800/H20": 120.0}
"""Dollars an hour."""

GPUS_PER_MACHINE = 8
PRICE_RATIOS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
"""Factors on the price of every kind but the one that is best alone."""

PAPER = {"throughput": 1.50, "cost": 1.46}
MATH = (Task.ACTOR_GENERATION, Task.REFERENCE_INFERENCE, Task.ACTOR_TRAINING)


@dataclass(frozen=True, slots=True)
class Case:
    """A model on a fleet."""

    fleet: str
    model: str

    def __str__(self) -> str:
        return f"{self.fleet} {self.model}".replace("/", "-").replace(" ", "-")


CASES = tuple(Case(fleet, model) for fleet, model in product(FLEETS, MODELS))


def main() -> None:
    """Compute what is missing of a part, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="1/1", help="number and count of parts")
    parser.add_argument("--evaluations", type=int, default=None, help="of our search")
    parser.add_argument("--fresh", action="store_true")
    options = parser.parse_args()
    for case in part_of(options.part, list(CASES)):
        _record(case, options.evaluations, fresh=options.fresh)
    done = [case for case in CASES if _path(case).exists()]
    if len(done) == len(CASES):
        RESULTS.mkdir(parents=True, exist_ok=True)
        page = "\n".join(_page()) + "\n"
        (RESULTS / "areal-hex-table.md").write_text(page)
        print(page)


# Plans


def work_of(model: str) -> Workload:
    """Return a step of long mathematical reasoning, at most one version behind."""
    work = scenarios.workload(model, tasks=MATH, is_synchronous=False)
    return replace(
        work,
        prompt_tokens=256,
        response_tokens=4096,
        max_prompt_tokens=512,
        max_response_tokens=8192,
        batch_size=512,
        max_staleness=4,
    )


def market(kinds: tuple[str, ...], budget: float, prices: dict[str, float]) -> ClusterSnapshot:
    """Return as many machines of each kind as the budget could pay alone, and one more."""
    return ClusterSnapshot(
        gpu_kinds=tuple(
            replace(scenarios.KINDS[name], dollars_per_hour=prices[name]) for name in kinds
        ),
        machines=tuple(
            Machine(name=f"{name.lower()}-{number}", gpu_kind=name, num_gpus=GPUS_PER_MACHINE)
            for name in kinds
            for number in range(int(budget / prices[name] / GPUS_PER_MACHINE) + 1)
        ),
        links=(),
    )


def _plan(
    case: Case,
    kinds: tuple[str, ...],
    prices: dict[str, float],
    *,
    evaluations: int | None,
    goal: Goal | None = None,
) -> Evaluation | None:
    budget = BUDGETS[case.fleet]
    limits = ours.NO_LIMITS if goal else replace(ours.NO_LIMITS, budget_dollars_per_hour=budget)
    return ours.plan(
        work_of(case.model),
        market(kinds, budget, prices),
        strategy=Strategy.AREAL_HEX,
        evaluations=evaluations,
        goal=goal,
        limits=limits,
    )


def _record(case: Case, evaluations: int | None, *, fresh: bool = False) -> Record:
    def make() -> Record:
        begin = time.process_time()
        kinds = FLEETS[case.fleet]
        prices = {name: scenarios.KINDS[name].dollars_per_hour for name in kinds}
        alone = {
            name: found
            for name in kinds
            if (found := _plan(case, (name,), prices, evaluations=evaluations))
        }
        best = min(alone, key=lambda name: alone[name].step_seconds)
        return {
            "alone": {name: each.step_seconds for name, each in alone.items()},
            "best": best,
            "mixed": _at_prices(case, prices, alone[best], evaluations),
            "by_ratio": {
                str(ratio): _at_prices(
                    case,
                    {
                        name: price * (1 if name == best else ratio)
                        for name, price in prices.items()
                    },
                    alone[best],
                    evaluations,
                )
                for ratio in PRICE_RATIOS
            },
            "search_seconds": time.process_time() - begin,
            "evaluations": evaluations,
        }

    return kept(_path(case), make, fresh=fresh)


def _at_prices(
    case: Case, prices: dict[str, float], alone: Evaluation, evaluations: int | None
) -> Record:
    """Return what mixing gains over one plan of one kind, in throughput and in dollars."""
    kinds = FLEETS[case.fleet]
    faster = _plan(case, kinds, prices, evaluations=evaluations)
    cheaper = _plan(case, kinds, prices, evaluations=evaluations, goal=Cheapest(alone.step_seconds))
    return {
        "throughput": alone.step_seconds / faster.step_seconds if faster else 0.0,
        "cost": alone.dollars_per_hour / cheaper.dollars_per_hour if cheaper else 0.0,
    }


def _path(case: Case) -> Path:
    return FOLDER / f"{case}.json"


# The page


def _page() -> Iterator[str]:
    records = {case: _record(case, None) for case in CASES}
    commits = sorted({record["commit"] for record in records.values()})
    yield "# AReaL-Hex's table"
    yield ""
    evaluations = sorted({str(record["evaluations"] or "all") for record in records.values()})
    seconds = sum(record["search_seconds"] for record in records.values())
    yield (
        f"`python -m bench.planner.areal_hex_table` on {machine()}; plans at commit "
        f"{', '.join(commits)}, the page at {commit()}; seed 1, {' and '.join(evaluations)} "
        f"evaluations a plan, {seconds:.0f} s of one core in all."
    )
    yield (
        "GRPO on long mathematical reasoning (256 prompt and 4,096 response tokens on average, 512 "
        "trajectories a step, at most 4 versions behind), catalogue prices, machines of eight in "
        "one region; budgets are "
        + ", ".join(f"{dollars:.0f} $/h for {name}" for name, dollars in BUDGETS.items())
        + ". *Throughput*: at that budget, the best deployment of one kind's step time over the "
        "mixed one's. *Cost*: at that deployment's throughput, its price over the mixed one's. The "
        "paper reports at most 1.50 and 1.46; its prices and budgets are not published. Step "
        "times are the cost model's."
    )
    yield ""
    yield "| fleet | model | best alone | throughput | paper | cost | paper |"
    yield "|---|---|---|---|---|---|---|"
    for case, record in records.items():
        mixed = record["mixed"]
        yield (
            f"| {case.fleet} | {case.model} | {record['best']} | {mixed['throughput']:.2f} "
            f"| 1.31-{PAPER['throughput']:.2f} | {mixed['cost']:.2f} | {PAPER['cost']:.2f} |"
        )
    yield ""
    yield (
        "## With the other kinds' prices changed\n\n"
        "The best alone keeps its price and its plan; every other kind's is multiplied. *Reached*: "
        "the largest factor at which a gain as large as the paper's is found."
    )
    yield ""
    factors = " | ".join(f"{ratio:g}" for ratio in PRICE_RATIOS)
    yield f"| fleet | model | gain | {factors} | reached |"
    yield "|---" * (4 + len(PRICE_RATIOS)) + "|"
    for (case, record), gain in product(records.items(), PAPER):
        gains = [record["by_ratio"][str(ratio)][gain] for ratio in PRICE_RATIOS]
        reached = [
            ratio for ratio, each in zip(PRICE_RATIOS, gains, strict=True) if each >= PAPER[gain]
        ]
        cells = " | ".join(f"{each:.2f}" for each in gains)
        yield (
            f"| {case.fleet} | {case.model} | {gain} | {cells} "
            f"| {f'{max(reached):g}' if reached else 'no'} |"
        )


if __name__ == "__main__":
    main()
