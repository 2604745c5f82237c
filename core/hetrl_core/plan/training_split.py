"""The split of a model in training among processes, as trainers need it.

The rank table (``pod_sets``) gives each GPU its place in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hetrl_core.limits import at_least
from hetrl_core.plan.plan import REPLICATED, Plan, ReplicaGroup, TrainingMode
from hetrl_core.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSplit:
    """Replicas of pipeline stages of tensor-parallel ranks; all replicas are split alike."""

    shares: tuple[float, ...] = (1.0,)
    """Of every minibatch, by replica, in any unit."""

    stage_layers: tuple[int, ...] = ()
    """Layers of each pipeline stage, first to last; empty: one stage, however many there are."""

    tensor: int = 1
    mode: TrainingMode = REPLICATED

    def __post_init__(self) -> None:
        if not self.shares or min(self.shares) <= 0:
            raise ValueError(f"every training replica needs a share > 0, got {self.shares}")
        at_least("tensor parallelism", self.tensor, 1)
        if any(layers < 1 for layers in self.stage_layers):
            raise ValueError(f"each pipeline stage needs a layer, got {self.stage_layers}")

    @property
    def num_replicas(self) -> int:
        """The data-parallel size."""
        return len(self.shares)

    @property
    def num_stages(self) -> int:
        """Pipeline stages."""
        return max(1, len(self.stage_layers))

    @property
    def num_ranks(self) -> int:
        """Processes of all replicas, one a GPU."""
        return self.num_replicas * self.num_stages * self.tensor


UNDIVIDED = TrainingSplit()
"""One process with the whole model."""


def training_split(plan: Plan) -> TrainingSplit:
    """Return how a plan splits actor training, replicas in the order of the rank table.

    Raises:
        ValueError: nothing trains, or replicas that sum their gradients are split differently.
    """
    return _split(plan.groups_with(Task.ACTOR_TRAINING))


def critic_split(plan: Plan) -> TrainingSplit | None:
    """Return how a plan splits a critic that has GPUs of its own; None: there is none such.

    Raises:
        ValueError: replicas that sum their gradients are split differently.
    """
    groups = plan.groups_with(Task.CRITIC_TRAINING)
    apart = [each for each in groups if Task.ACTOR_TRAINING not in each.tasks]
    return _split(apart) if apart else None


def _split(groups: Sequence[ReplicaGroup]) -> TrainingSplit:
    alike = {(group.parallelism, group.training_mode or REPLICATED) for group in groups}
    if len(alike) != 1:
        splits = ", ".join(sorted(str(group.parallelism) for group in groups)) or "none"
        raise ValueError(f"training replicas must be split alike, got {splits}")
    ((parallelism, mode),) = alike
    return TrainingSplit(
        shares=tuple(replica.work_share for group in groups for replica in group.replicas),
        # One stage needs no number of layers, which is unknown for some models.
        stage_layers=parallelism.stage_layers if parallelism.num_stages > 1 else (),
        tensor=parallelism.tensor,
        mode=mode,
    )
