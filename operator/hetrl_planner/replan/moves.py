"""Changes of rollouts beside groups that stay: repaired, fewer, more, elsewhere.

A replica's place in its group is its pod's name, so the unchanged replicas keep theirs.
``pricing`` scores the changes.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan, Replica, ReplicaGroup, Share
from hetrl_core.task import Task
from hetrl_planner.replan.pricing import RolloutPricer, Rollouts, sides


def rollouts_beside(
    plan: Plan, snapshot: ClusterSnapshot, job: JobSpec
) -> tuple[RolloutPricer, Rollouts] | None:
    """Return a plan's rollouts, repaired, and the pricer of changes to them.

    None if trainers and inference workers cannot stay.
    """
    parted = sides(plan)
    if parted is None:
        return None
    staying, rollouts = parted
    pricer = RolloutPricer.of(staying, snapshot, job)
    return (pricer, repaired(pricer, rollouts)) if pricer.fits else None


def num_replicas(rollouts: Rollouts) -> int:
    """Count the replicas of all groups."""
    return sum(len(each.replicas) for each in rollouts)


def repaired(pricer: RolloutPricer, rollouts: Rollouts) -> Rollouts:
    """Move replicas from lost machines to others of their site; drop those that do not fit.

    A replica's place in its group is its pod's name, so the others keep theirs.
    """
    kept_groups: list[list[Replica | None]] = []
    free = pricer.free(())
    for group in rollouts:
        kept: list[Replica | None] = []
        for replica in group.replicas:
            needed = Counter({share.machine: 0 for share in replica.shares})
            for share in replica.shares:
                needed[share.machine] += share.num_gpus
            fits = all(free[machine] >= number for machine, number in needed.items())
            if fits:
                free.subtract(needed)
            kept.append(replica if fits else None)
        kept_groups.append(kept)
    filled = []
    for group, kept in zip(rollouts, kept_groups, strict=True):
        places = [each or _placed(pricer, group, free) for each in kept]
        filled.append(replace(group, replicas=_closed(places)))
    return tuple(each for each in filled if each.replicas)


def _closed(places: Sequence[Replica | None]) -> tuple[Replica, ...]:
    """Fill gaps with the last replicas: a StatefulSet loses its last pods only."""
    closed = list(places)
    while None in closed:
        last = closed.pop()
        if last is not None:
            closed[closed.index(None)] = last
    return tuple(each for each in closed if each is not None)


def _placed(pricer: RolloutPricer, group: ReplicaGroup, free: Counter[str]) -> Replica | None:
    """Take a replica's GPUs on machines of its group's site; None if they are not free."""
    if not group.replicas or group.stage_sites:
        return None
    like = group.replicas[0]
    taken: list[Share] = []
    for share in like.shares:
        machine = _machine(pricer, group, free, share.num_gpus)
        if machine is None:
            for each in taken:
                free[each.machine] += each.num_gpus
            return None
        free[machine] -= share.num_gpus
        taken.append(replace(share, machine=machine))
    return replace(like, shares=tuple(taken))


def _machine(
    pricer: RolloutPricer, group: ReplicaGroup, free: Counter[str], num_gpus: int
) -> str | None:
    """Return the fullest machine of a group's site that has room, so that large gaps stay."""
    fitting = [
        (free[machine.name], machine.name)
        for site in pricer.space.sites
        if (site.kind.name, site.region) == (group.gpu_kind, group.region)
        for machine in site.machines
        if free[machine.name] >= num_gpus
    ]
    return min(fitting)[1] if fitting else None


def smaller(rollouts: Rollouts, number: int) -> Iterator[Rollouts]:
    """Yield the ways to give up replicas of one group, the last ones first."""
    for position, group in enumerate(rollouts):
        if len(group.replicas) < number or len(rollouts) == 1 == len(group.replicas):
            continue
        kept = replace(group, replicas=group.replicas[: len(group.replicas) - number])
        others = (*rollouts[:position], kept, *rollouts[position + 1 :])
        yield tuple(each for each in others if each.replicas)


def larger(pricer: RolloutPricer, rollouts: Rollouts, number: int) -> Iterator[Rollouts]:
    """Yield the ways to add equal replicas: to a group, or as a new one."""
    for position, group in enumerate(rollouts):
        more = _more(pricer, rollouts, group, number)
        if more:
            grown = replace(group, replicas=(*group.replicas, *more))
            yield (*rollouts[:position], grown, *rollouts[position + 1 :])
    for group in _new_groups(pricer, rollouts):
        more = _more(pricer, rollouts, group, number)
        if more:
            yield (*rollouts, replace(group, replicas=tuple(more)))


def _more(
    pricer: RolloutPricer, rollouts: Rollouts, group: ReplicaGroup, number: int
) -> list[Replica] | None:
    free = pricer.free(rollouts)
    placed = [_placed(pricer, group, free) for _ in range(number)]
    more = [each for each in placed if each]
    return more if len(more) == number else None


def _new_groups(pricer: RolloutPricer, rollouts: Rollouts) -> Iterator[ReplicaGroup]:
    """Yield groups of other shapes or sites, each with one replica that names no machine yet."""
    known = {(each.gpu_kind, each.region, each.parallelism) for each in rollouts}
    for candidate in pricer.space.rollouts:
        site, split = candidate.site, candidate.split
        if (site.kind.name, site.region, split.parallelism) in known:
            continue
        shares = (Share(machine="", num_gpus=split.share_size),) * split.num_shares
        yield ReplicaGroup(
            tasks=(Task.ACTOR_GENERATION,),
            gpu_kind=site.kind.name,
            region=site.region,
            parallelism=split.parallelism,
            replicas=(Replica(shares=shares),),
            memory=candidate.memory,
        )
