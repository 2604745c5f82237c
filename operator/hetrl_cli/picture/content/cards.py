"""Machines as they are drawn: those that are alike and used alike are one card with a count.

A region whose machines are used in very many ways gets one card a GPU kind instead, with
counts of GPUs: of ten thousand GPUs a picture can say what they do, not each one's place.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from hetrl_api.plan.ranges import compress
from hetrl_cli.picture.content.duties import Duty, MachineUse, uses
from hetrl_core.fleet.snapshot import ClusterSnapshot, Machine
from hetrl_core.plan.plan import Plan
from hetrl_core.task import Task

MAX_CARDS = 8
"""Cards of one region's used machines; with more of them GPUs are only counted."""

LONGEST_PATTERN = 40
"""Characters of a range of machines; a longer one only names the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """GPUs that do the same."""

    tasks: tuple[Task, ...]
    """Several where tasks share the GPU; none where it is idle."""

    duties: tuple[Duty, ...] = ()
    """On the card's first machine; none where GPUs are only counted."""

    num_gpus: int
    """Over all machines of the card."""

    is_one: bool = True
    """One GPU of each machine, and not a count of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Machines of one region and GPU kind that are drawn as one."""

    region: str
    gpu_kind: str
    gpus_per_machine: int
    machines: tuple[str, ...]
    cells: tuple[Cell, ...]
    """One a GPU of a machine, or one a use where GPUs are only counted."""

    is_tally: bool = False

    @property
    def tasks(self) -> frozenset[Task]:
        """All that its GPUs do; empty where the machines are not used."""
        return frozenset(task for cell in self.cells for task in cell.tasks)

    @property
    def generates_only(self) -> bool:
        """Whether its GPUs do nothing but generate: rollouts of their own."""
        return self.tasks == {Task.ACTOR_GENERATION}

    @property
    def name(self) -> str:
        """The machines in few words: ``a100-[000-119]``, or ``a100-000 and 39 more``."""
        runs = compress(self.machines)
        if len(self.machines) == 1 or (len(runs) == 1 and len(runs[0].pattern) <= LONGEST_PATTERN):
            return runs[0].pattern
        return f"{self.machines[0]} and {len(self.machines) - 1} more"


def cards(plan: Plan, snapshot: ClusterSnapshot) -> tuple[Card, ...]:
    """Return every machine of the fleet on exactly one card, in the fleet's order."""
    found = uses(plan, snapshot)
    by_region: dict[str, list[Machine]] = defaultdict(list)
    for machine in snapshot.machines:
        by_region[machine.region].append(machine)
    return tuple(card for machines in by_region.values() for card in _of_region(machines, found))


def _of_region(machines: Sequence[Machine], found: dict[str, MachineUse]) -> list[Card]:
    alike: dict[object, list[Machine]] = defaultdict(list)
    for machine in machines:
        alike[machine.gpu_kind, machine.num_gpus, _signature(found[machine.name])].append(machine)
    made = [_exact(some, found[some[0].name]) for some in alike.values()]
    used = [card for card in made if card.tasks]
    if len(used) <= MAX_CARDS:
        return made
    names = {name for card in used for name in card.machines}
    by_kind: dict[tuple[str, int], list[Machine]] = defaultdict(list)
    for machine in machines:
        if machine.name in names:
            by_kind[machine.gpu_kind, machine.num_gpus].append(machine)
    tallies = [_tally(some, found) for some in by_kind.values()]
    return [*tallies, *(card for card in made if not card.tasks)]


def _signature(use: MachineUse) -> object:
    """Return how a machine is drawn: replicas differ, but their numbers do not matter."""
    seen: dict[tuple[Task, int], int] = {}
    return tuple(
        tuple(
            (
                duty.task,
                seen.setdefault((duty.task, duty.replica), len(seen)),
                duty.stage,
                duty.tensor_rank,
                duty.split,
            )
            for duty in gpu
        )
        for gpu in use
    )


def _exact(machines: Sequence[Machine], use: MachineUse) -> Card:
    cells = tuple(
        Cell(tasks=_tasks(duties), duties=duties, num_gpus=len(machines)) for duties in use
    )
    return _card(machines, cells, is_tally=False)


def _tally(machines: Sequence[Machine], found: dict[str, MachineUse]) -> Card:
    counts = Counter(_tasks(duties) for machine in machines for duties in found[machine.name])
    order = list(Task)
    cells = tuple(
        Cell(tasks=tasks, num_gpus=counts[tasks], is_one=False)
        for tasks in sorted(
            counts, key=lambda each: [order.index(task) for task in each] or [len(order)]
        )
    )
    return _card(machines, cells, is_tally=True)


def _card(machines: Sequence[Machine], cells: tuple[Cell, ...], *, is_tally: bool) -> Card:
    first = machines[0]
    return Card(
        region=first.region,
        gpu_kind=first.gpu_kind,
        gpus_per_machine=first.num_gpus,
        machines=tuple(machine.name for machine in machines),
        cells=cells,
        is_tally=is_tally,
    )


def _tasks(duties: Sequence[Duty]) -> tuple[Task, ...]:
    return tuple(dict.fromkeys(duty.task for duty in duties))
