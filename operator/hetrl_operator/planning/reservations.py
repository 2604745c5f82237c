"""Which job holds which GPUs, so that no two ever get the same ones.

Kept in memory and rebuilt from HetRLPlans at the start; the objects are the record. A plan
is checked and reserved in one step, with nothing awaited in between.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.plan.plan import Plan


@dataclass(slots=True)
class Reservations:
    """Reservations by job uid."""

    version: int = 0
    """Changes with every reservation."""

    _held: dict[str, Counter[str]] = field(default_factory=dict)
    _total: Counter[str] = field(default_factory=Counter)

    def holds(self, uid: str) -> bool:
        """Tell whether a job has a reservation."""
        return uid in self._held

    def holds_just(self, uid: str, plan: Plan) -> bool:
        """Tell whether a job's reservation is just what a plan takes."""
        return self._held.get(uid) == gpus_by_machine(plan)

    def restore(self, uid: str, plan: Plan) -> None:
        """Enter a reservation that was made before our start, without asking."""
        self._enter(uid, gpus_by_machine(plan))

    def conflict(self, uid: str, plan: Plan, capacity: Mapping[str, int]) -> str:
        """Say why a plan cannot be reserved; empty when it can.

        Args:
            uid: the job.
            plan: what it wants.
            capacity: GPUs that there are on each usable machine.
        """
        ours = self._held.get(uid, Counter())
        for machine, wanted in sorted(gpus_by_machine(plan).items()):
            # What it holds it may keep, also on a machine that takes no more pods.
            free = max(
                capacity.get(machine, 0) - self._total[machine] + ours[machine], ours[machine]
            )
            if wanted > free:
                return f"{machine} has {max(0, free)} free GPUs, the plan needs {wanted} there"
        return ""

    def reserve(self, uid: str, plan: Plan, capacity: Mapping[str, int]) -> str:
        """Reserve a plan's GPUs in place of what the job held; return the conflict instead."""
        conflict = self.conflict(uid, plan, capacity)
        if not conflict:
            self._enter(uid, gpus_by_machine(plan))
        return conflict

    def release(self, uid: str) -> bool:
        """Give a job's GPUs back; tell whether it held any."""
        held = self._held.pop(uid, None)
        if held is None:
            return False
        self.version += 1
        self._total -= held
        return True

    def held_by(self, uid: str) -> Mapping[str, int]:
        """Return the GPUs by machine that a job holds."""
        return self._held.get(uid, {})

    def held_by_others(self, uid: str) -> Counter[str]:
        """Return the GPUs by machine that all jobs but one hold."""
        return self._total - self._held.get(uid, Counter())

    def keep_only(self, uids: Iterable[str]) -> tuple[str, ...]:
        """Drop the reservations of jobs that are not there any more; return whose."""
        gone = tuple(set(self._held) - set(uids))
        for uid in gone:
            self.release(uid)
        return gone

    def _enter(self, uid: str, gpus: Counter[str]) -> None:
        if self._held.get(uid) == gpus:
            return
        self.release(uid)
        self.version += 1
        self._held[uid] = gpus
        self._total += gpus


def gpus_by_machine(plan: Plan) -> Counter[str]:
    """Return the GPUs that a plan takes from each machine."""
    taken: Counter[str] = Counter()
    for group in plan.groups:
        for replica in group.replicas:
            for share in replica.shares:
                taken[share.machine] += share.num_gpus
    return taken


def without(fleet: ClusterSnapshot, held: Mapping[str, int]) -> ClusterSnapshot:
    """Return a fleet with the GPUs that others hold taken out."""
    free = (
        replace(each, num_gpus=each.num_gpus - held.get(each.name, 0))
        for each in fleet.machines
        if each.num_gpus > held.get(each.name, 0)
    )
    return ClusterSnapshot(gpu_kinds=fleet.gpu_kinds, machines=tuple(free), links=fleet.links)
