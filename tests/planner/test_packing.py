"""Packing of small groups: it finds every fit, however tight, and misses nothing better."""

from itertools import product

import pytest

from hetrl_core.task import Task
from hetrl_planner.hetrl.genome.assigned_gpus import Owned
from hetrl_planner.hetrl.genome.packing import Packing
from hetrl_planner.hetrl.genome.training_placement import TaskPlacer
from hetrl_planner.hetrl.genome.ways import Ways
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.fit.fitting import SplitFitter
from hetrl_planner.layout.layout import Layout, TaskLayout, faults
from tests.planner.oracle.instances import Instance, instance

TIGHT = 109
"""A seed whose six models fit four GPUs only if cut in just the right ways."""


def everything(devices: Devices) -> Owned:
    return Owned(
        tuple(
            (machine, devices.first_gpus[machine], devices.machine_sizes[machine])
            for machine in range(devices.num_machines)
        )
    )


def ways_of(drawn: Instance) -> tuple[Evaluator, Ways]:
    evaluator = Evaluator(drawn.work, drawn.devices)
    return evaluator, Ways(evaluator, TaskPlacer(SplitFitter(drawn.work, drawn.devices)))


def packed(drawn: Instance) -> tuple[TaskLayout, ...] | None:
    evaluator, ways = ways_of(drawn)
    return Packing(evaluator, ways, drawn.work.tasks, everything(drawn.devices)).best()


def test_six_models_are_packed_where_they_hardly_fit() -> None:
    drawn = instance(TIGHT, algorithm="PPO", is_synchronous=True, max_gpus=5)
    found = packed(drawn)
    assert found is not None
    layout = Layout((found,))
    assert {task.task for task in found} == set(Task)
    assert not faults(layout, drawn.devices, num_layers=drawn.work.architecture.num_layers)
    assert isinstance(Evaluator(drawn.work, drawn.devices).evaluate(layout), Evaluation)


@pytest.mark.parametrize("seed", [101, 107, 108])
def test_packing_takes_the_least_time_that_fits(seed: int) -> None:
    drawn = instance(seed, algorithm="GRPO", is_synchronous=True, max_gpus=3)
    evaluator, ways = ways_of(drawn)
    owned = everything(drawn.devices)
    found = packed(drawn)
    shortest = min(
        (
            priced.step_seconds
            for several in product(*(ways.of(task, owned)[:6] for task in drawn.work.tasks))
            if isinstance(
                priced := evaluator.evaluate(Layout((tuple(way.task for way in several),))),
                Evaluation,
            )
        ),
        default=None,
    )
    if found is None:
        assert shortest is None
        return
    priced = evaluator.evaluate(Layout((found,)))
    assert isinstance(priced, Evaluation)
    assert shortest is None or priced.step_seconds <= shortest * (1 + 1e-6)


def test_listed_ways_do_not_dominate_each_other() -> None:
    drawn = instance(101, algorithm="GRPO", is_synchronous=True, max_gpus=3)
    _, ways = ways_of(drawn)
    for task in drawn.work.tasks:
        found = ways.of(task, everything(drawn.devices))
        assert list(found) == sorted(found, key=lambda way: way.seconds)
        assert not any(one.beats(other) for one in found for other in found if one is not other)
