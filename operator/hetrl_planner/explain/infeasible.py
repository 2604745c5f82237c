"""Reasons why there is no plan, with the number needed and the limit.

Parts that fit nowhere come first. Otherwise each limit is lifted alone, and the search reports
the value needed in its place.
"""

from collections.abc import Iterator
from dataclasses import replace

from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.capabilities import split_obstacle
from hetrl_core.plan.plan import MemoryUse, Parallelism
from hetrl_core.task import Task
from hetrl_core.units import gib
from hetrl_planner.cost.memory import overhead_bytes, training_state_bytes
from hetrl_planner.cost.shard import shards
from hetrl_planner.layout.fit.splits import Split, fullest_rollout_gpu, leanest_training, splits
from hetrl_planner.phase1.iterate import Searcher
from hetrl_planner.phase1.space import Space
from hetrl_planner.problem.goals import ANY_STEP_SECONDS, Cheapest, Fastest, FewestGpus, Goal
from hetrl_planner.problem.sites import Site, without_machines
from hetrl_planner.problem.workload import Workload


def reasons_against(space: Space, job: JobSpec, goal: Goal, searcher: Searcher) -> tuple[str, ...]:
    """Return why no choice in the space meets the job's limits."""
    if not space.sites:
        return tuple(_nothing_eligible(job))
    reasons = []
    if not space.trainings:
        reasons += [_too_large_to_train(space, site) for site in _best_site_per_kind(space)]
    if not space.rollouts:
        reasons += [_too_large_to_generate(space, site) for site in _best_site_per_kind(space)]
    return tuple(reasons) or tuple(_limits_that_bind(space, job, goal, searcher))


def _nothing_eligible(job: JobSpec) -> Iterator[str]:
    empty = without_machines(job.resources, ())
    if not empty:
        yield "the fleet has no machine with GPUs that this release can plan with"
    for pool in empty:
        asked = f" with GPU product {pool.gpu_product}" if pool.gpu_product else ""
        labels = ", ".join(f"{key}={value}" for key, value in pool.node_selector)
        yield f"pool {pool.name}: no machine{asked}{f' and labels {labels}' if labels else ''}"


def _best_site_per_kind(space: Space) -> list[Site]:
    best: dict[str, Site] = {}
    for site in space.sites:
        known = best.get(site.kind.name)
        if known is None or site.num_gpus > known.num_gpus:
            best[site.kind.name] = site
    return list(best.values())


def _too_large_to_train(space: Space, site: Site) -> str:
    work = space.work
    (whole,) = shards(
        work.architecture,
        Parallelism(tensor=1, stage_layers=(work.architecture.num_layers,)),
    )
    trains_critic = Task.CRITIC_TRAINING in work.tasks
    state_bytes = (1 + trains_critic) * training_state_bytes(whole.num_parameters)
    needs = "actor and critic training need" if trains_critic else "actor training needs"
    split, use = min(
        (
            (each, _fullest_gpu(site, each, work, Task.ACTOR_TRAINING))
            for each in splits(site, work, Task.ACTOR_TRAINING, runnable_only=space.runnable_only)
        ),
        key=_least_memory,
    )
    num_replicas, _ = leanest_training(site, split, work)
    shared = f" in {num_replicas} replicas that divide all they can" if num_replicas > 1 else ""
    return (
        f"{needs} {gib(state_bytes)} of weights, gradients and optimizer state; "
        + _largest_split(site, split, use, runnable_only=space.runnable_only, shared=shared)
        + _but_splits_would_fit(space, site, Task.ACTOR_TRAINING)
    )


def _too_large_to_generate(space: Space, site: Site) -> str:
    work = space.work
    split, use = min(
        (
            (each, _fullest_gpu(site, each, work, Task.ACTOR_GENERATION))
            for each in splits(site, work, Task.ACTOR_GENERATION, runnable_only=space.runnable_only)
        ),
        key=_least_memory,
    )
    weight_bytes = 2 * work.architecture.num_parameters
    return (
        f"generation needs {gib(weight_bytes)} of weights and the keys and values of one "
        f"trajectory of {work.max_sample_tokens} tokens; "
        + _largest_split(site, split, use, runnable_only=space.runnable_only)
        + _but_splits_would_fit(space, site, Task.ACTOR_GENERATION)
    )


def _least_memory(pair: tuple[Split, MemoryUse]) -> tuple[int, int]:
    """Order splits by their fullest GPU, those on fewer machines first among equals."""
    split, use = pair
    return (use.total_bytes, split.num_shares)


def _largest_split(
    site: Site, split: Split, use: MemoryUse, *, runnable_only: bool, shared: str = ""
) -> str:
    allows = "that this release runs" if runnable_only else "that this fleet allows"
    spread = "on one machine" if split.num_shares == 1 else f"on {split.num_shares} machines"
    gpus = "1 GPU" if split.num_gpus == 1 else f"{split.num_gpus} GPUs {spread}"
    memory = site.kind.memory_bytes
    return (
        f"the best split {allows} on {site.name}, {gpus} of {gib(memory)} "
        f"({split.parallelism}){shared}, would put {gib(use.total_bytes)} on the fullest GPU, "
        f"{gib(overhead_bytes(site.kind))} of it overhead"
    )


def _but_splits_would_fit(space: Space, site: Site, task: Task) -> str:
    if not space.runnable_only:
        return ""
    fitting = [
        split
        for split in splits(site, space.work, task, runnable_only=False)
        if _fullest_gpu(site, split, space.work, task).total_bytes <= site.kind.memory_bytes
    ]
    if not fitting:
        return ""
    smallest = min(fitting, key=lambda each: (each.num_gpus, each.parallelism.num_stages))
    reason = split_obstacle(task, smallest.parallelism, space.work.engine, space.work.architecture)
    return f" ({smallest.parallelism} would fit, but {reason})"


def _fullest_gpu(site: Site, split: Split, work: Workload, task: Task) -> MemoryUse:
    if task is Task.ACTOR_TRAINING:
        return leanest_training(site, split, work)[1]
    return fullest_rollout_gpu(site, split, work, concurrency=1)


def _limits_that_bind(space: Space, job: JobSpec, goal: Goal, searcher: Searcher) -> Iterator[str]:
    found = list(_lifted_alone(space, job, goal, searcher))
    if found:
        yield from found
        return
    yield _together(space, job, goal, searcher)


def _lifted_alone(space: Space, job: JobSpec, goal: Goal, searcher: Searcher) -> Iterator[str]:
    """Yield each limit without which a plan would exist, with the value that would suffice."""
    limits = space.limits
    paced = Cheapest(ANY_STEP_SECONDS) if isinstance(goal, Fastest) else goal
    if limits.budget_dollars_per_hour is not None:
        lifted = replace(space, limits=replace(limits, budget_dollars_per_hour=None))
        if found := searcher.best(lifted, Cheapest(paced.step_seconds)):
            yield (
                f"resources.budgetPerHour is {limits.budget_dollars_per_hour:.2f} $/h; the "
                f"cheapest plan found costs {found.choice.dollars_per_hour:.2f} $/h"
            )
    if limits.max_gpus is not None:
        lifted = replace(space, limits=replace(limits, max_gpus=None))
        if found := searcher.best(lifted, FewestGpus(paced.step_seconds)):
            yield (
                f"resources.maxGPUs is {limits.max_gpus}; the smallest plan found takes "
                f"{found.choice.num_gpus} GPUs"
            )
    if any(site.max_gpus is not None for site in space.sites):
        yield from _pools_lifted(space, paced, searcher)
    yield from _replicas_lifted(space, job, paced, searcher)
    if not isinstance(goal, Fastest) and (found := searcher.best(space, Fastest())):
        batch = space.work.batch_size
        yield (
            f"the objective asks for {batch / goal.step_seconds:.2f} samples/s; the fastest plan "
            f"found within the limits makes {batch / found.choice.step_seconds:.2f} samples/s"
        )


def _pools_lifted(space: Space, paced: Cheapest | FewestGpus, searcher: Searcher) -> Iterator[str]:
    lifted = _with_sites(space, max_gpus=None)
    if found := searcher.best(lifted, FewestGpus(paced.step_seconds)):
        pools = sorted(
            {f"{site.pool} ({site.max_gpus})" for site in space.sites if site.max_gpus is not None}
        )
        yield (
            f"resources.pools limit the GPUs of {', '.join(pools)}; without these limits the "
            f"smallest plan found takes {found.choice.num_gpus} GPUs"
        )


def _with_sites(space: Space, *, max_gpus: int | None) -> Space:
    """Return the space with another limit on each site's pool."""
    changed = {site: replace(site, max_gpus=max_gpus) for site in space.sites}
    return replace(
        space,
        sites=tuple(changed.values()),
        rollouts=tuple(replace(each, site=changed[each.site]) for each in space.rollouts),
        trainings=tuple(replace(each, site=changed[each.site]) for each in space.trainings),
    )


def _replicas_lifted(
    space: Space, job: JobSpec, paced: Cheapest | FewestGpus, searcher: Searcher
) -> Iterator[str]:
    limits = space.limits
    fixed = job.rollout.replicas is not None
    if limits.min_replicas > space.work.most_running:
        field = "rollout.replicas" if fixed else "rollout.minReplicas"
        yield (
            f"{field} is {limits.min_replicas}; the batch and the staleness bound have use for "
            f"{space.work.most_running} trajectories at once, fewer than one a replica"
        )
        return
    lifted = replace(space, limits=replace(limits, min_replicas=1, max_replicas=None))
    if lifted.limits == limits:
        return
    if found := searcher.best(lifted, FewestGpus(paced.step_seconds)):
        most = limits.max_replicas or "any"
        asked = (
            f"rollout.replicas is {job.rollout.replicas}"
            if fixed
            else f"rollout asks for {limits.min_replicas} to {most} replicas"
        )
        replicas = sum(share.num_replicas for share in found.choice.rollouts)
        yield f"{asked}; without that, the smallest plan found has {replicas} on these GPUs"


def _together(space: Space, job: JobSpec, goal: Goal, searcher: Searcher) -> str:
    """Return a reason that names all limits, as no single one is the cause."""
    free = replace(
        _with_sites(space, max_gpus=None),
        limits=replace(
            space.limits,
            budget_dollars_per_hour=None,
            max_gpus=None,
            min_replicas=1,
            max_replicas=None,
        ),
    )
    if not searcher.best(free, FewestGpus(ANY_STEP_SECONDS)):
        training = min(each.num_gpus for each in space.trainings)
        rollout = min(each.split.num_gpus for each in space.rollouts)
        total = sum(site.num_gpus for site in space.sites)
        return (
            f"training takes at least {training} GPUs and generation at least {rollout}, each "
            f"on machines large enough, and no GPU was found to have room for both; they do not "
            f"fit the fleet's {total} GPUs together, whatever the job's limits"
        )
    return "no single limit is the reason, but together they leave no plan: " + ", ".join(
        _limits_in_words(space, job, goal)
    )


def _limits_in_words(space: Space, job: JobSpec, goal: Goal) -> Iterator[str]:
    limits = space.limits
    if limits.budget_dollars_per_hour is not None:
        yield f"resources.budgetPerHour {limits.budget_dollars_per_hour:g}"
    if limits.max_gpus is not None:
        yield f"resources.maxGPUs {limits.max_gpus}"
    pools = {(site.pool, site.max_gpus) for site in space.sites if site.max_gpus is not None}
    yield from (f"maxGPUs {most} of pool {pool}" for pool, most in sorted(pools))
    yield f"rollout replicas {limits.min_replicas} to {limits.max_replicas or 'any'}"
    if not isinstance(goal, Fastest):
        rate = job.algorithm.global_batch_size / goal.step_seconds
        yield f"required rate {rate:.2f} samples/s"
