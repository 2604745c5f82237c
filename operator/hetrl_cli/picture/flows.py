"""Data movement of a plan: activations between machines, the rest between regions, in words.

Rates are the prediction's, divided as the work is. Seconds are the cost model's, as in
``hetrl_planner.layout.weights``.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import pairwise, product

from hetrl_cli.picture.canvas import TIMES
from hetrl_cli.picture.cards import LOOKS, Card, stage_machines
from hetrl_cli.tables.plan import duration, rate
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.cost.compute import BYTES_PER_WEIGHT
from hetrl_planner.cost.network import between_machines, transfer_seconds


class FlowKind(StrEnum):
    """What moves."""

    TRAJECTORIES = "trajectories"
    WEIGHTS = "weights"
    PIPELINE = "pipeline"
    GRADIENTS = "gradients"


FLOW_COLOURS = {
    FlowKind.TRAJECTORIES: "#b97a00",
    FlowKind.WEIGHTS: "#007a5a",
    FlowKind.PIPELINE: "#454d56",
    FlowKind.GRADIENTS: "#a8517f",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """Activations from the machines of one card to those of another."""

    task: Task
    source: int
    """The card's number, as ``target``."""

    target: int
    num_replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionFlow:
    """Data that moves from a region to another, or inside one."""

    kind: FlowKind
    source: str
    target: str
    amount: str
    """How much or how long, in words."""

    stays: bool = False
    """Inside one region: among machines that both train and generate."""

    is_mutual: bool = False
    """As much flows back."""

    task: Task | None = None
    """Whose pipeline it is."""

    @property
    def colour(self) -> str:
        """The colour of its arrow."""
        return LOOKS[self.task].odd_fill if self.task else FLOW_COLOURS[self.kind]


Places = Mapping[str, Card]
"""The card of each machine."""

Work = Mapping[tuple[str, bool], float]
"""A task's shares by region, and whether on machines that only generate."""


def hops(plan: Plan, cards: Sequence[Card]) -> tuple[Hop, ...]:
    """Return all hops of activations from card to card, with how many replicas take each."""
    numbers = {name: number for number, card in enumerate(cards) for name in card.machines}
    counts = Counter(
        (group.tasks[0], numbers[source], numbers[target])
        for group in plan.groups
        for machines in stage_machines(group)
        for source, target in pairwise(machines)
    )
    return tuple(
        Hop(task=task, source=source, target=target, num_replicas=number)
        for (task, source, target), number in counts.items()
        if source != target
    )


def flows(
    plan: Plan,
    snapshot: ClusterSnapshot,
    job: JobSpec,
    *,
    cards: Sequence[Card],
    hops: Sequence[Hop],
) -> tuple[RegionFlow, ...]:
    """Return what moves in a plan, each once; two that are each other's way back are one."""
    places = {name: card for card in cards for name in card.machines}
    return tuple(
        _paired(
            [
                *_trajectories(plan, places),
                *_weights(plan, snapshot, job, places),
                *_pipelines(hops, cards),
                *_gradients(plan, places),
            ]
        )
    )


def _trajectories(plan: Plan, places: Places) -> Iterator[RegionFlow]:
    """Yield flows of trajectories to the trainer, and to inference workers in other regions."""
    made = _work(plan, Task.ACTOR_GENERATION, places)
    for task in (task for task in LOOKS if task is not Task.ACTOR_GENERATION):
        per_second: dict[tuple[str, str, bool], float] = defaultdict(float)
        shares = product(_work(plan, task, places).items(), made.items())
        for ((target, _), used_share), ((source, is_apart), made_share) in shares:
            samples = plan.prediction.samples_per_second * made_share * used_share
            per_second[source, target, source == target and not is_apart] += samples
        is_for_trainer = task is Task.ACTOR_TRAINING
        aim = "" if is_for_trainer else f" for {LOOKS[task].words}"
        for (source, target, stays), samples in per_second.items():
            if is_for_trainer or source != target:
                yield RegionFlow(
                    kind=FlowKind.TRAJECTORIES,
                    source=source,
                    target=target,
                    stays=stays,
                    amount=f"{rate(samples)} samples/s{aim}",
                )


def _work(plan: Plan, task: Task, places: Places) -> Work:
    """Return where a task is done; a replica counts where its first stage is."""
    shares: dict[tuple[str, bool], float] = defaultdict(float)
    for group in plan.groups_with(task):
        for replica in group.replicas:
            card = places[replica.shares[0].machine]
            shares[card.region, card.generates_only] += replica.work_share
    whole = sum(shares.values()) or 1.0
    return {place: share / whole for place, share in shares.items()}


def _weights(
    plan: Plan, snapshot: ClusterSnapshot, job: JobSpec, places: Places
) -> Iterator[RegionFlow]:
    """Yield what each region with rollouts gets, from the training replica nearest to it."""
    architecture = job.model.architecture
    assert architecture is not None, "no plan without the model's dimensions"
    whole_bytes, total = BYTES_PER_WEIGHT * architecture.num_parameters, architecture.num_layers
    training, generation = Task.ACTOR_TRAINING, Task.ACTOR_GENERATION
    shares_gpus = any(
        {training, generation} <= {*cell.tasks} for card in places.values() for cell in card.cells
    )

    def seconds(source: str, target: str, layers: int) -> float:
        # Inside a region all of the weights are handed on.
        carried = whole_bytes * (1.0 if source == target else layers / total)
        return transfer_seconds(carried, between_machines(snapshot, source, target))

    def slowest(target: str, layers: Mapping[str, int]) -> float:
        away = (seconds(source, target, layers[source]) for source in layers if source != target)
        return max(away, default=0.0)

    def amount(source: str, target: str, layers: int) -> str:
        if shares_gpus:
            # On shared GPUs shards change hands; of that only the slowest is known here.
            return f"resharded, {duration(plan.prediction.weight_sync_seconds)} at most"
        part = f"{layers} of {total} layers, " if layers < total else ""
        return f"{part}{duration(seconds(source, target, layers))} a version"

    replicas = list(_training_layers(plan, places))
    rollouts = (
        places[share.machine]
        for group in plan.groups_with(generation)
        for replica in group.replicas
        for share in replica.shares
    )
    for target, is_apart in dict.fromkeys((card.region, card.generates_only) for card in rollouts):
        for source, layers in min(replicas, key=partial(slowest, target)).items():
            yield RegionFlow(
                kind=FlowKind.WEIGHTS,
                source=source,
                target=target,
                amount=amount(source, target, layers),
                stays=source == target and not is_apart,
            )


def _training_layers(plan: Plan, places: Places) -> Iterator[Mapping[str, int]]:
    """Yield how many layers of each training replica are in each region."""
    for group in plan.groups_with(Task.ACTOR_TRAINING):
        for machines in stage_machines(group):
            layers: Counter[str] = Counter()
            for machine, number in zip(machines, group.parallelism.stage_layers, strict=True):
                layers[places[machine].region] += number
            yield layers


def _pipelines(hops: Sequence[Hop], cards: Sequence[Card]) -> Iterator[RegionFlow]:
    """Yield the hops from one region to another."""
    counts: Counter[tuple[Task, str, str]] = Counter()
    for hop in hops:
        counts[hop.task, cards[hop.source].region, cards[hop.target].region] += hop.num_replicas
    for (task, source, target), number in counts.items():
        if source != target:
            yield RegionFlow(
                kind=FlowKind.PIPELINE,
                source=source,
                target=target,
                task=task,
                amount=f"{LOOKS[task].words}, {TIMES}{number}",
            )


def _gradients(plan: Plan, places: Places) -> Iterator[RegionFlow]:
    """Yield sums that cross regions: replicas of a stage stand in several."""
    for task in (task for task in LOOKS if task in TRAINING_TASKS):
        replicas = [
            [places[machine].region for machine in machines]
            for group in plan.groups_with(task)
            for machines in stage_machines(group)
        ]
        pairs = dict.fromkeys(
            pair
            for regions in zip(*replicas, strict=True)
            for pair in pairwise(sorted(set(regions)))
        )
        for source, target in pairs:
            yield RegionFlow(
                kind=FlowKind.GRADIENTS,
                source=source,
                target=target,
                is_mutual=True,
                amount=f"of {LOOKS[task].words}",
            )


def _paired(found: Sequence[RegionFlow]) -> Iterator[RegionFlow]:
    left = list(dict.fromkeys(found))
    while left:
        flow = left.pop(0)
        back = replace(flow, source=flow.target, target=flow.source)
        if flow.source != flow.target and back in left:
            left.remove(back)
            flow = replace(flow, is_mutual=True)
        yield flow
