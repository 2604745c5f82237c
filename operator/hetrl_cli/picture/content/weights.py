"""Weight transfers to the rollouts: regions, bytes and seconds.

Seconds are the cost model's, as in ``hetrl_planner.layout.weights``.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from hetrl_cli.picture.content.cards import Card
from hetrl_cli.picture.content.duties import stage_machines
from hetrl_cli.picture.content.movement import FlowKind, RegionFlow
from hetrl_cli.picture.content.places import Places
from hetrl_cli.tables.plan import duration
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan
from hetrl_core.task import Task
from hetrl_planner.cost.compute import BYTES_PER_WEIGHT
from hetrl_planner.cost.network import between_machines, transfer_seconds

Layers = tuple[tuple[str, int], ...]
"""Regions of one training replica, and how many layers each has."""


class WeightWays:
    """The ways of one plan's weights."""

    def __init__(
        self, plan: Plan, snapshot: ClusterSnapshot, job: JobSpec, cards: Sequence[Card]
    ) -> None:
        architecture = job.model.architecture
        assert architecture is not None, "no plan without the model's dimensions"
        self._bytes = BYTES_PER_WEIGHT * architecture.num_parameters
        self._num_layers = architecture.num_layers
        self._plan = plan
        self._snapshot = snapshot
        self._places = Places(cards)
        self._replicas = list(self._layers())
        sides = {Task.ACTOR_TRAINING, Task.ACTOR_GENERATION}
        self._shares_gpus = any(sides <= {*cell.tasks} for card in cards for cell in card.cells)

    def flows(self) -> Iterator[RegionFlow]:
        """Yield what each region with rollouts gets, from the training replica nearest to it."""
        for target, is_apart in self._rollouts():
            nearest = min(self._replicas, key=lambda layers: self._slowest(layers, target))
            for source, layers in nearest:
                yield RegionFlow(
                    kind=FlowKind.WEIGHTS,
                    source=source,
                    target=target,
                    amount=self._amount(source, target, layers),
                    stays=source == target and not is_apart,
                )

    def _rollouts(self) -> dict[tuple[str, bool], None]:
        """Return the regions that generate, and whether on machines that do nothing else."""
        cards = (
            self._places.card(share.machine)
            for group in self._plan.groups_with(Task.ACTOR_GENERATION)
            for replica in group.replicas
            for share in replica.shares
        )
        return dict.fromkeys((card.region, card.generates_only) for card in cards)

    def _amount(self, source: str, target: str, layers: int) -> str:
        if self._shares_gpus:
            # On shared GPUs shards change hands; of that only the slowest is known here.
            most = duration(self._plan.prediction.weight_sync_seconds)
            return f"resharded, {most} at most"
        part = f"{layers} of {self._num_layers} layers, " if layers < self._num_layers else ""
        return f"{part}{duration(self._seconds(source, target, layers))} a version"

    def _seconds(self, source: str, target: str, layers: int) -> float:
        """Return the time of some layers; inside a region all of them are handed on."""
        carried = self._bytes * (1.0 if source == target else layers / self._num_layers)
        return transfer_seconds(carried, between_machines(self._snapshot, source, target))

    def _slowest(self, layers: Layers, target: str) -> float:
        away = (self._seconds(source, target, each) for source, each in layers if source != target)
        return max(away, default=0.0)

    def _layers(self) -> Iterator[Layers]:
        for group in self._plan.groups_with(Task.ACTOR_TRAINING):
            for machines in stage_machines(group):
                layers: Counter[str] = Counter()
                for machine, number in zip(machines, group.parallelism.stage_layers, strict=True):
                    layers[self._places.region(machine)] += number
                yield tuple(layers.items())
