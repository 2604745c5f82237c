"""Another number of rollouts, or other machines for them, beside trainers that stay.

A running job's trainers hold hours of state; its rollouts come and go within seconds. So the
replicas that stand keep their places in the plan, those on machines that are gone get other
ones, and the cost model says where one more does most good and where one less does least harm.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hetrl_core.cluster import ClusterSnapshot
from hetrl_core.job import JobSpec
from hetrl_core.plan import Plan, Replica, ReplicaGroup, Share
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.layout import Layout, ReplicaLayout, Stage, TaskLayout
from hetrl_planner.layout.to_plan import prediction
from hetrl_planner.objective import Objective, Score
from hetrl_planner.plan_job import goal_of, never, space_of
from hetrl_planner.search import Space

STEPS = 8
"""In so many steps the number is changed: each asks the cost model about every way to go. Ours."""


def rollouts_anew(
    plan: Plan,
    snapshot: ClusterSnapshot,
    job: JobSpec,
    *,
    should_stop: Callable[[], bool] = never,
) -> Plan | None:
    """Return a plan with the same trainers and the rollouts that a job asks for now.

    Args:
        plan: what runs.
        snapshot: the machines that the job may use, its own among them.
        job: how many rollouts there are to be; where it does not say, as many as there are.
        should_stop: asked again and again; once true, nothing is returned.

    Returns:
        The plan; None where the trainers cannot stay, or the rollouts do not fit beside them.
    """
    training = tuple(each for each in plan.groups if Task.ACTOR_GENERATION not in each.tasks)
    rollouts = tuple(each for each in plan.groups if each.tasks == (Task.ACTOR_GENERATION,))
    has_shared_gpus = len(training) + len(rollouts) != len(plan.groups) or any(
        share.first_gpu is not None
        for group in plan.groups
        for replica in group.replicas
        for share in replica.shares
    )
    if has_shared_gpus:
        return None
    target = _target(job, sum(len(each.replicas) for each in rollouts))
    asked = replace(job, rollout=replace(job.rollout, replicas=target))
    bench = _Bench(
        space=space_of(snapshot, asked, runnable_only=True), job=asked, training=training
    )
    found = _resized(bench, rollouts, target, should_stop)
    evaluation = found and bench.evaluation(found)
    if not found or not evaluation or bench.objective.excess(evaluation):
        return None
    return replace(
        plan,
        groups=(*training, *bench.described(found, evaluation)),
        prediction=prediction(evaluation, bench.space.work),
        gap=None,
        rejected=(),
    )


def _target(job: JobSpec, current: int) -> int:
    rollout = job.rollout
    if rollout.replicas:
        return rollout.replicas
    return max(rollout.min_replicas, min(current, rollout.max_replicas or current))


Rollouts = tuple[ReplicaGroup, ...]


@dataclass(frozen=True, kw_only=True)
class _Bench:
    """Prices rollouts beside the trainers that stay."""

    space: Space
    job: JobSpec
    training: tuple[ReplicaGroup, ...]

    @cached_property
    def evaluator(self) -> Evaluator:
        devices = Devices(snapshot=self.space.snapshot, sites=self.space.sites)
        return Evaluator(self.space.work, devices)

    @cached_property
    def objective(self) -> Objective:
        return Objective(
            goal=goal_of(self.job), limits=self.space.limits, devices=self.evaluator.devices
        )

    @cached_property
    def sizes(self) -> Counter[str]:
        """GPUs of each machine that the job may use."""
        devices = self.evaluator.devices
        return Counter(dict(zip(devices.machine_names, devices.machine_sizes, strict=True)))

    def free(self, rollouts: Rollouts) -> Counter[str]:
        """Return the GPUs by machine that neither side takes; below zero where they do not fit."""
        free = Counter(self.sizes)
        for group in (*self.training, *rollouts):
            for replica in group.replicas:
                for share in replica.shares:
                    free[share.machine] -= share.num_gpus
        return free

    def score(self, rollouts: Rollouts) -> Score:
        """Return how good it is; smaller is better."""
        limits = replace(self.space.limits, min_replicas=1, max_replicas=None)
        return replace(self.objective, limits=limits).score(self.evaluation(rollouts))

    def evaluation(self, rollouts: Rollouts) -> Evaluation | None:
        """Return what the cost model says; None where it does not fit."""
        found = self.evaluator.evaluate(self._layout(rollouts))
        if not isinstance(found, Evaluation):
            return None
        asked = sum(len(each.replicas) for each in rollouts)
        # Rollouts that would always come too late are left out, and the places with them.
        kept = len(found.layout.task(Task.ACTOR_GENERATION).replicas)
        return found if kept == asked else None

    def described(self, rollouts: Rollouts, found: Evaluation) -> Rollouts:
        """Return the groups with the rates that are expected of them now."""
        cost = found.tasks[Task.ACTOR_GENERATION]
        memory = self.evaluator.memory(found)
        layouts = iter(found.layout.task(Task.ACTOR_GENERATION).replicas)
        described, first = [], 0
        for group in rollouts:
            last = first + len(group.replicas)
            gpus = [gpu for _ in group.replicas for stage in next(layouts) for gpu in stage.gpus]
            described.append(
                replace(
                    group,
                    replicas=tuple(
                        replace(each, work_share=share)
                        for each, share in zip(group.replicas, cost.shares[first:last], strict=True)
                    ),
                    # What a pod was started with it keeps: a new one is told what is best now.
                    concurrency=group.concurrency or max(cost.concurrency[first:last]),
                    samples_per_second=sum(cost.rates[first:last]) / (last - first),
                    memory=max((memory[gpu] for gpu in gpus), key=lambda use: use.total_bytes),
                )
            )
            first = last
        return tuple(described)

    def _layout(self, rollouts: Rollouts) -> Layout:
        devices = self.evaluator.devices
        counter = dict(zip(devices.machine_names, devices.first_gpus, strict=False))

        def laid(group: ReplicaGroup) -> tuple[ReplicaLayout, ...]:
            return tuple(_stages(group, replica, counter) for replica in group.replicas)

        side = tuple(
            TaskLayout(task, layouts, group.training_mode if task in TRAINING_TASKS else None)
            for group in self.training
            for layouts in [laid(group)]
            for task in group.tasks
        )
        generating = tuple(layout for group in rollouts for layout in laid(group))
        return Layout((side, (TaskLayout(Task.ACTOR_GENERATION, generating),)))


def _stages(group: ReplicaGroup, replica: Replica, counter: dict[str, int]) -> ReplicaLayout:
    """Give out the next GPUs of each machine, and cut them into stages."""
    gpus: list[int] = []
    for share in replica.shares:
        first = counter[share.machine]
        counter[share.machine] = first + share.num_gpus
        gpus += range(first, first + share.num_gpus)
    tensor = group.parallelism.tensor
    return tuple(
        Stage(tuple(gpus[number * tensor : (number + 1) * tensor]), layers)
        for number, layers in enumerate(group.parallelism.stage_layers)
    )


def _resized(
    bench: _Bench, rollouts: Rollouts, target: int, should_stop: Callable[[], bool]
) -> Rollouts | None:
    """Return the rollouts with as many replicas as asked for; None where they do not fit."""
    if any(number < 0 for number in bench.free(()).values()):
        return None
    found = _mended(bench, rollouts)
    difference = target - _number(found)
    at_once = max(1, abs(difference) // STEPS)
    while (difference := target - _number(found)) and not should_stop():
        number = min(at_once, abs(difference))
        ways = _larger(bench, found, number) if difference > 0 else _smaller(found, number)
        scored = [(bench.score(each), order, each) for order, each in enumerate(ways)]
        if not scored and number > 1:
            at_once = 1
            continue
        if not scored:
            return None
        found = min(scored)[2]
    return found if _number(found) == target else None


def _number(rollouts: Rollouts) -> int:
    return sum(len(each.replicas) for each in rollouts)


def _mended(bench: _Bench, rollouts: Rollouts) -> Rollouts:
    """Move replicas off machines that are gone, to others of their site; drop those left over.

    A replica's place in its group is its pod's name, so the others keep theirs.
    """
    standing: list[list[Replica | None]] = []
    free = bench.free(())
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
        standing.append(kept)
    mended = []
    for group, kept in zip(rollouts, standing, strict=True):
        filled = [each or _placed(bench, group, free) for each in kept]
        mended.append(replace(group, replicas=_closed(filled)))
    return tuple(each for each in mended if each.replicas)


def _closed(places: Sequence[Replica | None]) -> tuple[Replica, ...]:
    """Close the gaps from behind: a StatefulSet loses its last pods, and no other changes name."""
    closed = list(places)
    while None in closed:
        last = closed.pop()
        if last is not None:
            closed[closed.index(None)] = last
    return tuple(each for each in closed if each is not None)


def _placed(bench: _Bench, group: ReplicaGroup, free: Counter[str]) -> Replica | None:
    """Take a replica's GPUs on machines of its group's site; None where they are not there."""
    if not group.replicas or group.stage_sites:
        return None
    like = group.replicas[0]
    taken: list[Share] = []
    for share in like.shares:
        machine = _machine(bench, group, free, share.num_gpus)
        if machine is None:
            for each in taken:
                free[each.machine] += each.num_gpus
            return None
        free[machine] -= share.num_gpus
        taken.append(replace(share, machine=machine))
    return replace(like, shares=tuple(taken))


def _machine(bench: _Bench, group: ReplicaGroup, free: Counter[str], num_gpus: int) -> str | None:
    """Return the fullest machine of a group's site that has room, so that large gaps stay."""
    fitting = [
        (free[machine.name], machine.name)
        for site in bench.space.sites
        if (site.kind.name, site.region) == (group.gpu_kind, group.region)
        for machine in site.machines
        if free[machine.name] >= num_gpus
    ]
    return min(fitting)[1] if fitting else None


def _smaller(rollouts: Rollouts, number: int) -> Iterator[Rollouts]:
    """Yield the ways to give up replicas of one group, the last ones first."""
    for position, group in enumerate(rollouts):
        if len(group.replicas) < number or len(rollouts) == 1 == len(group.replicas):
            continue
        kept = replace(group, replicas=group.replicas[: len(group.replicas) - number])
        others = (*rollouts[:position], kept, *rollouts[position + 1 :])
        yield tuple(each for each in others if each.replicas)


def _larger(bench: _Bench, rollouts: Rollouts, number: int) -> Iterator[Rollouts]:
    """Yield the ways to add replicas that are alike: to a group, or as another one."""
    for position, group in enumerate(rollouts):
        more = _more(bench, rollouts, group, number)
        if more:
            grown = replace(group, replicas=(*group.replicas, *more))
            yield (*rollouts[:position], grown, *rollouts[position + 1 :])
    for group in _new_groups(bench, rollouts):
        more = _more(bench, rollouts, group, number)
        if more:
            yield (*rollouts, replace(group, replicas=tuple(more)))


def _more(
    bench: _Bench, rollouts: Rollouts, group: ReplicaGroup, number: int
) -> list[Replica] | None:
    free = bench.free(rollouts)
    placed = [_placed(bench, group, free) for _ in range(number)]
    more = [each for each in placed if each]
    return more if len(more) == number else None


def _new_groups(bench: _Bench, rollouts: Rollouts) -> Iterator[ReplicaGroup]:
    """Yield groups of other shapes or sites, each with one replica that names no machine yet."""
    known = {(each.gpu_kind, each.region, each.parallelism) for each in rollouts}
    for candidate in bench.space.rollouts:
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
