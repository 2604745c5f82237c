"""The same case has the same plan, byte for byte, in every process."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest

from hetrl_api.plan.to_core import from_plan
from hetrl_core.fleet.snapshot import Link
from hetrl_core.job.algorithm import AlgorithmType, Mode
from hetrl_core.job.spec import MinimiseCost, Strategy
from hetrl_core.plan.plan import Plan
from hetrl_planner.hetrl.genome.decode import Decoder
from hetrl_planner.hetrl.genome.genome import Genome
from hetrl_planner.hetrl.genome.groupings import groupings
from hetrl_planner.hetrl.search.neighbours import Neighbours
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.phase1.space import space_of
from tests.builders import a_fleet, both
from tests.planner.properties.cases import EVALUATIONS, PlanCase, small

ROOT = Path(__file__).parents[3]
MODULE = "tests.planner.properties.test_repeats"

SITES = ("ohio", "paris", "tokyo", "sydney")
FOUR_REGIONS = both(
    *(a_fleet(a100_80=2, region=region) for region in SITES),
    links=tuple(
        Link(
            source=SITES[here],
            target=SITES[there],
            bytes_per_second=1e9,
            latency_seconds=0.01,
            egress_dollars_per_gib=0.02 + 0.05 * (here + 2.3 * there),
        )
        for here, there in combinations(range(len(SITES)), 2)
    ),
)
TWO_KINDS = a_fleet(h100=4, l40s=2)


def plan_of(case: PlanCase, *, evaluations: int) -> str:
    found = case.plan(evaluations=evaluations)
    assert isinstance(found, Plan), found
    assert found.ended_by == "work"
    return from_plan(found).model_dump_json(by_alias=True)


def neighbours_of_ppo() -> str:
    """The genomes that a descent draws from, where two tasks train."""
    job = small(AlgorithmType.PPO, Mode.SYNC)
    space = space_of(a_fleet(h100=2), job, runnable_only=False)
    decoder = Decoder(Evaluator(space.work, Devices(snapshot=space.snapshot, sites=space.sites)))
    genome = Genome(grouping=(space.work.tasks,), counts=((2,),), order=(0,))
    return repr(list(Neighbours(decoder, list(groupings(space.work.tasks))).of(genome)))


GRPO_JOB = small(AlgorithmType.GRPO, Mode.ASYNC)
CHEAP_JOB = small(AlgorithmType.GRPO, Mode.SYNC, objective=MinimiseCost(2.0))
EGRESS_JOB = small(AlgorithmType.GRPO, Mode.SYNC, max_response_tokens=2048)

REPEATED: dict[str, Callable[[], str]] = {
    "divided": lambda: plan_of(
        PlanCase(TWO_KINDS, small(AlgorithmType.PPO, Mode.ASYNC, strategy=Strategy.ILP)),
        evaluations=120,
    ),
    "fastest": lambda: plan_of(PlanCase(TWO_KINDS, GRPO_JOB), evaluations=120),
    "cheapest": lambda: plan_of(PlanCase(TWO_KINDS, CHEAP_JOB), evaluations=120),
    "two trainings": neighbours_of_ppo,
    "egress": lambda: plan_of(PlanCase(FOUR_REGIONS, EGRESS_JOB), evaluations=0),
}


def print_repeated() -> None:
    """What a process of its own does: a line for each name of ``REPEATED``."""
    for repeated in REPEATED.values():
        print(json.dumps(repeated()))


@pytest.fixture(scope="module")
def answers() -> list[dict[str, str]]:
    """The answers of two processes, whose strings hash differently."""
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"from {MODULE} import print_repeated; print_repeated()",
            ],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("0", "2")
    ]
    texts = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    return [dict(zip(REPEATED, text.splitlines(), strict=True)) for text in texts]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "divided",
        "fastest",
        "cheapest",
        "two trainings",
        "egress",
    ],
)
def test_seed_fixes_the_bytes_in_every_process(answers: list[dict[str, str]], name: str) -> None:
    first, second = answers
    assert first[name] == second[name]


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.slow
def test_seed_fixes_the_bytes_of_a_repeat(mode: Mode) -> None:
    case = PlanCase(a_fleet(a100_80=1, l40s=1), small(AlgorithmType.GRPO, mode))
    first, second = (plan_of(case, evaluations=EVALUATIONS) for _ in range(2))
    assert first == second
