"""HetRL's table: our plan beside verl, tuned verl and StreamRL.

`python -m bench.planner.hetrl_table` makes it.

48 cells: four networks, three models, PPO and GRPO, synchronous and asynchronous. The baselines'
plans are kept apart from ours, for ours change with the search. Every ratio is computed again
with each efficiency, bandwidth and price a quarter up or down; plans stay, prices change. Cells
may be shared out: `--part 1/2` and `--part 2/2` side by side, then once more for the page.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import fmean

from bench.planner import ours, played, scenarios
from bench.planner.baselines import stream_rl, verl_default, verl_tuned
from bench.planner.baselines.equal_shares import EqualShares
from bench.planner.changes import changed
from bench.planner.records import (
    RESULTS,
    RUNS,
    Record,
    commit,
    from_layout,
    kept,
    machine,
    part_of,
    to_layout,
)
from bench.planner.scenarios import Case
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation, Misfit
from hetrl_planner.layout.layout import Layout

POLICIES = {
    "verl-default": verl_default.plan,
    "verl-tuned": verl_tuned.plan,
    "StreamRL": stream_rl.plan,
}
OURS = "ours"
FOLDER = RUNS / "hetrl-table"
SEED = 1

PAPER = {
    ("single-region", "sync"): "1.51-2.05",
    ("multi-region-hybrid", "sync"): "3.01-4.99",
    ("multi-country", "sync"): "1.4-3.07",
    ("multi-continent", "sync"): "2.24-5.46",
    ("single-region", "async"): "-",
    ("multi-region-hybrid", "async"): "4.07-9.17",
    ("multi-country", "async"): "1.71-4.0",
    ("multi-continent", "async"): "4.38-10.76",
}
"""Published ranges against verl (third-party notes on the paper)."""

PAPER_STREAM_RL = {
    "single-region": "1.1-1.31",
    "multi-region-hybrid": "1.11-1.27",
    "multi-country": "1.19-1.5",
    "multi-continent": "2.25-3.72",
}


def main() -> None:
    """Compute what is missing of a part, and write the page once nothing is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="1/1", help="number and count of parts")
    parser.add_argument("--only", default="", help="cells whose name contains this")
    parser.add_argument("--baselines-only", action="store_true")
    parser.add_argument("--evaluations", type=int, default=None, help="of our search")
    parser.add_argument(
        "--fresh", choices=("ours", "all"), help="forget our plans, or the others' too"
    )
    options = parser.parse_args()
    cells = [case for case in scenarios.HETRL_CASES if options.only in str(case)]
    for case in part_of(options.part, cells):
        _baselines(case, fresh=options.fresh == "all")
        if not options.baselines_only:
            _ours(case, options.evaluations, fresh=bool(options.fresh))
            _a100s_alone(case, options.evaluations, fresh=bool(options.fresh))
    done = [case for case in scenarios.HETRL_CASES if _path("ours", case).exists()]
    if done:
        RESULTS.mkdir(parents=True, exist_ok=True)
        page = "\n".join(_page(done)) + "\n"
        (RESULTS / "hetrl-table.md").write_text(page)
        print(page)


# Plans


def _path(what: str, case: Case) -> Path:
    return FOLDER / what / f"{str(case).replace(' ', '-')}.json"


def _baselines(case: Case, *, fresh: bool = False) -> Record:
    def make() -> Record:
        found: Record = {}
        for name, policy in POLICIES.items():
            if name == "StreamRL" and case.is_synchronous:
                continue
            begin = time.process_time()
            evaluator = EqualShares(
                scenarios.work_of(case), scenarios.devices(scenarios.fleet(case.scenario))
            )
            layout = policy(evaluator)
            found[name] = _planned(evaluator.evaluate(layout) if layout else None, begin)
        return found

    return kept(_path("baselines", case), make, fresh=fresh)


def _ours(case: Case, evaluations: int | None, *, fresh: bool = False) -> Record:
    def make() -> Record:
        begin = time.process_time()
        fleet = scenarios.fleet(case.scenario)
        return _planned(
            ours.plan(scenarios.work_of(case), fleet, seed=SEED, evaluations=evaluations), begin
        )

    return kept(_path("ours", case), make, fresh=fresh)


def _a100s_alone(case: Case, evaluations: int | None, *, fresh: bool = False) -> Record:
    """Return our plan on the A100s of one region, to which every network is compared."""
    here = replace(case, scenario="single-region")

    def make() -> Record:
        begin = time.process_time()
        fleet = scenarios.fleet("single-region")
        alone = replace(
            fleet,
            machines=tuple(each for each in fleet.machines if each.gpu_kind == "A100-40GB"),
        )
        return _planned(
            ours.plan(scenarios.work_of(here), alone, seed=SEED, evaluations=evaluations), begin
        )

    return kept(_path("a100s-alone", here), make, fresh=fresh and here == case)


def _planned(found: Evaluation | Misfit | None, begin: float) -> Record:
    planned = {"search_seconds": time.process_time() - begin}
    if not isinstance(found, Evaluation):
        return planned | {"seconds": None, "layout": None}
    return planned | {"seconds": found.step_seconds, "layout": from_layout(found.layout)}


# Ratios


def _played(case: Case) -> Record:
    """Return each plan's step as the simulator plays it."""

    def make() -> Record:
        found: Record = {}
        for name, (evaluator, layout) in _plans(case, scenarios.fleet(case.scenario)).items():
            evaluation = evaluator.evaluate(layout)
            assert isinstance(evaluation, Evaluation), f"{case}, {name}: {evaluation}"
            found[name] = played.step_seconds(evaluation, evaluator)
        return found

    return kept(_path("played", case), make, fresh=_is_older("played", case))


def _plans(case: Case, fleet: ClusterSnapshot) -> dict[str, tuple[Evaluator, Layout]]:
    """Return every plan of a cell with what prices it on a fleet, ours first."""
    work, devices = scenarios.work_of(case), scenarios.devices(fleet)
    mine = to_layout(_ours(case, None)["layout"])
    return {
        OURS: (Evaluator(work, devices), mine),
        **{
            name: (EqualShares(work, devices), to_layout(found["layout"]))
            for name, found in _baselines(case).items()
            if name in POLICIES and found["layout"]
        },
    }


def _is_older(what: str, case: Case) -> bool:
    path = _path(what, case)
    return path.exists() and path.stat().st_mtime < _path("ours", case).stat().st_mtime


def _ratios(case: Case) -> dict[str, float]:
    """Return by how much our step is shorter when played."""
    found = _played(case)
    return {name: found[name] / found[OURS] for name in POLICIES if name in found}


def _modelled(case: Case) -> dict[str, float]:
    """Return every plan's step by the cost model."""
    plans = _plans(case, scenarios.fleet(case.scenario))
    return {name: _seconds(*priced) for name, priced in plans.items()}


def _tornado(case: Case) -> Record:
    """Return each ratio under each change by the cost model, plans unchanged."""

    def make() -> Record:
        found: Record = {}
        for change, fleet in changed(scenarios.fleet(case.scenario)).items():
            seconds = {name: _seconds(*priced) for name, priced in _plans(case, fleet).items()}
            own = seconds.pop(OURS)
            found[change] = {name: each / own for name, each in seconds.items()}
        return found

    return kept(_path("tornado", case), make, fresh=_is_older("tornado", case))


def _seconds(evaluator: Evaluator, layout: Layout) -> float:
    found = evaluator.evaluate(layout)
    assert isinstance(found, Evaluation), f"a plan that fitted no longer does: {found}"
    return found.step_seconds


# The page


def _page(cases: list[Case]) -> Iterator[str]:
    commits = sorted({_ours(case, None)["commit"] for case in cases})
    yield "# HetRL's table"
    yield ""
    yield (
        f"`python -m bench.planner.hetrl_table` on {machine()}; our plans at commit "
        f"{', '.join(commits)}, the page at {commit()}; seed {SEED}. {len(cases)} of "
        f"{len(scenarios.HETRL_CASES)} cells."
    )
    yield (
        "24 A100-40GB, 24 L40S and 16 L4 in machines of eight (`hetrl_planner/presets/hetrl.py`); "
        "prompts and responses of at most 1,024 tokens and half of that on average, 1,024 "
        "trajectories a step in 4 minibatches, asynchronous runs at most one version behind. A "
        "ratio is the baseline's step time over ours, as the simulator plays both plans and, in "
        "brackets, by the cost model; above 1 ours is faster; *none* where a baseline has no plan "
        "that fits; StreamRL is asynchronous only."
    )
    yield ""
    yield (
        "| network | model | algorithm | mode | our step, s | search, s | verl-default "
        "| verl-tuned | StreamRL | least at ±25 % |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for case in cases:
        least, _ = _least(case)
        cells = " | ".join(_cell(case, name) for name in POLICIES)
        yield (
            f"| {case.scenario} | {case.model} | {case.algorithm} | {case.mode} "
            f"| {_played(case)[OURS]:.1f} ({_ours(case, None)['seconds']:.1f}) "
            f"| {_ours(case, None)['search_seconds']:.0f} | {cells} | {least:.2f} |"
        )
    yield from _summary(cases)
    yield from _paper(cases)
    yield from _mixed(cases)
    yield from _sensitivity(cases)


def _cell(case: Case, name: str) -> str:
    if name == "StreamRL" and case.is_synchronous:
        return "-"
    if name not in _ratios(case):
        return "none"
    modelled = _modelled(case)
    return f"{_ratios(case)[name]:.2f} ({modelled[name] / modelled[OURS]:.2f})"


def _summary(cases: list[Case]) -> Iterator[str]:
    yield ""
    yield "| baseline | cells | least | geometric mean | largest | cells below 1 |"
    yield "|---|---|---|---|---|---|"
    for name in POLICIES:
        found = [ratio for case in cases if (ratio := _ratios(case).get(name))]
        if found:
            below = sum(ratio < 1 for ratio in found)
            yield (
                f"| {name} | {len(found)} | {min(found):.2f} | {_mean(found):.2f} "
                f"| {max(found):.2f} | {below} |"
            )


def _paper(cases: list[Case]) -> Iterator[str]:
    yield ""
    yield "## Beside the paper"
    yield ""
    yield "HetRL reports 3.17 times on average and 9.17 times at most over verl (arXiv 2512.12476)."
    yield ""
    yield (
        "| network | mode | verl-default | verl-tuned | paper: verl | StreamRL | paper: StreamRL |"
    )
    yield "|---|---|---|---|---|---|---|"
    for (scenario, mode), published in PAPER.items():
        here = [case for case in cases if (case.scenario, case.mode) == (scenario, mode)]
        if here:
            stream = PAPER_STREAM_RL[scenario] if mode == "async" else "-"
            yield (
                f"| {scenario} | {mode} | {_range(here, 'verl-default')} "
                f"| {_range(here, 'verl-tuned')} | {published} | {_range(here, 'StreamRL')} "
                f"| {stream} |"
            )
    yield ""
    yield (
        "verl-default divides weights over all 64 ranks (FSDP), so that every pass gathers them "
        "over the slowest link: across regions that takes longer than the paper's verl, whose "
        "backend and settings are not published, can have taken. verl-tuned may use pipelines "
        "and any subset of machines."
    )


def _range(cases: list[Case], name: str) -> str:
    found = [ratio for case in cases if (ratio := _ratios(case).get(name))]
    return f"{min(found):.2f}-{max(found):.2f}" if found else "-"


def _mixed(cases: list[Case]) -> Iterator[str]:
    found: dict[str, list[float]] = {}
    for case in cases:
        alone = _a100s_alone(case, None)["seconds"]
        found.setdefault(case.scenario, []).append(alone / _ours(case, None)["seconds"])
    yield ""
    yield "## Mixed and spread against 24 A100s in one region"
    yield ""
    yield (
        "The step of our plan on 24 A100s alone in one region, over that of our plan on all 64 "
        "GPUs in each network. The paper: 1.57-2.0 in one region, 1.09-1.77 across regions."
    )
    yield ""
    yield "| network | least | geometric mean | largest |"
    yield "|---|---|---|---|"
    for scenario, ratios in found.items():
        yield f"| {scenario} | {min(ratios):.2f} | {_mean(ratios):.2f} | {max(ratios):.2f} |"


def _least(case: Case) -> tuple[float, str]:
    """Return the least ratio under any change, and which change that is."""
    return min(
        (ratio, f"{name}, {change}")
        for change, ratios in _tornado(case).items()
        if isinstance(ratios, dict)
        for name, ratio in ratios.items()
    )


def _sensitivity(cases: list[Case]) -> Iterator[str]:
    yield ""
    yield "## With every figure a quarter up or down"
    yield ""
    yield (
        "By the cost model. Plans stay as they were found and are priced again, so that what is "
        "compared was made for other figures. No step time depends on dollars."
    )
    yield ""
    yield "| change | least ratio | cell | geometric mean, verl-tuned |"
    yield "|---|---|---|---|"
    for change in changed(scenarios.fleet(cases[0].scenario)):
        here = [(case, _tornado(case)[change]) for case in cases if change in _tornado(case)]
        least, where = min(
            (ratio, f"{case}: {name}") for case, ratios in here for name, ratio in ratios.items()
        )
        tuned = _mean([ratios["verl-tuned"] for _, ratios in here if "verl-tuned" in ratios])
        yield f"| {change} | {least:.2f} | {where} | {tuned:.2f} |"


def _mean(ratios: list[float]) -> float:
    return exp(fmean(map(log, ratios)))


if __name__ == "__main__":
    main()
