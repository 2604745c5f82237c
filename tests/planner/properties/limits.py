"""Limits of a plan, counted from its machines, GPUs and splits.

The layout behind the plan is not read.
"""

from collections import Counter, defaultdict
from itertools import count

import pytest

from hetrl_core.job.spec import MinimiseCost
from hetrl_core.plan.plan import Infeasible, Plan, ReplicaGroup
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.cost import memory
from hetrl_planner.cost.shard import shards
from hetrl_planner.problem.workload import tasks_of, workload
from tests.planner.properties.cases import PlanCase

Gpu = tuple[str, int]
"""A machine, and one of its GPUs; those that the plan gives no number are below 0."""


def keeps_every_limit(case: PlanCase) -> None:
    found = case.plan()
    if isinstance(found, Infeasible):
        assert all(found.reasons)
        return
    does_every_task_once(case, found)
    has_room_on_each_gpu(case, found)
    stays_within_resources(case, found)
    stays_within_the_staleness_bound(case, found)
    assert found.gap is None or 0 <= found.gap < 1
    assert found.ended_by == "work"


def does_every_task_once(case: PlanCase, found: Plan) -> None:
    planned = {task for group in found.groups for task in group.tasks}
    wanted = set(tasks_of(case.job))
    # A reference that is cut like its trainer scores inside it.
    assert wanted - {Task.REFERENCE_INFERENCE} <= planned <= wanted
    assert case.job.model.architecture
    where = gpus_by_group(found)
    for task in planned:
        groups = found.groups_with(task)
        gpus = [gpu for group, each in where if task in group.tasks for gpu in each]
        assert len(set(gpus)) == len(gpus), f"{task}: two stages on one GPU"
        assert sum(each.work_share for group in groups for each in group.replicas) == (
            pytest.approx(1)
        )
        cuts = {group.parallelism for group in groups}
        assert task not in TRAINING_TASKS or len(cuts) == 1, f"{task}: cut in several ways"
        assert {sum(cut.stage_layers) for cut in cuts} == {case.job.model.architecture.num_layers}


def has_room_on_each_gpu(case: PlanCase, found: Plan) -> None:
    machines = {machine.name: machine for machine in case.fleet.machines}
    on_gpu = footprints(case, found)
    taken = Counter(machine for machine, _ in on_gpu)
    for (name, gpu), tasks in on_gpu.items():
        machine = machines[name]
        assert taken[name] <= machine.num_gpus
        assert gpu < machine.num_gpus
        kind = case.fleet.kind(machine.gpu_kind)
        # Rounded part by part, and one place of a cache is rounded up.
        room = kind.memory_bytes + 8
        assert memory.together(tasks, kind).total_bytes <= room, (name, gpu, tasks)


def footprints(case: PlanCase, found: Plan) -> dict[Gpu, list[memory.Footprint]]:
    """What is on each GPU, from the plan's splits alone."""
    assert case.job.model.architecture
    work = workload(case.job, case.job.model.architecture, programs_stay=case.runnable_only)
    replicas = Counter(
        task for group in found.groups for task in group.tasks for _ in group.replicas
    )
    in_trainer = {Task.REFERENCE_INFERENCE} & set(work.tasks) - set(replicas)
    on_gpu: dict[Gpu, list[memory.Footprint]] = defaultdict(list)
    for group, gpus in gpus_by_group(found):
        tasks = (*group.tasks, *(in_trainer if Task.ACTOR_TRAINING in group.tasks else ()))
        stages = shards(work.architecture, group.parallelism)
        for number, gpu in enumerate(gpus):
            on_gpu[gpu] += memory.more_programs(tasks, work)
            stage = number % group.parallelism.num_gpus // group.parallelism.tensor
            for task in tasks:
                if task in TRAINING_TASKS:
                    assert group.training_mode
                    footprint = memory.training_footprint(
                        stages[stage],
                        work,
                        mode=group.training_mode,
                        num_replicas=replicas[task],
                        passes_in_flight=len(stages) - stage,
                    )
                elif task is Task.ACTOR_GENERATION:
                    footprint = memory.generation_footprint(
                        stages[stage], work, concurrency=group.concurrency
                    )
                else:
                    footprint = memory.inference_footprint(stages[stage], work, task)
                on_gpu[gpu].append(footprint)
    return on_gpu


def gpus_by_group(found: Plan) -> list[tuple[ReplicaGroup, list[Gpu]]]:
    """The GPUs of each group's replicas, in rank order.

    Only GPUs that tasks share have numbers in a plan; the others are not shared.
    """
    unnumbered = count(start=-1, step=-1)
    return [
        (
            group,
            [
                (share.machine, next(unnumbered) if first is None else first + offset)
                for replica in group.replicas
                for share in replica.shares
                for first in [share.first_gpu]
                for offset in range(share.num_gpus)
            ],
        )
        for group in found.groups
    ]


def stays_within_resources(case: PlanCase, found: Plan) -> None:
    resources, wanted = case.job.resources, case.job.rollout
    machines = {machine.name: machine for machine in case.fleet.machines}
    where = gpus_by_group(found)
    used = {gpu for _, gpus in where for gpu in gpus}
    assert len(used) == found.num_gpus
    price = sum(case.fleet.kind(machines[name].gpu_kind).dollars_per_hour for name, _ in used)
    assert found.prediction.dollars_per_hour >= price * (1 - 1e-9)
    # Bytes that leave a region count as well.
    dollars = found.prediction.dollars_per_hour
    assert dollars <= (resources.budget_dollars_per_hour or dollars) * (1 + 1e-6)
    assert found.num_gpus <= (resources.max_gpus or found.num_gpus)
    in_pools = Counter(machines[name].pool for name, _ in used)
    for pool in resources.pools:
        assert in_pools[pool.name] <= (pool.max_gpus or case.fleet.num_gpus)
    for group, gpus in where:
        sites = group.stage_sites or ((group.gpu_kind, group.region),)
        there = {(machines[name].gpu_kind, machines[name].region) for name, _ in gpus}
        assert there == set(sites)
    replicas = sum(len(group.replicas) for group in found.groups_with(Task.ACTOR_GENERATION))
    assert wanted.min_replicas <= replicas <= (wanted.max_replicas or replicas)
    if isinstance(case.job.planning.objective, MinimiseCost):
        required = case.job.planning.objective.required_samples_per_second
        assert found.prediction.samples_per_second >= required * (1 - 1e-6)


def stays_within_the_staleness_bound(case: PlanCase, found: Plan) -> None:
    algorithm, groups = case.job.algorithm, found.groups_with(Task.ACTOR_GENERATION)
    assert 0 <= found.prediction.mean_staleness <= algorithm.max_staleness
    at_once = sum(len(group.replicas) * group.concurrency for group in groups)
    # Each replica's places are rounded up to a whole one; admission keeps to the bound.
    rounded = sum(len(group.replicas) for group in groups)
    assert at_once <= (algorithm.max_staleness + 1) * algorithm.global_batch_size + rounded
    assert all(group.concurrency > 0 for group in groups)
