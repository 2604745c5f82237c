"""Costs reached against seconds on DT-FM's five networks: `python -m bench.planner.partition`.

Every search starts from random partitions drawn with its seed, has a cost of its own that
remembers nothing of others, and is timed in seconds of one core, so that a busy machine
changes little. Runs that are done are kept, and not done again; --fresh forgets them.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import median

import matplotlib
import numpy as np

from bench.planner.dtfm import ACTIVATION_BYTES, CASES, GRADIENT_BYTES, SHAPE, CyclicMoves
from hetrl_planner.partition.find import BREEDING, BREEDING_CHAINS, propose, refine_cuts
from hetrl_planner.partition.graph import DeviceGraph, Labels
from hetrl_planner.partition.network import PipelineNetworkCost
from hetrl_planner.partition.search.attraction import attractions
from hetrl_planner.partition.search.evolution import Breeding, MixedMoves, evolve
from hetrl_planner.partition.search.search import Proposals, minimise

matplotlib.use("Agg")
from matplotlib import pyplot as plt

RUNS = Path("runs/bench-partition")
RESULTS = Path("docs/results")
SEEDS = range(1, 11)
MOMENTS = (0.01, 0.03, 0.1, 0.3, 1.0, 1.5, 3.0)
"""Seconds at which the table reads the costs."""

Search = Callable[[DeviceGraph, np.random.Generator], Proposals[object]]


def at_random(_: DeviceGraph, rng: np.random.Generator) -> Proposals[object]:
    while True:
        yield SHAPE.shuffled(rng)


def cuts_and_swaps(graph: DeviceGraph, rng: np.random.Generator) -> Proposals[object]:
    """METIS under ever new seeds, Kernighan-Lin on the cuts, chains of swaps from the best."""
    while True:
        order = rng.permutation(len(graph))
        yield from _reordered(graph, order, rng)


def _reordered(graph: DeviceGraph, order: Labels, rng: np.random.Generator) -> Proposals[object]:
    # METIS's choices depend on the order of devices too: the cases list them by region.
    shuffled = DeviceGraph(
        names=tuple(graph.names[number] for number in order),
        latency_seconds=graph.latency_seconds[np.ix_(order, order)],
        bytes_per_second=graph.bytes_per_second[np.ix_(order, order)],
        weights=graph.weights[order],
    )
    back = np.argsort(order)
    search = refine_cuts(shuffled, SHAPE, rng, message_bytes=ACTIVATION_BYTES)
    labels = next(search)
    while True:
        sent_cost = yield labels[back]
        try:
            labels = search.send(sent_cost)
        except StopIteration:
            return None


def evolution(graph: DeviceGraph, rng: np.random.Generator) -> Proposals[object]:
    """Our evolutionary search, without any cut."""
    moves = MixedMoves(
        shape=SHAPE,
        pulls=attractions(graph, message_bytes=ACTIVATION_BYTES),
        class_of=graph.class_of,
        chains=BREEDING_CHAINS,
    )
    return evolve(SHAPE, rng, local_search=moves, breeding=BREEDING)


def together(graph: DeviceGraph, rng: np.random.Generator) -> Proposals[object]:
    """What `find_partition` does: cuts first, then evolution from them."""
    return propose(graph, SHAPE, rng, message_bytes=ACTIVATION_BYTES)


def dtfm(graph: DeviceGraph, rng: np.random.Generator) -> Proposals[object]:
    """DT-FM's search in its published configuration, our writing."""
    moves = CyclicMoves(shape=SHAPE, transfer_seconds=graph.transfer_seconds(ACTIVATION_BYTES))
    breeding = Breeding(population_size=100, max_children=4900)
    return evolve(SHAPE, rng, local_search=moves, breeding=breeding)


SEARCHES: Mapping[str, Search] = {
    "random": at_random,
    "DT-FM's GCMA": dtfm,
    "METIS + KL": cuts_and_swaps,
    "evolution": evolution,
    "cuts + evolution": together,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One search with one seed, on one case."""

    case: str
    search: str
    seed: int
    commit: str
    evaluations: int
    seconds: float
    """Of one core, until the search ended."""

    improvements: tuple[tuple[float, float], ...]
    """(seconds, cost) whenever the cost fell."""

    def cost_at(self, seconds: float) -> float:
        """Return the least cost by then; infinite before the first."""
        return min((cost for at, cost in self.improvements if at <= seconds), default=np.inf)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.5, help="of one core, for each search")
    parser.add_argument(
        "--whole-seconds",
        type=float,
        default=120.0,
        help="for DT-FM's 4900 children, with the first seed",
    )
    parser.add_argument("--fresh", action="store_true", help="forget the runs that are done")
    options = parser.parse_args()
    found = [
        _kept(RUNS / f"{options.seconds:g}s" / _name(*each), options.fresh, each, options.seconds)
        for each in product(CASES, SEARCHES, SEEDS)
    ]
    whole = [
        _kept(RUNS / "whole" / _name(*each), options.fresh, each, options.whole_seconds)
        for each in product(CASES, ["DT-FM's GCMA"], SEEDS[:1])
    ]
    RESULTS.mkdir(parents=True, exist_ok=True)
    _draw(found, options.seconds, RESULTS / "dtfm.png")
    (RESULTS / "dtfm.md").write_text("\n".join(_page(found, whole, options.seconds)))
    print((RESULTS / "dtfm.md").read_text())
    return 0


def _name(case: str, search: str, seed: int) -> str:
    return f"{case}-{search}-{seed}.json".replace(" ", "-").replace("'", "")


def _kept(path: Path, fresh: bool, what: tuple[str, str, int], seconds: float) -> Run:
    if fresh or not path.exists():
        run = _timed(*what, seconds)
        print(f"{path.stem}: {run.improvements[-1][1]:.3f}", flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(run)))
    fields = json.loads(path.read_text())
    return Run(**fields | {"improvements": tuple(map(tuple, fields["improvements"]))})


def _timed(case: str, search: str, seed: int, seconds: float) -> Run:
    graph = CASES[case]()
    cost = PipelineNetworkCost(
        graph, SHAPE, gradient_bytes=GRADIENT_BYTES, activation_bytes=ACTIVATION_BYTES
    )
    improvements: list[tuple[float, float]] = []
    begin = time.process_time()

    def timed(part_of: Labels) -> float:
        found = cost(part_of)
        if not improvements or found < improvements[-1][1] - 1e-9:
            improvements.append((time.process_time() - begin, found))
        return found

    best = minimise(
        SEARCHES[search](graph, np.random.default_rng(seed)),
        timed,
        max_evaluations=10**9,
        should_stop=lambda: time.process_time() - begin >= seconds,
    )
    return Run(
        case=case,
        search=search,
        seed=seed,
        commit=_commit(),
        evaluations=best.evaluations,
        seconds=time.process_time() - begin,
        improvements=tuple(improvements),
    )


def _page(found: list[Run], whole: list[Run], seconds: float) -> Iterator[str]:
    moments = [each for each in MOMENTS if each <= seconds]
    commits = sorted({run.commit for run in (*found, *whole)})
    yield "# DT-FM's five networks: cost reached against seconds"
    yield ""
    yield (
        f"`python -m bench.planner.partition` on {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, at commit {', '.join(commits)}."
    )
    yield (
        "64 GPUs in 8 stages of 8; cost `C_dp + 2 C_pp` in seconds "
        f"(`hetrl_planner/partition/network.py`). Median of seeds {SEEDS[0]} to {SEEDS[-1]}, from "
        "random starts, each with an empty memory of costs; seconds of one core."
    )
    yield (
        "*Spread* is least and largest after all seconds. Every search, DT-FM's too, is our "
        "writing and asks the same cost; its authors' own program was not timed."
    )
    for case in CASES:
        yield from _table(case, found, moments)
    yield ""
    yield "## DT-FM's whole search"
    yield ""
    yield "Population 100 and 4900 children as published, one seed, beside ours above."
    yield ""
    yield "| case | GCMA | seconds | cuts + evolution, median | seconds until then |"
    yield "|---|---|---|---|---|"
    for run in whole:
        ours = [
            each for each in found if (each.case, each.search) == (run.case, "cuts + evolution")
        ]
        yield (
            f"| {run.case} | {run.improvements[-1][1]:.3f} | {run.seconds:.1f} "
            f"| {median(each.improvements[-1][1] for each in ours):.3f} "
            f"| {median(each.improvements[-1][0] for each in ours):.3f} |"
        )
    yield ""
    yield "![Cost against seconds](dtfm.png)"
    yield ""


def _table(case: str, found: list[Run], moments: list[float]) -> Iterator[str]:
    heads = " | ".join(f"{moment:g} s" for moment in moments)
    yield from ("", f"## {case[0].upper()}{case[1:]}", "")
    yield f"| search | {heads} | spread | evaluations |"
    yield "|---" * (len(moments) + 3) + "|"
    for search in SEARCHES:
        runs = [run for run in found if (run.case, run.search) == (case, search)]
        costs = " | ".join(_said(median(run.cost_at(moment) for run in runs)) for moment in moments)
        last = [run.improvements[-1][1] for run in runs]
        yield (
            f"| {search} | {costs} | {min(last):.3f} to {max(last):.3f} "
            f"| {median(run.evaluations for run in runs):,.0f} |"
        )


def _said(cost: float) -> str:
    return f"{cost:.3f}" if np.isfinite(cost) else "none yet"


def _draw(found: list[Run], seconds: float, path: Path) -> None:
    grid = np.geomspace(0.005, seconds, 200)
    figure, axes = plt.subplots(1, len(CASES), figsize=(4 * len(CASES), 3.6), layout="constrained")
    for axis, case in zip(axes, CASES, strict=True):
        for number, search in enumerate(SEARCHES):
            runs = [run for run in found if (run.case, run.search) == (case, search)]
            costs = np.array([[run.cost_at(moment) for moment in grid] for run in runs])
            # Two that agree would hide each other.
            style = "--" if search == "cuts + evolution" else "-"
            axis.plot(grid, np.median(costs, axis=0), style, color=f"C{number}", label=search)
            axis.fill_between(
                grid,
                *np.quantile(costs, (0.1, 0.9), axis=0, method="nearest"),
                color=f"C{number}",
                alpha=0.15,
                linewidth=0,
            )
        axis.set(xscale="log", title=case, xlabel="seconds of one core")
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("cost, seconds (median of 10 seeds)")
    axes[-1].legend(loc="lower left", fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _commit() -> str:
    """Return the commit that last touched what is timed, and whether it was touched since."""
    rooms = ["operator/hetrl_planner/partition", "operator/hetrl_planner/presets"]
    said = [
        subprocess.run(["git", *arguments, *rooms], check=True, capture_output=True, text=True)
        for arguments in (["log", "-1", "--format=%h", "--"], ["status", "--porcelain", "--"])
    ]
    return said[0].stdout.strip() + (" and uncommitted changes" if said[1].stdout.strip() else "")


if __name__ == "__main__":
    sys.exit(main())
