"""Turns and prices of a plan's groups on their GPUs."""

from dataclasses import replace
from functools import cache

import pytest

from hetrl_core.job.spec import ResourcesSpec
from hetrl_core.plan.plan import Plan
from hetrl_planner.plan_job import plan
from hetrl_planner.simulator.pipeline.placed import Gpu, PlacedGroup, Prices, place
from tests.builders import a_fleet, a_job

pytestmark = pytest.mark.slow

FLEET = a_fleet(a100=10)
TEN_CENTS = replace(
    FLEET, gpu_kinds=tuple(replace(kind, dollars_per_hour=0.1) for kind in FLEET.gpu_kinds)
)


@cache
def placed() -> list[PlacedGroup]:
    made = plan(FLEET, a_job("Qwen3-1.7B"))
    assert isinstance(made, Plan), made
    return place(made, FLEET)


def test_price_does_not_depend_on_the_order_of_gpus() -> None:
    num_gpus = len(frozenset[Gpu]().union(*(each.gpus for each in placed())))
    assert num_gpus >= 8
    # Ten times 0.1, added one after the other, is not 1.
    assert Prices(ResourcesSpec(), TEN_CENTS).charge(placed()) == num_gpus / 10


def test_gpus_are_charged_once() -> None:
    prices = Prices(ResourcesSpec(), TEN_CENTS)
    assert prices.charge(placed()) > 0.0
    assert prices.charge(placed()) == 0.0
