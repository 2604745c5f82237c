"""Sentences beside a plan."""

from dataclasses import replace

import pytest

from hetrl_cli.tables.explanation import REMEDIES, lost_rate, origins, remedy
from hetrl_core.job.spec import Engine
from hetrl_core.task import Task
from hetrl_core.weights.constants import CONSTANTS, Origin
from hetrl_core.weights.way import WeightPath, WeightWay
from tests.builders import a_job
from tests.controller.values import a_plan

PATH = WeightPath(
    region="local", way=WeightWay.PATCHES, readers=2, transfer_seconds=5.0, load_seconds=1.0
)


def generating(rate: float, *paths: WeightPath) -> str:
    """What is said of a plan whose step takes 2 s and whose two rollouts have a rate each."""
    plan = a_plan()
    groups = tuple(
        replace(each, samples_per_second=rate) if Task.ACTOR_GENERATION in each.tasks else each
        for each in plan.groups
    )
    return lost_rate(replace(plan, groups=groups, weight_paths=paths))


@pytest.mark.parametrize(
    ("rate", "paths", "said"),
    [
        pytest.param(64.0, (PATH,), "", id="nothing-is-lost"),
        pytest.param(100.0, (), "rollouts make 200 samples/s while they generate", id="lost"),
        pytest.param(
            100.0,
            (PATH,),
            "rollouts make 200 samples/s while they generate; they pause 1 s of each step to load "
            "weights, which arrive 5 s after they are published",
            id="weights",
        ),
    ],
)
def test_lost_rate_is_explained(rate: float, paths: tuple[WeightPath, ...], said: str) -> None:
    assert generating(rate, *paths) == said


@pytest.mark.parametrize(
    ("bottleneck", "words"),
    [
        ("generation: staleness bound, groups are done within 2 steps", "staleness bound"),
        ("generation: the batch of 64", "the batch of"),
        ("training: HBM bandwidth of the optimizer of the L4s", "HBM bandwidth of the optimizer"),
        ("generation: HBM bandwidth of the L4s", "HBM bandwidth"),
        ("training: gather of the weights of the L4s", "gather of the weights"),
        ("training: compute of the L4s", "compute"),
    ],
)
def test_remedy_names_what_relieves_a_bottleneck(bottleneck: str, words: str) -> None:
    assert remedy(bottleneck) == REMEDIES[words]


def test_origins_are_those_of_the_ways_in_use() -> None:
    plan = replace(a_plan(), weight_paths=(PATH,))
    found = dict(origins(plan, a_job()))
    known = {each.name: each.origin for each in CONSTANTS}

    assert all(known[name] is origin for origin, names in found.items() for name in names)
    assert "decompression and XOR of a version, processor time" in found[Origin.MEASURED]
    assert found[Origin.CALIBRATED] == ("a version into the file that vLLM reads",)
    assert Origin.CALIBRATED not in dict(origins(plan, a_job(engine=Engine.TRANSFORMERS)))
    assert not list(origins(a_plan(), a_job()))
