"""Machines of each replica: blocks of GPUs, split in halves as needed.

The MILP has counted that every share fits (``Site.capacity``); here machines are assigned.
Training comes first, so that its replicas are neighbours. Each share takes the smallest free block
that holds it, so large blocks stay whole for large shares.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from math import ceil

from hetrl_core.fleet.snapshot import Machine
from hetrl_core.plan.plan import Replica, ReplicaGroup, Share
from hetrl_core.task import Task
from hetrl_planner.layout.fit.splits import Split, fullest_rollout_gpu
from hetrl_planner.phase1.choice import Choice, RolloutShare


class FreeBlocks:
    """The free GPUs of a site, as power-of-two blocks on one machine each."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._machines: dict[int, deque[str]] = defaultdict(deque)
        for machine in machines:
            for exponent in reversed(range(machine.num_gpus.bit_length())):
                if machine.num_gpus >> exponent & 1:
                    self._machines[1 << exponent].append(machine.name)

    def take(self, size: int) -> str:
        """Take a block of ``size`` GPUs, a power of two; return its machine.

        Raises:
            ValueError: no machine has such a block left.
        """
        fitting = [each for each, names in self._machines.items() if each >= size and names]
        if not fitting:
            raise ValueError(f"no machine has {size} GPUs left in one block")
        block = min(fitting)
        machine = self._machines[block].popleft()
        while block > size:
            block //= 2
            # First in line: the next share of this size joins its neighbour.
            self._machines[block].appendleft(machine)
        return machine

    def replicas(self, split: Split, *, work_shares: Sequence[float]) -> tuple[Replica, ...]:
        """Take the GPUs of one replica for each work share."""
        return tuple(
            Replica(
                shares=tuple(
                    Share(machine=self.take(split.share_size), num_gpus=split.share_size)
                    for _ in range(split.num_shares)
                ),
                work_share=work_share,
            )
            for work_share in work_shares
        )


def place(choice: Choice) -> tuple[ReplicaGroup, ...]:
    """Return the groups of a choice on machines, the trainer's first."""
    used = [choice.training.site, *(share.candidate.site for share in choice.rollouts)]
    # Equal sites are one site: they share free blocks.
    free = {site: FreeBlocks(site.machines) for site in used}
    training = _training_group(choice, free[choice.training.site])
    rollouts = [
        _rollout_group(share, at_once, choice, free[share.candidate.site])
        for share, at_once in sorted(
            zip(choice.rollouts, choice.concurrency, strict=True), key=_largest_first
        )
    ]
    return (training, *rollouts)


def _training_group(choice: Choice, free: FreeBlocks) -> ReplicaGroup:
    training, batch = choice.training, choice.work.batch_size
    each, more = divmod(batch, training.num_replicas)
    shares = [(each + (rank < more)) / batch for rank in range(training.num_replicas)]
    return ReplicaGroup(
        tasks=choice.work.training_side,
        gpu_kind=training.site.kind.name,
        region=training.site.region,
        parallelism=training.split.parallelism,
        replicas=free.replicas(training.split, work_shares=shares),
        samples_per_second=batch / training.total_seconds / training.num_replicas,
        memory=training.memory,
        training_mode=training.mode,
    )


def _rollout_group(
    share: RolloutShare, at_once: float, choice: Choice, free: FreeBlocks
) -> ReplicaGroup:
    candidate = share.candidate
    rate = candidate.samples_per_second(at_once)
    total = sum(choice.samples_per_second)
    places = _places(share, at_once)
    return ReplicaGroup(
        tasks=(Task.ACTOR_GENERATION,),
        gpu_kind=candidate.site.kind.name,
        region=candidate.site.region,
        parallelism=candidate.split.parallelism,
        replicas=free.replicas(candidate.split, work_shares=[rate / total] * share.num_replicas),
        concurrency=places,
        samples_per_second=rate,
        memory=fullest_rollout_gpu(
            candidate.site, candidate.split, choice.work, concurrency=places
        ),
    )


def _places(share: RolloutShare, at_once: float) -> int:
    """Return a replica's concurrency as a whole number, rounded up.

    The coordinator's admission enforces the bound, so an extra place is sometimes empty, while a
    missing place would always cost rate.
    """
    return min(share.candidate.max_concurrency, max(1, ceil(at_once)))


def _largest_first(running: tuple[RolloutShare, float]) -> tuple[int, str, str]:
    candidate = running[0].candidate
    return (-candidate.split.share_size, candidate.site.name, str(candidate.split.parallelism))
