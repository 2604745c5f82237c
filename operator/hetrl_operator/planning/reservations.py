"""Reservations of GPUs: no GPU is ever reserved for two jobs.

They are in memory and rebuilt from the HetRLPlans at the start; the objects are the record. A plan
is checked and reserved in one step, without an await in between. A claim keeps the GPUs of a plan
that was just found until its job reserves them, or gives the plan up.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.plan.plan import Plan


@dataclass(slots=True)
class Reservations:
    """Reservations by job uid."""

    version: int = 0
    """Changes with every reservation and claim."""

    _held: dict[str, Counter[str]] = field(default_factory=dict)
    """GPUs by machine that each job has reserved or claimed."""

    _claims: set[str] = field(default_factory=set)
    """Jobs whose GPUs are claimed, and not reserved."""

    _total: Counter[str] = field(default_factory=Counter)

    def holds(self, uid: str) -> bool:
        """Tell whether a job has reserved or claimed GPUs."""
        return uid in self._held

    def holds_just(self, uid: str, plan: Plan) -> bool:
        """Tell whether a job's reservation equals a plan's GPUs."""
        return self._held.get(uid) == gpus_by_machine(plan)

    def restore(self, uid: str, plan: Plan) -> None:
        """Enter a reservation from before the operator's start, without a check."""
        self._enter(uid, gpus_by_machine(plan))

    def conflict(self, uid: str, plan: Plan, capacity: Mapping[str, int]) -> str:
        """Say why a plan cannot be reserved; empty if it can.

        Args:
            uid: the job's uid.
            plan: the plan to reserve.
            capacity: number of GPUs of each usable machine.
        """
        ours = self._held.get(uid, Counter())
        for machine, wanted in sorted(gpus_by_machine(plan).items()):
            # A job may keep what it holds, also on a machine that takes no more pods.
            free = max(
                capacity.get(machine, 0) - self._total[machine] + ours[machine], ours[machine]
            )
            if wanted > free:
                return f"{machine} has {max(0, free)} free GPUs, the plan needs {wanted} there"
        return ""

    def reserve(self, uid: str, plan: Plan, capacity: Mapping[str, int]) -> str:
        """Reserve a plan's GPUs in place of the job's reservation, or return the conflict."""
        conflict = self.conflict(uid, plan, capacity)
        if not conflict:
            self._enter(uid, gpus_by_machine(plan))
            self._claims.discard(uid)
        return conflict

    def claim(self, uid: str, plan: Plan, capacity: Mapping[str, int]) -> str:
        """Claim a plan's GPUs unless the job has reserved others, or return the conflict."""
        conflict = self.conflict(uid, plan, capacity)
        if not conflict and (uid in self._claims or not self.holds(uid)):
            self._enter(uid, gpus_by_machine(plan))
            self._claims.add(uid)
        return conflict

    def drop_claim(self, uid: str) -> None:
        """Drop a job's claim; a reservation stays."""
        if uid in self._claims:
            self.release(uid)

    def release(self, uid: str) -> bool:
        """Release a job's GPUs; return whether it had reserved or claimed any."""
        held = self._held.pop(uid, None)
        self._claims.discard(uid)
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
    """Return a fleet without held GPUs."""
    free = (
        replace(each, num_gpus=each.num_gpus - held.get(each.name, 0))
        for each in fleet.machines
        if each.num_gpus > held.get(each.name, 0)
    )
    return ClusterSnapshot(gpu_kinds=fleet.gpu_kinds, machines=tuple(free), links=fleet.links)
