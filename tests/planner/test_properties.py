"""What holds of every plan that Auto makes, whatever the fleet and the job.

Plans are previews here: tasks share GPUs, pipelines mix kinds. What a plan promises is counted
anew from its machines, GPUs and splits, without the layout that it was written from.
"""

import json
import os
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations, count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetrl_api.decision import from_plan
from hetrl_core.cluster import ClusterSnapshot, Link, Machine
from hetrl_core.job import (
    AlgorithmSpec,
    AlgorithmType,
    JobSpec,
    MinimiseCost,
    Mode,
    PoolSpec,
    ResourcesSpec,
    RolloutSpec,
)
from hetrl_core.plan import Infeasible, Plan, ReplicaGroup
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.cost import memory
from hetrl_planner.cost.shard import shards
from hetrl_planner.hetrl.decode import Decoder
from hetrl_planner.hetrl.genome import Genome
from hetrl_planner.hetrl.groupings import groupings
from hetrl_planner.hetrl.neighbours import Neighbours
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.plan_job import plan, space_of
from hetrl_planner.workload import tasks_of, workload
from tests.builders import a_fleet, a_job, a_kind, both

ROOT = Path(__file__).parents[2]

EVALUATIONS = 60
REGIONS = ("east", "west")
POOLS = (PoolSpec(name="cloud", max_gpus=5), PoolSpec(name="edge"))

Gpu = tuple[str, int]
"""A machine, and one of its GPUs; those that the plan gives no number are below 0."""

Growth = Callable[[ClusterSnapshot, int], ClusterSnapshot]
"""A fleet with more of something; the number says of what."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the planner."""

    fleet: ClusterSnapshot
    job: JobSpec

    def asked(self, *, evaluations: int = EVALUATIONS) -> Plan | Infeasible:
        return plan(self.fleet, self.job, evaluations=evaluations)


# ---- questions ----------------------------------------------------------------------------------


def a_fleet_of(
    machines: list[tuple[str, int, str, str]], *, links: tuple[Link, ...] = ()
) -> ClusterSnapshot:
    return ClusterSnapshot(
        gpu_kinds=tuple(a_kind(kind) for kind in sorted({kind for kind, *_ in machines})),
        machines=tuple(
            Machine(name=f"m{number}", gpu_kind=kind, num_gpus=size, region=region, pool=pool)
            for number, (kind, size, region, pool) in enumerate(machines)
        ),
        links=links,
    )


def machine_lists(
    *, most: int, most_gpus: int
) -> st.SearchStrategy[list[tuple[str, int, str, str]]]:
    one = st.tuples(
        st.sampled_from(["A100-80GB", "L40S", "L4"]),
        st.integers(1, most_gpus),
        st.sampled_from(REGIONS),
        st.sampled_from([pool.name for pool in POOLS]),
    )
    return st.lists(one, min_size=1, max_size=most)


LINKS = st.builds(
    lambda gigabytes, within: (
        Link(
            source="east",
            target="west",
            bytes_per_second=gigabytes * 1e9,
            latency_seconds=0.02,
            egress_dollars_per_gib=0.02,
        ),
        Link(source="east", target="east", bytes_per_second=within * 1e9, latency_seconds=5e-5),
    ),
    st.sampled_from([0.05, 0.5, 5.0]),
    st.sampled_from([1.25, 12.5]),
)
FLEETS = st.builds(a_fleet_of, machine_lists(most=4, most_gpus=4), links=LINKS)
SMALL_FLEETS = st.builds(a_fleet_of, machine_lists(most=2, most_gpus=2), links=LINKS)
ALGORITHMS = st.builds(
    lambda kind, mode, batch, minibatches, kl: AlgorithmSpec(
        type=kind, mode=mode, max_staleness=0 if mode is Mode.SYNC else 2,
        global_batch_size=batch, minibatches=minibatches, kl_coefficient=kl,
    ),
    st.sampled_from(AlgorithmType),
    st.sampled_from(Mode),
    st.sampled_from([16, 256]),
    st.sampled_from([1, 2]),
    st.sampled_from([0.0, 0.01]),
)  # fmt: skip
JOBS = st.builds(
    a_job,
    st.sampled_from(["Qwen3-0.6B", "Qwen3-1.7B", "Qwen3-4B"]),
    algorithm=ALGORITHMS,
    max_response_tokens=st.sampled_from([256, 4096]),
    objective=st.none() | st.builds(MinimiseCost, st.sampled_from([0.1, 1.0, 5.0])),
)
LIMITED_JOBS = st.builds(
    lambda job, budget, most, rollout, pools: replace(
        job,
        resources=ResourcesSpec(pools=pools, budget_dollars_per_hour=budget, max_gpus=most),
        rollout=rollout,
    ),
    JOBS,
    st.none() | st.floats(1.5, 30),
    st.none() | st.integers(2, 8),
    st.sampled_from([RolloutSpec(), RolloutSpec(min_replicas=2, max_replicas=3)]),
    st.sampled_from([(), POOLS]),
)


# ---- limits -------------------------------------------------------------------------------------


@settings(max_examples=5)
@given(fleet=SMALL_FLEETS, job=LIMITED_JOBS)
def test_auto_keeps_every_limit_or_gives_reasons(fleet: ClusterSnapshot, job: JobSpec) -> None:
    keeps_every_limit(Question(fleet, job))


@pytest.mark.slow
@settings(max_examples=20)
@given(fleet=FLEETS, job=LIMITED_JOBS)
def test_auto_keeps_the_limits_of_many_jobs(fleet: ClusterSnapshot, job: JobSpec) -> None:
    keeps_every_limit(Question(fleet, job))


def keeps_every_limit(question: Question) -> None:
    found = question.asked()
    if isinstance(found, Infeasible):
        assert all(found.reasons)
        return
    does_every_task_once(question, found)
    has_room_on_each_gpu(question, found)
    stays_within_resources(question, found)
    stays_within_the_staleness_bound(question, found)
    assert found.gap is None or 0 <= found.gap < 1
    assert found.ended_by == "work"


def does_every_task_once(question: Question, found: Plan) -> None:
    planned = {task for group in found.groups for task in group.tasks}
    wanted = set(tasks_of(question.job.algorithm))
    # A reference that is cut like its trainer scores inside it.
    assert wanted - {Task.REFERENCE_INFERENCE} <= planned <= wanted
    assert question.job.model.architecture
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
        assert {sum(cut.stage_layers) for cut in cuts} == {
            question.job.model.architecture.num_layers
        }


def has_room_on_each_gpu(question: Question, found: Plan) -> None:
    machines = {machine.name: machine for machine in question.fleet.machines}
    on_gpu = footprints(question, found)
    taken = Counter(machine for machine, _ in on_gpu)
    for (name, gpu), tasks in on_gpu.items():
        machine = machines[name]
        assert taken[name] <= machine.num_gpus
        assert gpu < machine.num_gpus
        kind = question.fleet.kind(machine.gpu_kind)
        # Rounded part by part, and one place of a cache is rounded up.
        room = kind.memory_bytes + 8
        assert memory.together(tasks, kind).total_bytes <= room, (name, gpu, tasks)


def footprints(question: Question, found: Plan) -> dict[Gpu, list[memory.Footprint]]:
    """What is on each GPU, from the plan's splits alone."""
    assert question.job.model.architecture
    work = workload(question.job, question.job.model.architecture)
    replicas = Counter(
        task for group in found.groups for task in group.tasks for _ in group.replicas
    )
    in_trainer = {Task.REFERENCE_INFERENCE} & set(work.tasks) - set(replicas)
    on_gpu: dict[Gpu, list[memory.Footprint]] = defaultdict(list)
    for group, gpus in gpus_by_group(found):
        tasks = (*group.tasks, *(in_trainer if Task.ACTOR_TRAINING in group.tasks else ()))
        stages = shards(work.architecture, group.parallelism)
        for number, gpu in enumerate(gpus):
            stage = number % group.parallelism.num_gpus // group.parallelism.tensor
            for task in tasks:
                if task in TRAINING_TASKS:
                    assert group.training_mode
                    footprint = memory.training_footprint(
                        stages[stage], work, mode=group.training_mode,
                        num_replicas=replicas[task], passes_in_flight=len(stages) - stage,
                    )  # fmt: skip
                elif task is Task.ACTOR_GENERATION:
                    footprint = memory.generation_footprint(
                        stages[stage], work, concurrency=group.concurrency
                    )
                else:
                    footprint = memory.inference_footprint(stages[stage], work)
                on_gpu[gpu].append(footprint)
    return on_gpu


def gpus_by_group(found: Plan) -> list[tuple[ReplicaGroup, list[Gpu]]]:
    """The GPUs of each group's replicas, in rank order.

    Only GPUs that tasks share have numbers in a plan; the others are nobody else's.
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


def stays_within_resources(question: Question, found: Plan) -> None:
    resources, wanted = question.job.resources, question.job.rollout
    machines = {machine.name: machine for machine in question.fleet.machines}
    where = gpus_by_group(found)
    used = {gpu for _, gpus in where for gpu in gpus}
    assert len(used) == found.num_gpus
    price = sum(question.fleet.kind(machines[name].gpu_kind).dollars_per_hour for name, _ in used)
    assert found.prediction.dollars_per_hour >= price * (1 - 1e-9)
    # Bytes that leave a region count as well.
    dollars = found.prediction.dollars_per_hour
    assert dollars <= (resources.budget_dollars_per_hour or dollars) * (1 + 1e-6)
    assert found.num_gpus <= (resources.max_gpus or found.num_gpus)
    in_pools = Counter(machines[name].pool for name, _ in used)
    for pool in resources.pools:
        assert in_pools[pool.name] <= (pool.max_gpus or question.fleet.num_gpus)
    for group, gpus in where:
        sites = group.stage_sites or ((group.gpu_kind, group.region),)
        there = {(machines[name].gpu_kind, machines[name].region) for name, _ in gpus}
        assert there == set(sites)
    replicas = sum(len(group.replicas) for group in found.groups_with(Task.ACTOR_GENERATION))
    assert wanted.min_replicas <= replicas <= (wanted.max_replicas or replicas)
    if isinstance(question.job.planning.objective, MinimiseCost):
        required = question.job.planning.objective.required_samples_per_second
        assert found.prediction.samples_per_second >= required * (1 - 1e-6)


def stays_within_the_staleness_bound(question: Question, found: Plan) -> None:
    algorithm, groups = question.job.algorithm, found.groups_with(Task.ACTOR_GENERATION)
    assert 0 <= found.prediction.mean_staleness <= algorithm.max_staleness
    at_once = sum(len(group.replicas) * group.concurrency for group in groups)
    # Each replica's places are rounded up to a whole one; admission keeps to the bound.
    rounded = sum(len(group.replicas) for group in groups)
    assert at_once <= (algorithm.max_staleness + 1) * algorithm.global_batch_size + rounded
    assert all(group.concurrency > 0 for group in groups)


# ---- more is never worse ------------------------------------------------------------------------


def with_one_more_gpu(fleet: ClusterSnapshot, number: int) -> ClusterSnapshot:
    """A fleet with a GPU more in one machine, or beside them in a machine of its own."""
    chosen = fleet.machines[number % len(fleet.machines)]
    if number % 2:
        alone = replace(chosen, name="more", num_gpus=1)
        return replace(fleet, machines=(*fleet.machines, alone))
    grown = replace(chosen, num_gpus=chosen.num_gpus + 1)
    return replace(
        fleet, machines=tuple(grown if each is chosen else each for each in fleet.machines)
    )


def with_a_faster_link(fleet: ClusterSnapshot, number: int) -> ClusterSnapshot:
    chosen = fleet.links[number % len(fleet.links)]
    faster = replace(chosen, bytes_per_second=4 * chosen.bytes_per_second)
    return replace(fleet, links=tuple(faster if each is chosen else each for each in fleet.links))


GROWTHS = st.sampled_from([with_one_more_gpu, with_a_faster_link])


@pytest.mark.slow
@settings(max_examples=3)
@given(fleet=SMALL_FLEETS, job=JOBS, grown=GROWTHS, number=st.integers(0, 7))
def test_more_is_not_worse(
    fleet: ClusterSnapshot, job: JobSpec, grown: Growth, number: int
) -> None:
    is_not_worse_with_more(fleet, job, grown(fleet, number))


@pytest.mark.slow
@settings(max_examples=12)
@given(fleet=FLEETS, job=JOBS, grown=GROWTHS, number=st.integers(0, 7))
def test_more_is_not_worse_for_many_jobs(
    fleet: ClusterSnapshot, job: JobSpec, grown: Growth, number: int
) -> None:
    is_not_worse_with_more(fleet, job, grown(fleet, number))


def is_not_worse_with_more(fleet: ClusterSnapshot, job: JobSpec, more: ClusterSnapshot) -> None:
    poor, rich = Question(fleet, job).asked(), Question(more, job).asked()
    if isinstance(poor, Infeasible):
        return
    assert isinstance(rich, Plan), rich
    assert poor.gap is not None
    assert rich.gap is not None
    before, after = value(poor, job), value(rich, job)
    assert after * (1 - rich.gap) <= before * (1 + 1e-6)
    # What can be had at best grows as well: the bound is of the richer fleet.
    assert after * (1 - rich.gap) <= before * (1 - poor.gap) * (1 + 1e-6)


def value(found: Plan, job: JobSpec) -> float:
    """What the goal makes small."""
    if isinstance(job.planning.objective, MinimiseCost):
        # Auto counts a cent for each GPU, so that none is taken idle.
        return found.prediction.dollars_per_hour + 0.01 * found.num_gpus
    return found.prediction.step_seconds


# ---- names do not matter ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("mode", Mode)
def test_names_of_unequal_machines_change_nothing(mode: Mode) -> None:
    sizes = [("A100-80GB", 1), ("A100-80GB", 2), ("L4", 1)]
    fleet = a_fleet_of([(kind, size, "east", "") for kind, size in sizes])
    # This shuffle turns the order of the names round.
    is_the_same_for_other_names(fleet, small(AlgorithmType.GRPO, mode), random.Random(4))


@pytest.mark.slow
@settings(max_examples=8)
@given(fleet=FLEETS, job=LIMITED_JOBS, order=st.randoms(use_true_random=False))
def test_names_change_nothing_for_many_jobs(
    fleet: ClusterSnapshot, job: JobSpec, order: random.Random
) -> None:
    is_the_same_for_other_names(fleet, job, order)


def is_the_same_for_other_names(fleet: ClusterSnapshot, job: JobSpec, order: random.Random) -> None:
    named = Question(fleet, job).asked()
    renamed = Question(relabelled(fleet, order), job).asked()
    if isinstance(named, Infeasible):
        assert named == renamed
        return
    assert isinstance(renamed, Plan)
    assert renamed.prediction == named.prediction
    assert renamed.gap == named.gap


def relabelled(fleet: ClusterSnapshot, order: random.Random) -> ClusterSnapshot:
    """The same machines under other names, and all that is listed in another order."""
    names = [f"node-{number}" for number in range(len(fleet.machines))]
    order.shuffle(names)
    machines = [
        replace(machine, name=name) for machine, name in zip(fleet.machines, names, strict=True)
    ]
    kinds, links = list(fleet.gpu_kinds), list(fleet.links)
    for several in (machines, kinds, links):
        order.shuffle(several)  # type: ignore[arg-type]
    return ClusterSnapshot(gpu_kinds=tuple(kinds), machines=tuple(machines), links=tuple(links))


# ---- the same question has the same answer ------------------------------------------------------

SITES = ("ohio", "paris", "tokyo", "sydney")
FOUR_REGIONS = both(
    *(a_fleet(a100_80=2, region=region) for region in SITES),
    links=tuple(
        Link(
            source=SITES[here], target=SITES[there], bytes_per_second=1e9, latency_seconds=0.01,
            egress_dollars_per_gib=0.02 + 0.05 * (here + 2.3 * there),
        )
        for here, there in combinations(range(len(SITES)), 2)
    ),
)  # fmt: skip
TWO_KINDS = a_fleet(h100=4, l40s=2)


def small(kind: AlgorithmType, mode: Mode, *, seed: int = 1, **changes: object) -> JobSpec:
    algorithm = AlgorithmSpec(type=kind, mode=mode, max_staleness=0 if mode is Mode.SYNC else 2)
    return a_job("Qwen3-0.6B", algorithm=algorithm, seed=seed, **changes)  # type: ignore[arg-type]


def plan_of(question: Question, *, evaluations: int) -> str:
    found = question.asked(evaluations=evaluations)
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
    "fastest": lambda: plan_of(Question(TWO_KINDS, GRPO_JOB), evaluations=120),
    "cheapest": lambda: plan_of(Question(TWO_KINDS, CHEAP_JOB), evaluations=120),
    "two trainings": neighbours_of_ppo,
    "egress": lambda: plan_of(Question(FOUR_REGIONS, EGRESS_JOB), evaluations=0),
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
                sys.executable, "-c",
                "from tests.planner.test_properties import print_repeated; print_repeated()",
            ],
            cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, text=True,
        )
        for seed in ("0", "2")
    ]  # fmt: skip
    texts = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    return [dict(zip(REPEATED, text.splitlines(), strict=True)) for text in texts]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "fastest",
        "cheapest",
        "two trainings",
        "egress",
    ],
)
def test_the_same_seed_gives_the_same_bytes_in_every_process(
    answers: list[dict[str, str]], name: str
) -> None:
    first, second = answers
    assert first[name] == second[name]


@pytest.mark.parametrize("mode", Mode)
def test_the_same_seed_gives_the_same_bytes_again(mode: Mode) -> None:
    question = Question(a_fleet(a100_80=1, l40s=1), small(AlgorithmType.GRPO, mode))
    first, second = (plan_of(question, evaluations=EVALUATIONS) for _ in range(2))
    assert first == second


# ---- previews that mix kinds ----------------------------------------------------------------


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    "fleet",
    [
        pytest.param(a_fleet(a100_80=1, l40s=1), id="one of each"),
        pytest.param(
            both(a_fleet(a100=2, region="east"), a_fleet(l4=2, region="west")), id="two regions"
        ),
    ],
)
def test_a_pipeline_of_two_kinds_keeps_every_limit(fleet: ClusterSnapshot, mode: Mode) -> None:
    algorithm = AlgorithmSpec(
        mode=mode, max_staleness=0 if mode is Mode.SYNC else 2, kl_coefficient=0.01
    )
    question = Question(fleet, a_job("Qwen3-4B", algorithm=algorithm))
    found = question.asked()
    assert isinstance(found, Plan)
    assert any(len(group.gpu_kinds) > 1 for group in found.groups)
    assert any(len(tasks) > 1 for tasks in footprints(question, found).values())
    keeps_every_limit(question)
