"""Validation of a manual plan against a job and a fleet: every wrong field, and why.

Nothing is searched or changed. ``capabilities`` states what the runtime can execute; the caller
passes a fleet without GPUs that other jobs hold.
"""

from collections import Counter
from collections.abc import Iterator

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.capabilities import obstacles
from hetrl_core.plan.plan import Plan, Replica, ReplicaGroup
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.cost import memory
from hetrl_planner.cost.shard import Shard, shards
from hetrl_planner.layout.evaluation import Misfit
from hetrl_planner.problem.sites import Site, sites
from hetrl_planner.problem.workload import Workload
from hetrl_planner.replan.pricing import RolloutPricer

SHARES = 1e-6
"""Distance from 1 that sums of work shares may have, as sums of thirds do."""


def machine_misfits(plan: Plan, fleet: ClusterSnapshot, job: JobSpec) -> tuple[str, ...]:
    """Return the machines, kinds, regions and GPUs of a plan that a fleet lacks."""
    machines = {each.name: each for site in _sites(fleet, job) for each in site.machines}
    found = []
    for field, group, replica in _replicas(plan):
        for number, share in enumerate(replica.shares):
            machine = machines.get(share.machine)
            if machine is None:
                found.append(f"{field}: machine {share.machine} is not one that the job may use")
                continue
            stage = _first_stage(group, replica, number)
            for name, wanted, got in zip(
                ("gpuKind", "region"),
                group.site(stage),
                (machine.gpu_kind, machine.region),
                strict=True,
            ):
                if wanted != got:
                    found.append(f"{field}: {name} is {wanted}, machine {machine.name} has {got}")
    for name, wanted_gpus in sorted(_taken(plan).items()):
        if name in machines and wanted_gpus > machines[name].num_gpus:
            found.append(
                f"spec.groups: GPUs of {name} must be <= {machines[name].num_gpus}, "
                f"got {wanted_gpus}"
            )
    return tuple(dict.fromkeys(found))


def misfits(plan: Plan, fleet: ClusterSnapshot, job: JobSpec) -> tuple[str, ...]:
    """Return why a job cannot run a plan on a fleet, by field, limit and value; empty if it can.

    Args:
        plan: the plan of a HetRLPlan object.
        fleet: the machines that the job may use, those that other jobs hold included.
        job: with the model's dimensions.
    """
    found = (
        *machine_misfits(plan, fleet, job),
        *(line for each in enumerate(plan.groups) for line in _shape(*each, job)),
        *_work_shares(plan),
        *_limits(plan, fleet, job),
        *obstacles(plan, job),
    )
    # The cost model prices only complete layouts, so the checks above must pass first.
    return found or tuple(_costs(plan, fleet, job))


def _shape(number: int, group: ReplicaGroup, job: JobSpec) -> Iterator[str]:
    field, model, cut = f"spec.groups[{number}]", job.model.architecture, group.parallelism
    assert model is not None
    if sum(cut.stage_layers) != model.num_layers:
        yield (
            f"{field}.stageLayers must sum to the model's {model.num_layers} layers, "
            f"got {sum(cut.stage_layers)}"
        )
    if model.num_query_heads % cut.tensor:
        yield (
            f"{field}.tensor must divide the model's {model.num_query_heads} query heads, "
            f"got {cut.tensor}"
        )
    for replica in group.replicas:
        taken = sum(each.num_gpus for each in replica.shares)
        if taken != cut.num_gpus:
            yield (
                f"{field}.placements: a replica must take tensor x stages = {cut.num_gpus} GPUs, "
                f"got {taken}"
            )
            return
        if any(each.num_gpus % cut.tensor for each in replica.shares):
            yield (
                f"{field}.placements: the GPUs of each share must be a multiple of tensor "
                f"({cut.tensor}), got {', '.join(str(each.num_gpus) for each in replica.shares)}"
            )
            return
    if TRAINING_TASKS & set(group.tasks) and group.training_mode is None:
        yield f"{field}.training is required of a group that trains"
    if Task.ACTOR_GENERATION in group.tasks and group.concurrency < 1:
        yield f"{field}.concurrency must be >= 1 where a group generates, got {group.concurrency}"


def _work_shares(plan: Plan) -> Iterator[str]:
    for task in Task:
        groups = plan.groups_with(task)
        shares = [each.work_share for group in groups for each in group.replicas]
        if shares and abs(sum(shares) - 1) > SHARES:
            yield f"spec.groups: the workShare of {task} must sum to 1, got {sum(shares):.6g}"
        if task in TRAINING_TASKS and shares and min(shares) <= 0:
            yield f"spec.groups: every workShare of {task} must be > 0, got {min(shares):.6g}"


def _limits(plan: Plan, fleet: ClusterSnapshot, job: JobSpec) -> Iterator[str]:
    resources, rollout = job.resources, job.rollout
    generating = sum(len(each.replicas) for each in plan.groups_with(Task.ACTOR_GENERATION))
    at_least = rollout.replicas or rollout.min_replicas
    at_most = rollout.replicas or rollout.max_replicas
    if generating < at_least:
        yield f"rollout replicas of the plan must be >= {at_least} (spec.rollout), got {generating}"
    if at_most is not None and generating > at_most:
        yield f"rollout replicas of the plan must be <= {at_most} (spec.rollout), got {generating}"
    yield from _replicas_with_work(plan, job)
    if resources.max_gpus is not None and plan.num_gpus > resources.max_gpus:
        yield (
            f"GPUs of the plan must be <= spec.resources.maxGPUs ({resources.max_gpus}), "
            f"got {plan.num_gpus}"
        )
    pool_of = {each.name: site.pool for site in _sites(fleet, job) for each in site.machines}
    taken = Counter[str]()
    for machine, number in _taken(plan).items():
        taken[pool_of.get(machine, "")] += number
    for pool in resources.pools:
        if pool.max_gpus is not None and taken[pool.name] > pool.max_gpus:
            yield (
                f"GPUs of the plan in pool {pool.name} must be <= maxGPUs ({pool.max_gpus}), "
                f"got {taken[pool.name]}"
            )


def _replicas_with_work(plan: Plan, job: JobSpec) -> Iterator[str]:
    """Yield each kind of training with replicas that lack a sequence of a minibatch."""
    sequences = job.algorithm.global_batch_size // job.algorithm.minibatches
    policy = plan.groups_with(Task.ACTOR_TRAINING)
    critic = tuple(each for each in plan.groups_with(Task.CRITIC_TRAINING) if each not in policy)
    for what, groups in (("training", policy), ("critic training", critic)):
        training = sum(len(each.replicas) for each in groups)
        if training > sequences:
            yield (
                f"{what} replicas of the plan must be <= the sequences of a minibatch "
                f"({sequences}), got {training}"
            )


def _costs(plan: Plan, fleet: ClusterSnapshot, job: JobSpec) -> Iterator[str]:
    """Yield the limits of memory and budget that the cost model finds broken."""
    pricer = RolloutPricer.of(plan.groups, fleet, job)
    found = pricer.costs(())
    if isinstance(found, Misfit):
        yield _in_words(found)
        return
    for number, group in enumerate(plan.groups):
        if Task.ACTOR_GENERATION in group.tasks:
            yield from _cache(number, group, plan, fleet, pricer.space.work)
    budget = job.resources.budget_dollars_per_hour
    if budget is not None and found.dollars_per_hour > budget * (1 + 1e-9):
        yield (
            f"$/h of the plan must be <= spec.resources.budgetPerHour ({budget:g}), "
            f"got {found.dollars_per_hour:.2f}"
        )


def _in_words(found: Misfit) -> str:
    if "too small" not in found.reason:
        # Only searches use its excess.
        return found.reason
    return f"memory: {found.reason}, {found.excess:.2f} times its memory is needed"


def _cache(
    number: int, group: ReplicaGroup, plan: Plan, fleet: ClusterSnapshot, work: Workload
) -> Iterator[str]:
    kind = fleet.kind(group.gpu_kind)
    stages = shards(work.architecture, group.parallelism)
    beside = [_beside_bytes(stage, group, plan, work) for stage in stages]
    most = min(
        memory.max_concurrency(stage, kind, work, beside_bytes=taken)
        for stage, taken in zip(stages, beside, strict=True)
    )
    if group.concurrency > most:
        yield (
            f"spec.groups[{number}].concurrency must be <= {most}, what {kind.name} has memory "
            f"for, got {group.concurrency}"
        )


def _beside_bytes(stage: Shard, group: ReplicaGroup, plan: Plan, work: Workload) -> float:
    """Return the bytes that tasks other than generation take of a GPU of one stage."""
    held = list(memory.more_programs(group.tasks, work))
    for task in group.tasks:
        if task in TRAINING_TASKS:
            assert group.training_mode
            trained = sum(len(each.replicas) for each in plan.groups_with(task))
            held.append(
                memory.training_footprint(
                    stage, work, mode=group.training_mode, num_replicas=trained, passes_in_flight=1
                )
            )
        elif task is not Task.ACTOR_GENERATION:
            held.append(memory.inference_footprint(stage, work, task))
    return memory.beside_generation(held, work)


def _replicas(plan: Plan) -> Iterator[tuple[str, ReplicaGroup, Replica]]:
    for number, group in enumerate(plan.groups):
        for replica in group.replicas:
            yield f"spec.groups[{number}].placements", group, replica


def _first_stage(group: ReplicaGroup, replica: Replica, share: int) -> int:
    before = sum(each.num_gpus for each in replica.shares[:share])
    return min(before // group.parallelism.tensor, group.parallelism.num_stages - 1)


def _sites(fleet: ClusterSnapshot, job: JobSpec) -> tuple[Site, ...]:
    return sites(fleet, job.resources)


def _taken(plan: Plan) -> Counter[str]:
    """Return the GPUs by machine."""
    taken = Counter[str]()
    for _, _, replica in _replicas(plan):
        for share in replica.shares:
            taken[share.machine] += share.num_gpus
    return taken
