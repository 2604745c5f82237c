"""Machines as they are drawn: those that are alike and used alike are one card with a count.

A region whose machines are used in very many ways gets one card a GPU kind instead, with
counts of GPUs: of ten thousand GPUs a picture can say what they do, not each one's place.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeVar

from hetrl_api.plan.ranges import compress
from hetrl_cli.picture.canvas import INK, LINE, PAPER
from hetrl_core.fleet.snapshot import ClusterSnapshot, Machine
from hetrl_core.plan.plan import Parallelism, Plan, ReplicaGroup, Share
from hetrl_core.task import Task

MAX_CARDS = 8
"""Cards of one region's used machines; with more of them GPUs are only counted."""

LONGEST_PATTERN = 40
"""Characters of a range of machines; a longer one only names the first."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Look:
    """The appearance of a task, or of an idle GPU."""

    letter: str
    """Tells tasks apart in a print in black."""

    words: str
    fill: str
    odd_fill: str
    """Of every other replica."""

    text: str


# Colours after Okabe and Ito, "Color Universal Design" (2008): distinguishable with any colour
# blindness.
LOOKS = {
    Task.ACTOR_TRAINING: Look("T", "actor training", "#0072b2", "#005686", PAPER),
    Task.ACTOR_GENERATION: Look("G", "actor generation", "#f0b23e", "#dd9a14", INK),
    Task.REFERENCE_INFERENCE: Look("F", "reference", "#8ecbef", "#63b4e4", INK),
    Task.REWARD_INFERENCE: Look("W", "reward", "#5cc4a0", "#36ad84", INK),
    Task.CRITIC_INFERENCE: Look("V", "critic (values)", "#dfa6c6", "#cc79a7", INK),
    Task.CRITIC_TRAINING: Look("C", "critic training", "#d55e00", "#a94b00", PAPER),
}
IDLE = Look("", "idle GPU", PAPER, LINE, INK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """One GPU's place in one replica of one task."""

    task: Task
    replica: int
    """Counted over all replicas of the task."""

    stage: int
    tensor_rank: int
    split: Parallelism

    @property
    def num_layers(self) -> int:
        """Layers of its stage."""
        return self.split.stage_layers[self.stage]


MachineUse = tuple[tuple[Duty, ...], ...]
"""The duties of each GPU of a machine; an idle one has none."""


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

    def duty(self, task: Task | None) -> Duty | None:
        """Return what its GPU does of a task, on the card's first machine."""
        return next((duty for duty in self.duties if duty.task is task), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Machines of one region and GPU kind that are drawn as one."""

    region: str
    gpu_kind: str
    gpus_per_machine: int
    machines: tuple[str, ...]
    cells: tuple[Cell, ...]
    """One a GPU of a machine, or one a use where GPUs are only counted."""

    @property
    def tasks(self) -> frozenset[Task]:
        """All that its GPUs do; empty where the machines are not used."""
        return frozenset(task for cell in self.cells for task in cell.tasks)

    @property
    def is_tally(self) -> bool:
        """Whether its GPUs are only counted."""
        return not all(cell.is_one for cell in self.cells)

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
    """Return every machine of the fleet on exactly one card, in the fleet's order.

    Raises:
        ValueError: the plan is for another fleet: a machine is unknown or has too few GPUs.
    """
    by_machine = uses(plan, snapshot)
    regions = _grouped(snapshot.machines, lambda machine: machine.region)
    return tuple(card for machines in regions for card in _of_region(machines, by_machine))


def uses(plan: Plan, snapshot: ClusterSnapshot) -> dict[str, MachineUse]:
    """Return what every machine of the fleet does, those that do nothing included.

    Ranks follow the same order as a pod set's rank table. A share that names no GPU takes the
    first that are free: the pod decides which ones, and they are alike.

    Raises:
        ValueError: the plan is for another fleet: a machine is unknown or has too few GPUs.
    """
    by_machine: dict[str, list[list[Duty]]] = {
        machine.name: [[] for _ in range(machine.num_gpus)] for machine in snapshot.machines
    }
    # Shares that name their GPUs come first, or the others would take those.
    for share, first, split, own in sorted(_shares(plan), key=lambda of: of[0].first_gpu is None):
        for rank, gpu in enumerate(_gpus(share, by_machine), start=first):
            stage, tensor_rank = divmod(rank, split.tensor)
            gpu.extend(
                Duty(task=task, replica=number, stage=stage, tensor_rank=tensor_rank, split=split)
                for task, number in own
            )
    order = list(Task)
    return {
        name: tuple(
            tuple(sorted(gpu, key=lambda duty: (order.index(duty.task), duty.replica)))
            for gpu in gpus
        )
        for name, gpus in by_machine.items()
    }


def stage_machines(group: ReplicaGroup) -> Iterator[tuple[str, ...]]:
    """Yield the machine of each stage, for one replica after another."""
    for replica in group.replicas:
        ranks = [share.machine for share in replica.shares for _ in range(share.num_gpus)]
        yield tuple(ranks[:: group.parallelism.tensor])


def _shares(plan: Plan) -> Iterator[tuple[Share, int, Parallelism, list[tuple[Task, int]]]]:
    """Yield each share with its first rank, and its replica's split, tasks and their numbers."""
    numbers = {task: count() for task in Task}
    for group in plan.groups:
        for replica in group.replicas:
            own = [(task, next(numbers[task])) for task in group.tasks]
            rank = 0
            for share in replica.shares:
                yield share, rank, group.parallelism, own
                rank += share.num_gpus


def _gpus(share: Share, by_machine: dict[str, list[list[Duty]]]) -> list[list[Duty]]:
    gpus = by_machine.get(share.machine, [])
    if share.first_gpu is None:
        gpus = [duties for duties in gpus if not duties]
    else:
        gpus = gpus[share.first_gpu :]
    if len(gpus) < share.num_gpus:
        raise ValueError(
            f"the plan takes {share.num_gpus} GPUs of machine {share.machine}, "
            f"and the fleet has {len(gpus)} for it"
        )
    return gpus[: share.num_gpus]


def _of_region(machines: Sequence[Machine], by_machine: dict[str, MachineUse]) -> list[Card]:
    alike = _grouped(
        machines,
        lambda machine: (machine.gpu_kind, machine.num_gpus, _signature(by_machine[machine.name])),
    )
    exact = [_exact(some, by_machine[some[0].name]) for some in alike]
    unused = [card for card in exact if not card.tasks]
    if len(exact) - len(unused) <= MAX_CARDS:
        return exact
    used = [machine for machine in machines if any(by_machine[machine.name])]
    kinds = _grouped(used, lambda machine: (machine.gpu_kind, machine.num_gpus))
    return [*(_tally(some, by_machine) for some in kinds), *unused]


def _grouped(values: Iterable[T], key: Callable[[T], object]) -> list[list[T]]:
    groups: dict[object, list[T]] = defaultdict(list)
    for value in values:
        groups[key(value)].append(value)
    return list(groups.values())


def _signature(use: MachineUse) -> object:
    """Return how a machine is drawn: replicas differ, but their numbers do not matter."""
    seen: dict[tuple[Task, int], int] = {}
    return tuple(
        tuple(
            replace(duty, replica=seen.setdefault((duty.task, duty.replica), len(seen)))
            for duty in gpu
        )
        for gpu in use
    )


def _exact(machines: Sequence[Machine], use: MachineUse) -> Card:
    cells = [Cell(tasks=_tasks(duties), duties=duties, num_gpus=len(machines)) for duties in use]
    return _card(machines, cells)


def _tally(machines: Sequence[Machine], by_machine: dict[str, MachineUse]) -> Card:
    counts = Counter(_tasks(duties) for machine in machines for duties in by_machine[machine.name])
    order = list(Task)
    uses = sorted(counts, key=lambda tasks: [order.index(task) for task in tasks] or [len(order)])
    return _card(
        machines, [Cell(tasks=tasks, num_gpus=counts[tasks], is_one=False) for tasks in uses]
    )


def _card(machines: Sequence[Machine], cells: Sequence[Cell]) -> Card:
    first = machines[0]
    return Card(
        region=first.region,
        gpu_kind=first.gpu_kind,
        gpus_per_machine=first.num_gpus,
        machines=tuple(machine.name for machine in machines),
        cells=tuple(cells),
    )


def _tasks(duties: Sequence[Duty]) -> tuple[Task, ...]:
    return tuple(dict.fromkeys(duty.task for duty in duties))
