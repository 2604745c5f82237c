"""Optimality of the searches' plans on fleets small enough to know the optimum.

``python -m bench.planner.optimality`` draws instances, asks the tests' oracle and each search,
keeps what each seed gave, and writes ``docs/results/optimality.md``. Several processes may share
the work: ``--part 1/2``. Seeds that are done are not done again.
"""

import argparse
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from bench.planner.ours import NO_LIMITS, space
from bench.planner.records import RESULTS, RUNS, Record, commit, kept, machine, part_of
from bench.planner.watched import Watched
from hetrl_core.job.spec import Strategy
from hetrl_planner.explain.bound import bound_on
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation, Misfit
from hetrl_planner.plan_job import never
from hetrl_planner.problem.goals import Fastest
from hetrl_planner.strategies.areal_hex import phase_1
from hetrl_planner.strategies.context import SearchContext
from hetrl_planner.strategies.registry import STRATEGIES
from tests.planner.oracle.instances import TASKS, Instance, instance
from tests.planner.oracle.optimum import EVERYTHING, Optimum, Space, disjoint

SEEDS = range(1000, 1060)
EVALUATIONS = 4_000
"""Layouts that each strategy's evolution may price."""

MOST_SECONDS = 60
"""Of CPU for the oracle; what takes it longer to exhaust is left out, and counted."""

MODES = {"async": False, "sync": True}
COMPARED = {
    "HetRL": ("HetRL", "everything"),
    "ILP": ("ILP", "everything"),
    "Auto": ("Auto", "everything"),
    "ArealHex, phase 1": ("phase 1", "own"),
    "ArealHex": ("ArealHex", "own"),
}
"""What a column of the page compares: a strategy, and the space of its optimum."""

ALONE = (Strategy.HETRL, Strategy.ILP, Strategy.AREAL_HEX)
TOLERANCE = 1e-3
MOMENTS = (0.1, 0.3, 1, 3)
"""Seconds of CPU after which searches are held against each other."""

BARS = "median 0 %, 95th percentile at most 2 %, worst at most 5 %"


@dataclass(frozen=True, slots=True)
class Case:
    """One instance to be planned."""

    algorithm: str
    mode: str
    seed: int

    @property
    def instance(self) -> Instance:
        """The fleet and the job."""
        return instance(
            self.seed, algorithm=self.algorithm, is_synchronous=MODES[self.mode], max_gpus=5
        )

    @property
    def path(self) -> Path:
        """Where its record is kept."""
        return RUNS / "optimality" / f"{self.algorithm}-{self.mode}-{self.seed}.json"


def main() -> None:
    """Compute what is missing, and write the page of what there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="1/1", help="which part of the work, as in 2/3")
    parser.add_argument("--fresh", action="store_true", help="compute what is kept once more")
    parser.add_argument("--page-only", action="store_true", help="write what there is")
    chosen = parser.parse_args()
    cases = [Case(algorithm, mode, seed) for seed in SEEDS for algorithm in TASKS for mode in MODES]
    if not chosen.page_only:
        for case in part_of(chosen.part, cases):
            kept(case.path, partial(_computed, case), fresh=chosen.fresh)
    records = {case: kept(case.path, dict) for case in cases if case.path.exists()}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "optimality.md").write_text(_page(records, of=len(cases)))


def _computed(case: Case) -> Record:
    drawn = case.instance
    record: Record = {"instance": drawn.name, "seconds": {}, "steps": {}}
    record |= {"improvements": {}, "is_exhausted": True}
    devices = drawn.devices
    try:
        with _within(MOST_SECONDS):
            _note(record, "everything", lambda: _best(drawn, EVERYTHING))
    except TimeoutError:
        return record | {"steps": {"everything": None}, "is_exhausted": False}
    if record["steps"]["everything"] is None:
        return record
    own = [disjoint(devices, trainer_site=site) for site in range(len(devices.sites))]
    _note(
        record, "own", lambda: min(filter(None, (_best(drawn, each) for each in own)), default=None)
    )
    for strategy in (Strategy.HETRL, Strategy.ILP, Strategy.AUTO, Strategy.AREAL_HEX):
        trace = Trace()
        _note(record, strategy, partial(_planned, drawn, strategy, trace))
        record["improvements"][strategy] = trace.improvements
    _note(record, "phase 1", lambda: _phase_1(drawn))
    return record


class Trace:
    """When a search found something better, in seconds of CPU, and the step of that."""

    def __init__(self) -> None:
        self._began = process_time()
        self.improvements: list[tuple[float, float]] = []

    def record(self, found: Evaluation | Misfit) -> None:
        """Note a layout that is the best so far."""
        if isinstance(found, Evaluation) and found.step_seconds < self._least:
            self.improvements.append((process_time() - self._began, found.step_seconds))

    @property
    def _least(self) -> float:
        return self.improvements[-1][1] if self.improvements else float("inf")


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """End what takes more CPU than that with a ``TimeoutError``; for the main thread."""

    def give_up(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _note(record: Record, name: str, find: Any) -> None:
    """Keep what a search found, and the seconds of CPU that it took."""
    began = process_time()
    record["steps"][name] = find()
    record["seconds"][name] = process_time() - began


def _best(drawn: Instance, where: Space) -> float | None:
    found = Optimum(Evaluator(drawn.work, drawn.devices), where).find()
    return found.step_seconds if found else None


def _context(drawn: Instance, trace: Trace) -> SearchContext:
    return Watched(
        space=space(drawn.work, drawn.snapshot, limits=NO_LIMITS),
        goal=Fastest(),
        seed=1,
        should_stop=never,
        evaluations=EVALUATIONS,
        report=trace.record,
    )


def _planned(drawn: Instance, strategy: Strategy, trace: Trace) -> float | None:
    found = STRATEGIES[strategy].plan(_context(drawn, trace))
    return found.evaluation.step_seconds if found else None


def _phase_1(drawn: Instance) -> float | None:
    context = _context(drawn, Trace())
    found = phase_1(context, context.space)
    return found.evaluation.step_seconds if found else None


def _page(records: dict[Case, Record], *, of: int) -> str:
    possible = {case: each for case, each in records.items() if each["steps"]["everything"]}
    too_large = sum(not each["is_exhausted"] for each in records.values())
    commits = sorted({each["commit"] for each in records.values()})
    return "\n".join(
        [
            "# How far from the optimum?",
            "",
            f"`python -m bench.planner.optimality` at {commit()} (records of {', '.join(commits)}) "
            f"on {machine()}.",
            f"{len(possible)} random instances of 2 to 5 GPUs, 2 to 4 kinds and 1 to 3 regions, "
            f"seeds {SEEDS.start} to {SEEDS.stop - 1}; {len(records) - len(possible) - too_large} "
            f"more drawn fit no layout at all, {too_large} took the oracle more than "
            f"{MOST_SECONDS} s of CPU and were left out, {of - len(records)} are not done yet.",
            "The optimum is the tests' oracle's (`tests/planner/oracle`): all layouts that the "
            "definition allows, bounded, then priced by the planner's own cost model. ArealHex is "
            "held against the best of its own space: generation apart, everything else on one kind "
            "of GPU in one region; its second phase may leave that space and then has no gap.",
            f"Evolution may price {EVALUATIONS:,} layouts. Bar: {BARS}.",
            "",
            "| algorithm | mode | search | instances | median | 95th percentile | worst "
            "| above 2 % | no plan | CPU seconds, mean |",
            "|---|---|---|---|---|---|---|---|---|---|",
            *(
                _row(name, algorithm, mode, possible)
                for algorithm in (*TASKS, "both")
                for mode in (MODES if algorithm != "both" else ["both"])
                for name in COMPARED
            ),
            "",
            *_auto_against_each(possible),
            "",
            *_bounds(possible),
            "",
            "## Farthest",
            "",
            *_farthest(possible),
            "",
        ]
    )


def _row(name: str, algorithm: str, mode: str, records: dict[Case, Record]) -> str:
    strategy, where = COMPARED[name]
    chosen = [
        each
        for case, each in records.items()
        if algorithm in {"both", case.algorithm}
        and mode in {"both", case.mode}
        and each["steps"][where]
    ]
    gaps = [gap for each in chosen if (gap := _gap(each, strategy, where)) is not None]
    if not gaps:
        return f"| {algorithm} | {mode} | {name} | 0 | | | | | | |"
    seconds = np.mean([each["seconds"][strategy] for each in chosen])
    median, nearly, worst = np.percentile(gaps, [50, 95, 100])
    return (
        f"| {algorithm} | {mode} | {name} | {len(chosen)} | {median:.2%} | {nearly:.2%} "
        f"| {worst:.2%} | {sum(gap > 0.02 for gap in gaps)} | {len(chosen) - len(gaps)} "
        f"| {seconds:.2f} |"
    )


def _gap(record: Record, strategy: str, where: str) -> float | None:
    """Return the share by which a plan's step is longer than the best; 0 if it is shorter."""
    found = record["steps"][strategy]
    return None if found is None else max(0.0, found / record["steps"][where] - 1)


def _bounds(records: dict[Case, Record]) -> list[str]:
    """Tell how far below the optimum the bound lies that plans state their gaps to."""
    weakness: dict[str, list[float]] = {mode: [] for mode in MODES}
    for case, record in records.items():
        best = record["steps"]["everything"]
        here = space(case.instance.work, case.instance.snapshot, limits=NO_LIMITS)
        known = bound_on(here, Fastest(), window_seconds=best)
        weakness[case.mode].append(1 - known.value / best if known else 1.0)
    return [
        "## How weak is the bound?",
        "",
        "The gap that a plan states is to a linear relaxation "
        "(`hetrl_planner/explain/bound.py`). Here "
        "the optimum is known, so what is left of the gap is the relaxation's weakness: GPUs that "
        "share their time in any fraction, without bubbles, messages or waiting.",
        "",
        "| mode | instances | least | median | 95th percentile |",
        "|---|---|---|---|---|",
        *(
            f"| {mode} | {len(gaps)} | {min(gaps):.1%} | {np.percentile(gaps, 50):.1%} "
            f"| {np.percentile(gaps, 95):.1%} |"
            for mode, gaps in weakness.items()
            if gaps
        ),
    ]


def _auto_against_each(records: dict[Case, Record]) -> list[str]:
    """Tell how Auto does beside each strategy alone, both given the same."""
    rows = [_worse_than_alone(records, f"{each:g} s", each) for each in MOMENTS]
    rows.append(_worse_than_alone(records, "all that it takes", float("inf")))
    return [
        "## Auto beside each strategy alone",
        "",
        "What each has found once all have had the same seconds of CPU. *Worse*: Auto's step is "
        "longer than the best of HetRL, the ILP and ArealHex alone by more than 0.1 %.",
        "",
        "| CPU seconds of each | Auto worse | farthest | of them over 5 % | Auto better |",
        "|---|---|---|---|---|",
        *rows,
    ]


def _worse_than_alone(records: dict[Case, Record], said: str, seconds: float) -> str:
    shares = [
        _by_then(each, Strategy.AUTO, seconds) / alone - 1
        for each in records.values()
        if (alone := min(_by_then(each, name, seconds) for name in ALONE)) < float("inf")
    ]
    worse = [share for share in shares if share > TOLERANCE]
    better = sum(share < -TOLERANCE for share in shares)
    farthest = max(worse, default=0.0)
    gap = "no plan yet" if farthest == float("inf") else f"{farthest:.1%}"
    over = sum(share > 0.05 for share in worse)
    return f"| {said} | {len(worse)} of {len(shares)} | {gap} | {over} | {better} |"


def _by_then(record: Record, strategy: str, seconds: float) -> float:
    """Return the shortest step that a search has found by then; infinite if it has none."""
    found = [step for at, step in record["improvements"][strategy] if at <= seconds]
    return float(min(found, default=float("inf")))


def _farthest(records: dict[Case, Record]) -> list[str]:
    gaps = sorted(
        (
            (gap, name, case, record)
            for case, record in records.items()
            for name, (strategy, where) in COMPARED.items()
            if record["steps"][where] and (gap := _gap(record, strategy, where)) and gap > 0.02
        ),
        key=lambda each: -each[0],
    )
    return [
        f"- {gap:.2%}, {name}: {case.algorithm} {case.mode}, seed {case.seed}: {record['instance']}"
        for gap, name, case, record in gaps[:20]
    ] or ["None is farther than 2 %."]


if __name__ == "__main__":
    main()
