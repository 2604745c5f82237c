"""The page about what was played: the comparison over bounds first, then every run."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from bench.proof.commit import machine
from bench.proof.learning.cases import (
    BOUNDS,
    CASES,
    LEAST_AFTER,
    LEAST_PROBLEMS,
    MOST_BEFORE,
    MOST_GAINED_BY_A_CONTROL,
    MOST_LOST_TO_STALENESS,
    STALE,
    STEPS,
    Case,
)
from bench.proof.learning.figure import draw
from bench.proof.learning.play import Kept, final_reward
from hetrl_core.job.algorithm import AlgorithmType
from hetrl_core.job.spec import Engine

RESULTS = Path("docs/results")
PAGE, FIGURE = RESULTS / "learning.md", RESULTS / "learning.png"

Records = Mapping[Case, Kept]


def write(found: Records) -> None:
    """Write the page and its figure."""
    PAGE.write_text("\n".join(_page(found)) + "\n")
    draw(found, FIGURE)


def _page(found: Records) -> Iterator[str]:
    yield "# Does it learn, and from its rewards?"
    yield ""
    yield (
        f"`make proof-learning` on {machine()}: greedy accuracy on at least {LEAST_PROBLEMS:,} "
        "held-out sums, none of which is trained on, before and after `hetrl demo` of "
        "`examples/arithmetic.yaml` (GRPO) and `examples/arithmetic-ppo.yaml`, with the bound η, "
        f"the engine and the seed of each row, and {STEPS} steps."
    )
    yield (
        f"A run must rise from at most {MOST_BEFORE:.0%} to at least {LEAST_AFTER:.0%}, on samples "
        "whose mean staleness is at least η/2 and whose largest is at most η; a control may gain "
        f"at most {100 * MOST_GAINED_BY_A_CONTROL:.0f} points. Rollouts are ahead because they are "
        "the faster side here; admission by the bound is all that holds them."
    )
    yield ""
    yield from _comparison(found)
    yield from _staleness_costs(found)
    yield "## Every run"
    yield ""
    yield from _runs(found)
    missing = [case.name for case in CASES if case not in found]
    if missing:
        yield ""
        yield f"Not played yet, {len(missing)} of {len(CASES)}: {', '.join(missing)}."


def _comparison(found: Records) -> Iterator[str]:
    yield "## Decoupled and naive PPO objectives"
    yield ""
    yield (
        "After the ablation of AReaL (arXiv:2505.24298, section 6): the same settings but for the "
        "policy that clipping holds the new one near. Decoupled: the policy as the step finds it, "
        "with a weight for stale samples (`proximalPolicy: StepStart`, the default). Naive: the "
        "policy that sampled (`Behaviour`). Mean final accuracy over the seeds played, their "
        "number in brackets, with the transformers engine; nothing is asked of the naive column."
    )
    yield ""
    yield "![accuracy and reward against the bound](learning.png)"
    yield ""
    yield "| η | GRPO, decoupled | GRPO, naive | PPO, decoupled | PPO, naive |"
    yield "|---|---|---|---|---|"
    for bound in BOUNDS:
        cells = [
            _mean_after(_alike(found, algorithm, bound, is_naive=is_naive))
            for algorithm in AlgorithmType
            for is_naive in (False, True)
        ]
        yield f"| {bound} | {' | '.join(cells)} |"
    yield ""


def _staleness_costs(found: Records) -> Iterator[str]:
    """Say what the stale bound costs beside bound 0, wherever both were played."""
    for algorithm in AlgorithmType:
        for engine in Engine:
            fresh, stale = (
                {case.seed: each for case, each in _learning(found, algorithm, engine, bound)}
                for bound in (0, STALE)
            )
            for seed in sorted(fresh.keys() & stale.keys()):
                lost = _after(fresh[seed]) - _after(stale[seed])
                verdict = "holds" if lost <= MOST_LOST_TO_STALENESS else "**does not hold**"
                yield (
                    f"- {algorithm}, {engine}, seed {seed}: η = {STALE} ends {100 * abs(lost):.1f} "
                    f"points {'below' if lost > 0 else 'above'} η = 0 (at most "
                    f"{100 * MOST_LOST_TO_STALENESS:.0f} below): {verdict}"
                )
    yield ""


def _runs(found: Records) -> Iterator[str]:
    yield (
        "| run | before | after | last rewards | mean staleness | largest | trajectories | time "
        "| holds | commit |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for case, each in found.items():
        result = each.result
        wrong = ", ".join(case.shortcomings(result))
        verdict = f"**no**: {wrong}" if wrong else "compared" if case.is_naive else "yes"
        age = "" if each.is_of(case) else " (earlier code)"
        yield (
            f"| {case.name} | {result['accuracy_before']:.1%} | {result['accuracy_after']:.1%} "
            f"| {final_reward(each):.3f} "
            f"| {result['staleness_mean']:.2f} | {result['staleness_max']} "
            f"| {result['trajectories']:,} | {result['demo_wall_seconds']:.0f} s "
            f"| {verdict} | {each.commit}{age} |"
        )


def _alike(
    found: Records, algorithm: AlgorithmType, bound: int, *, is_naive: bool
) -> Sequence[Kept]:
    return [
        each
        for case, each in found.items()
        if (case.algorithm, case.max_staleness, case.is_naive) == (algorithm, bound, is_naive)
        and case.engine is Engine.TRANSFORMERS
        and not case.control
    ]


def _learning(
    found: Records, algorithm: AlgorithmType, engine: Engine, bound: int
) -> Iterator[tuple[Case, Kept]]:
    asked = (algorithm, engine, bound)
    for case, each in found.items():
        is_plain = not case.control and not case.is_naive
        if is_plain and (case.algorithm, case.engine, case.max_staleness) == asked:
            yield case, each


def _mean_after(records: Sequence[Kept]) -> str:
    if not records:
        return "-"
    return f"{fmean(map(_after, records)):.1%} ({len(records)})"


def _after(found: Kept) -> float:
    return float(found.result["accuracy_after"])
