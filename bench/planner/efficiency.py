"""Search efficiency, HetRL's last figure: best step time against evaluations and seconds.

`python -m bench.planner.efficiency` makes it. 64 GPUs in four networks, Qwen3-8B, synchronous
GRPO; ten seeds a search, seconds of one core, so that a busy machine changes little. Runs that
are done are kept until --fresh forgets them.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, product
from math import inf, isinf
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib
import numpy as np

from bench.planner import ours, scenarios
from bench.planner.baselines import (
    deap_search,
    greedy,
    pymoo_search,
    random_search,
    verl_default,
    verl_tuned,
)
from bench.planner.baselines.anytime import Run, Watch
from bench.planner.baselines.equal_shares import EqualShares
from bench.planner.records import RESULTS, RUNS, Record, commit, kept, machine, part_of
from bench.planner.watched import Report, ReportingEvaluator, Watched
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_planner.hetrl.genome.groupings import groupings
from hetrl_planner.hetrl.search.search import search
from hetrl_planner.ilp.find import find
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.objective import Objective
from hetrl_planner.problem.goals import Fastest
from hetrl_planner.problem.workload import Workload
from hetrl_planner.strategies.auto import Auto

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import MaxNLocator, NullLocator

FOLDER = RUNS / "efficiency"
SEEDS = range(1, 11)
MODEL = "Qwen3-8B"

EVALUATIONS = 2_500
"""Of our evolution: about what ten seconds are enough for. All others go on until time is up."""
MOMENTS = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds at which the table reads the step times."""

TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)

COUNTS = (50, 100, 200, 500, 1000)
"""Evaluations at which it reads them."""

Improvement = tuple[float, int, float]
"""Seconds of one core, evaluations, and the step time reached by then."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One search with one seed on one network, watched."""

    work: Workload
    fleet: ClusterSnapshot
    seed: int
    seconds: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "_begin", time.process_time())

    @property
    def now(self) -> float:
        """Seconds since it began."""
        begin: float = self._begin  # type: ignore[attr-defined]
        return time.process_time() - begin

    def should_stop(self) -> bool:
        """Tell whether time is up."""
        return self.now >= self.seconds


Search = Callable[[Trial, Watch], None]


def sha_ea(trial: Trial, watch: Watch) -> None:
    """HetRL's search from random starts."""
    evaluator, objective = _priced(trial)
    search(
        evaluator,
        objective,
        tuple(groupings(trial.work.tasks)),
        evaluations=EVALUATIONS,
        rng=np.random.default_rng(trial.seed),
        should_stop=trial.should_stop,
        watch=watch,
    )


def divided(trial: Trial, watch: Watch) -> None:
    """The ILP alone: which tasks share which machines."""
    evaluator, objective = _watched(trial, watch)
    find(evaluator, objective, should_stop=trial.should_stop, seed=trial.seed)


def auto(trial: Trial, watch: Watch) -> None:
    """All of them, as Auto plans: phase 1, the ILP, and evolution from there."""
    objective = _objective(trial)
    context = Watched(
        space=ours.space(trial.work, trial.fleet, limits=ours.NO_LIMITS),
        goal=Fastest(),
        seed=trial.seed,
        should_stop=trial.should_stop,
        report=_counting(objective, watch),
        evaluations=EVALUATIONS,
    )
    Auto().plan(context)


def _baseline(which: Callable[[Run, np.random.Generator], object]) -> Search:
    def searched(trial: Trial, watch: Watch) -> None:
        evaluator, objective = _priced(trial)
        run = Run(
            evaluator=evaluator,
            objective=objective,
            evaluations=10**9,
            should_stop=trial.should_stop,
            watch=watch,
        )
        which(run, np.random.default_rng(trial.seed))

    return searched


def _priced(trial: Trial) -> tuple[Evaluator, Objective]:
    return Evaluator(trial.work, scenarios.devices(trial.fleet)), _objective(trial)


def _objective(trial: Trial) -> Objective:
    devices = scenarios.devices(trial.fleet)
    return Objective(goal=Fastest(), limits=ours.NO_LIMITS, devices=devices)


def _watched(trial: Trial, watch: Watch) -> tuple[Evaluator, Objective]:
    objective = _objective(trial)
    report = _counting(objective, watch)
    return ReportingEvaluator(trial.work, scenarios.devices(trial.fleet), report), objective


def _counting(objective: Objective, watch: Watch) -> Report:
    """Return the callback that reports each evaluation's number and score."""
    numbers = count(1)
    return lambda found: watch(next(numbers), objective.score(found))


SEARCHES: dict[str, Search] = {
    "HetRL (Auto)": auto,
    "HetRL (SHA-EA)": sha_ea,
    "HetRL (ILP)": divided,
    "DEAP": _baseline(deap_search.search),
    "pymoo": _baseline(pymoo_search.search),
    "random": _baseline(random_search.search),
}
FIXED = {"verl-default": verl_default.plan, "verl-tuned": verl_tuned.plan, "greedy": greedy.plan}
"""Plans that no search improves."""

OURS = ("HetRL (Auto)", "HetRL (SHA-EA)", "HetRL (ILP)")


def main() -> None:
    """Compute what is missing of a part, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of one core, for each search")
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--part", default="1/1", help="number and count of parts")
    parser.add_argument(
        "--fresh", choices=("ours", "all"), help="forget our runs, or the others' too"
    )
    options = parser.parse_args()
    seeds = SEEDS[: options.seeds]
    wanted = list(product(seeds, scenarios.SCENARIOS, SEARCHES))
    for seed, scenario, name in part_of(options.part, wanted):
        _run(scenario, name, seed, options.seconds, fresh=_is_stale(options.fresh, name))
    for scenario, name in product(scenarios.SCENARIOS, FIXED):
        _fixed(scenario, name, fresh=options.fresh == "all")
    missing = [
        each for each in wanted if not _path(each[1], each[2], each[0], options.seconds).exists()
    ]
    if not missing:
        _write(seeds, options.seconds)


def _is_stale(fresh: str | None, name: str) -> bool:
    return fresh == "all" or (fresh == "ours" and name in OURS)


def _work() -> Workload:
    return scenarios.workload(MODEL, tasks=scenarios.GRPO, is_synchronous=True)


def _path(scenario: str, name: str, seed: int, seconds: float) -> Path:
    return FOLDER / f"{seconds:g}s" / f"{scenario}-{name}-{seed}.json".replace(" ", "-")


def _run(scenario: str, name: str, seed: int, seconds: float, *, fresh: bool = False) -> Record:
    def make() -> Record:
        trial = Trial(work=_work(), fleet=scenarios.fleet(scenario), seed=seed, seconds=seconds)
        improvements: list[Improvement] = []
        last = 0

        def watch(count: int, score: tuple[float, float, float]) -> None:
            nonlocal last
            excess, value, _ = score
            last = count
            if not excess and (not improvements or value < improvements[-1][2]):
                improvements.append((trial.now, count, value))

        SEARCHES[name](trial, watch)
        return {"improvements": improvements, "evaluations": last}

    return kept(_path(scenario, name, seed, seconds), make, fresh=fresh)


def _fixed(scenario: str, name: str, *, fresh: bool = False) -> float:
    def make() -> Record:
        evaluator = EqualShares(_work(), scenarios.devices(scenarios.fleet(scenario)))
        layout = FIXED[name](evaluator)
        found = evaluator.evaluate(layout) if layout else None
        return {"seconds": found.step_seconds if isinstance(found, Evaluation) else None}

    seconds = kept(FOLDER / "fixed" / f"{scenario}-{name}.json", make, fresh=fresh)["seconds"]
    return inf if seconds is None else float(seconds)


# Reading


def _after(run: Record, *, seconds: float = inf, count: float = inf) -> float:
    """Return the best step time by then; infinite before the first plan and after the last."""
    if run["evaluations"] < count < inf and run["evaluations"]:
        return inf
    return min(
        (value for at, number, value in run["improvements"] if at <= seconds and number <= count),
        default=inf,
    )


def _median(
    scenario: str,
    name: str,
    seeds: range,
    horizon: float,
    *,
    seconds: float = inf,
    count: float = inf,
) -> float:
    runs = [_run(scenario, name, seed, horizon) for seed in seeds]
    return median(_after(run, seconds=seconds, count=count) for run in runs)


def _write(seeds: range, horizon: float) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    page = "\n".join(_page(seeds, horizon)) + "\n"
    (RESULTS / "efficiency.md").write_text(page)
    _draw(seeds, horizon)
    print(page)


def _page(seeds: range, horizon: float) -> Iterator[str]:
    commits = sorted(
        {
            kept(_path(scenario, name, seed, horizon), dict)["commit"]
            for scenario, name, seed in product(scenarios.SCENARIOS, SEARCHES, seeds)
        }
    )
    yield "# Search efficiency"
    yield ""
    yield (
        f"`python -m bench.planner.efficiency --seconds {horizon:g} --seeds {len(seeds)}` on "
        f"{machine()}; runs at commit {', '.join(commits)}, the page at {commit()}."
    )
    yield (
        f"24 A100-40GB, 24 L40S, 16 L4 in four networks; {MODEL}, GRPO, synchronous. Best step "
        f"time in seconds, by the cost model; median of seeds {seeds[0]} to {seeds[-1]}. Seconds "
        "are of one core and include what a search prepares. All searches price layouts with the "
        "same code; DEAP, pymoo and random share the genome's encoding and its decoder with "
        "HetRL's. What the ILP prices to choose from, groups alone, counts in seconds only. A "
        "dash: no plan yet, or fewer evaluations in the time."
    )
    yield ""
    yield "![best step time against seconds and evaluations](efficiency.png)"
    for scenario in scenarios.SCENARIOS:
        yield ""
        yield f"## {scenario}"
        yield ""
        moments = [each for each in MOMENTS if each <= horizon]
        yield (
            "| search | "
            + " | ".join(f"{each:g} s" for each in moments)
            + " | "
            + " | ".join(f"{each} ev." for each in COUNTS)
            + " |"
        )
        yield "|---" * (1 + len(moments) + len(COUNTS)) + "|"
        for name in SEARCHES:
            cells = [_median(scenario, name, seeds, horizon, seconds=each) for each in moments]
            cells += [_median(scenario, name, seeds, horizon, count=each) for each in COUNTS]
            yield f"| {name} | " + " | ".join(map(_cell, cells)) + " |"
        fixed = ", ".join(f"{name} {_cell(_fixed(scenario, name))}" for name in FIXED)
        yield ""
        yield f"Without a search: {fixed}."
        yield from _verdict(scenario, seeds, horizon)


def _verdict(scenario: str, seeds: range, horizon: float) -> Iterator[str]:
    """Say whether ours leads from 2 s on."""
    moments = list(np.arange(2.0, horizon + 0.01, 0.5))
    behind = [
        f"{name} at {at:g} s ({other:.2f} against {mine:.2f})"
        for at in moments
        for mine in [_median(scenario, OURS[0], seeds, horizon, seconds=at)]
        for name in SEARCHES
        if name not in OURS
        for other in [_median(scenario, name, seeds, horizon, seconds=at)]
        if other < mine
    ]
    if behind:
        yield f"From 2 s on ours is behind: {behind[0]}, last {behind[-1]}."
    elif moments:
        yield "From 2 s on ours leads."


def _cell(seconds: float) -> str:
    return "-" if isinf(seconds) else f"{seconds:.1f}"


def _draw(seeds: range, horizon: float) -> None:
    figure, rows = plt.subplots(
        2, len(scenarios.SCENARIOS), figsize=(16, 7.5), layout="constrained", sharey="col"
    )
    for column, scenario in enumerate(scenarios.SCENARIOS):
        by_seconds, by_count = rows[0][column], rows[1][column]
        for number, name in enumerate(SEARCHES):
            style: dict[str, Any] = {
                "color": f"C{number}",
                "label": name,
                "drawstyle": "steps-post",
            }
            style |= {"linewidth": 2.2 if name in OURS else 1.2}
            at = np.geomspace(0.1, horizon, 60)
            by_seconds.plot(
                at, [_median(scenario, name, seeds, horizon, seconds=each) for each in at], **style
            )
            counts = np.unique(np.geomspace(1, 2000, 60).astype(int))
            by_count.plot(
                counts,
                [_median(scenario, name, seeds, horizon, count=each) for each in counts],
                **style,
            )
        tuned = _fixed(scenario, "verl-tuned")
        for axes in (by_seconds, by_count):
            axes.axhline(tuned, color="grey", linestyle=":", label="verl-tuned")
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_ylim(*_limits(scenario, seeds, horizon, tuned))
            axes.yaxis.set_major_locator(MaxNLocator(6))
            axes.yaxis.set_major_formatter("{x:.0f}")
            axes.yaxis.set_minor_locator(NullLocator())
        by_seconds.set_xticks([each for each in TICKS if each <= horizon])
        by_seconds.minorticks_off()
        by_seconds.xaxis.set_major_formatter("{x:g}")
        by_seconds.set_title(f"{scenario}\nverl-default {_fixed(scenario, 'verl-default'):,.0f} s")
        by_seconds.set_xlabel("seconds of one core")
        by_count.set_xlabel("evaluations")
    rows[0][0].set_ylabel("best step, s")
    rows[1][0].set_ylabel("best step, s")
    handles, labels = rows[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    figure.savefig(RESULTS / "efficiency.png", dpi=110)


def _limits(scenario: str, seeds: range, horizon: float, tuned: float) -> tuple[float, float]:
    least = min(tuned, *(_median(scenario, name, seeds, horizon) for name in SEARCHES))
    return 0.9 * least, 4 * least


if __name__ == "__main__":
    main()
