"""The planners that ours is compared with: real plans, priced by the same model, frozen."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from bench.planner import scenarios
from bench.planner.baselines import (
    areal,
    deap_search,
    greedy,
    pymoo_search,
    random_search,
    stream_rl,
    verl_default,
    verl_tuned,
)
from bench.planner.baselines.anytime import Run
from bench.planner.baselines.encoding import Encoding
from bench.planner.baselines.equal_shares import EqualShares
from bench.planner.baselines.pools import Cut, pool, serving, training
from hetrl_core.plan.plan import Recompute, Sharding, TrainingMode
from hetrl_core.task import Task
from hetrl_planner.hetrl.genome.decode import Decoder
from hetrl_planner.hetrl.genome.groupings import groupings
from hetrl_planner.hetrl.search.starts import Starts
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.layout import Layout, faults
from hetrl_planner.layout.objective import Objective
from hetrl_planner.problem.goals import Fastest, Limits
from hetrl_planner.problem.workload import Workload
from tests.builders import a_fleet

Policy = Callable[[EqualShares], Layout | None]

POLICIES: dict[str, Policy] = {
    "verl-default": verl_default.plan,
    "verl-tuned": verl_tuned.plan,
    "StreamRL": stream_rl.plan,
    "AReaL": areal.plan,
    "AReaL 3:1": lambda evaluator: areal.plan(evaluator, is_tuned=False),
    "greedy": greedy.plan,
}
SEARCHES = {
    "random": random_search.search,
    "DEAP": deap_search.search,
    "pymoo": pymoo_search.search,
}


def some_work(*, is_synchronous: bool) -> Workload:
    return scenarios.workload("Qwen2.5-1.5B", tasks=scenarios.GRPO, is_synchronous=is_synchronous)


def prices(
    *, is_synchronous: bool = True, gpus_per_machine: int = 4, **num_gpus: int
) -> EqualShares:
    fleet = a_fleet(gpus_per_machine=gpus_per_machine, **(num_gpus or {"a100": 8, "l40s": 4}))
    return EqualShares(
        some_work(is_synchronous=is_synchronous), scenarios.devices(scenarios.frozen(fleet))
    )


def seconds(evaluator: Evaluator, layout: Layout | None) -> float:
    assert layout
    found = evaluator.evaluate(layout)
    assert isinstance(found, Evaluation), found
    return found.step_seconds


def a_run(evaluator: Evaluator, *, evaluations: int) -> Run:
    limits = Limits(budget_dollars_per_hour=None, max_gpus=None, min_replicas=1, max_replicas=None)
    return Run(
        evaluator=evaluator,
        objective=Objective(goal=Fastest(), limits=limits, devices=evaluator.devices),
        evaluations=evaluations,
        should_stop=lambda: False,
    )


@pytest.mark.parametrize("is_synchronous", [True, False], ids=["sync", "async"])
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_policies_give_layouts_that_obey_rules_and_fit(
    policy: Policy, is_synchronous: bool
) -> None:
    # Eight GPUs a machine do not divide the model's twelve heads.
    evaluator = prices(is_synchronous=is_synchronous, gpus_per_machine=8, a100=8, l40s=8)
    layout = policy(evaluator)
    assert seconds(evaluator, layout) > 0
    assert layout
    num_layers = evaluator.work.architecture.num_layers
    assert faults(layout, evaluator.devices, num_layers=num_layers) == ()
    assert {task.task for task in layout.tasks} == set(evaluator.work.tasks)


@pytest.mark.parametrize("is_synchronous", [True, False], ids=["sync", "async"])
def test_tuned_verl_is_never_slower_than_its_default(is_synchronous: bool) -> None:
    evaluator = prices(is_synchronous=is_synchronous)
    tuned = seconds(evaluator, verl_tuned.plan(evaluator))
    assert tuned <= seconds(evaluator, verl_default.plan(evaluator))


def test_default_that_fits_no_gpu_is_no_plan() -> None:
    work = scenarios.workload("Qwen3-14B", tasks=scenarios.PPO, is_synchronous=True)
    devices = scenarios.devices(scenarios.frozen(a_fleet(l4=2)))
    assert verl_default.plan(EqualShares(work, devices)) is None


def test_verl_default_takes_turns_on_gpus_with_two_per_rollout() -> None:
    layout = verl_default.plan(prices())
    assert layout
    assert len(layout.groups) == 1
    assert layout.gpus == frozenset(range(12))
    generation = layout.task(Task.ACTOR_GENERATION)
    assert {len(stage.gpus) for stage in generation.stages} == {2}
    trained = layout.task(Task.ACTOR_TRAINING)
    assert trained.mode == TrainingMode(recompute=Recompute.FULL, sharding=Sharding.FULL)
    assert len(trained.replicas) == 12


def test_stream_rl_keeps_one_kind_and_the_sides_apart() -> None:
    evaluator = prices(is_synchronous=False)
    layout = stream_rl.plan(evaluator)
    assert layout
    kinds = [
        {evaluator.devices.kind(evaluator.devices.gpu_machines[gpu]).name for gpu in task.gpus}
        for task in layout.tasks
    ]
    assert all(len(each) == 1 for each in kinds)
    assert len(layout.groups) == 2


def test_areal_trains_on_one_gpu_of_four_unless_tuned() -> None:
    evaluator = prices(is_synchronous=False, a100=8)
    layout = areal.plan(evaluator, is_tuned=False)
    assert layout
    assert len(layout.task(Task.ACTOR_TRAINING).gpus) <= 2
    assert seconds(evaluator, areal.plan(evaluator)) <= seconds(evaluator, layout)


def test_equal_shares_cost_more_only_on_a_mixed_fleet() -> None:
    for fleet, is_uniform in (({"a100": 8}, True), ({"a100": 4, "l4": 4}, False)):
        equal = prices(is_synchronous=True, **fleet)
        layout = _one_pool(equal)
        balanced = seconds(Evaluator(equal.work, equal.devices), layout)
        if is_uniform:
            assert seconds(equal, layout) == pytest.approx(balanced, rel=0.02)
        else:
            assert seconds(equal, layout) > 1.2 * balanced


def _one_pool(evaluator: EqualShares) -> Layout:
    gpus = pool(evaluator.devices, range(evaluator.devices.num_machines))
    cut = Cut(
        tensor=2,
        num_stages=1,
        mode=TrainingMode(recompute=Recompute.FULL, sharding=Sharding.OPTIMIZER),
    )
    tasks = [
        training(task, gpus, evaluator.work, cut)
        if task is Task.ACTOR_TRAINING
        else serving(task, gpus, evaluator.work, tensor=2)
        for task in evaluator.work.tasks
    ]
    return Layout((tuple(task for task in tasks if task),))


@pytest.mark.parametrize("replicas_first", [True, False], ids=["tp-dp-pp", "tp-pp-dp"])
def test_ranks_are_laid_as_megatron_lays_them(replicas_first: bool) -> None:
    evaluator = prices(a100=8)
    cut = Cut(
        tensor=1,
        num_stages=2,
        mode=TrainingMode(recompute=Recompute.FULL, sharding=Sharding.OPTIMIZER),
        replicas_first=replicas_first,
    )
    gpus = pool(evaluator.devices, range(2))
    task = training(Task.ACTOR_TRAINING, gpus, evaluator.work, cut)
    assert task
    first = [stage.gpus[0] for stage in task.replicas[0]]
    assert first == ([0, 4] if replicas_first else [0, 1])


@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_searches_spend_their_budget_find_a_plan_and_repeat_themselves(search: Callable) -> None:  # type: ignore[type-arg]
    evaluator = prices(is_synchronous=False, gpus_per_machine=2, a100=2, l40s=2)
    found = []
    for _ in range(2):
        best_so_far = []
        run = a_run(evaluator, evaluations=120)
        run.watch = lambda _count, best, seen=best_so_far: seen.append(best)
        plan = search(run, np.random.default_rng(3))
        assert run.count == 120
        assert all(later <= earlier for earlier, later in pairwise(best_so_far))
        assert plan
        found.append(plan.step_seconds)
    assert found[0] == found[1]


def test_first_genes_assign_gpus_and_leave_cuts_to_the_decoder() -> None:
    decoder = Decoder(prices())
    starts, options = Starts(decoder.fitting, np.random.default_rng(5)), groupings(scenarios.GRPO)
    encoding = Encoding(decoder)
    for _ in options:
        genes = encoding.first(starts, np.random.default_rng(7))
        genome = encoding.genome(genes)
        assert genes[0] <= encoding.upper[0]
        assert all(0 <= gene <= upper for gene, upper in zip(genes, encoding.upper, strict=True))
        sizes = decoder.fitting.devices.machine_sizes
        assert all(sum(row) == size for row, size in zip(genome.counts, sizes, strict=True))
        assert sorted(genome.order) == list(range(len(sizes)))
        assert genome.cuts == ()


def test_frozen_figures_do_not_follow_the_catalogue() -> None:
    fleet = scenarios.frozen(a_fleet(a100=8, l40s=8, l4=8))
    figures = {kind.name: (kind.bf16_flops, kind.dollars_per_hour) for kind in fleet.gpu_kinds}
    assert figures == {
        "A100-40GB": (312e12, 2.74),
        "L40S": (362e12, 1.86),
        "L4": (121e12, 0.80),
    }


@pytest.mark.parametrize("scenario", scenarios.SCENARIOS)
def test_scenarios_are_hetrls_fleet(scenario: str) -> None:
    devices = scenarios.devices(scenarios.fleet(scenario))
    counts = dict.fromkeys(("A100-40GB", "L40S", "L4"), 0)
    for site in devices.sites:
        counts[site.kind.name] += site.num_gpus
    assert counts == {"A100-40GB": 24, "L40S": 24, "L4": 16}
