"""Which pods would be others under another plan. What that costs is ``adoption``'s."""

from dataclasses import dataclass

from hetrl_core.plan import Plan
from hetrl_core.podset import PodSet, pod_sets
from hetrl_core.task import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """The pods that stop and start between two plans. The coordinator stays always."""

    moves_trainer: bool
    """Whether the trainers start anew; they do together or not at all."""

    num_started: int
    """Pods that start, on other machines or as others than they were."""

    num_stopped: int
    stopped_share: float
    """Of the rollouts' GPUs: those on which nothing is generated any more as it was."""

    stopped_concurrency: int
    """Trajectories that the rollouts which stop may be generating."""

    num_rollouts_before: int
    num_rollouts_after: int

    @property
    def is_none(self) -> bool:
        """Whether every pod stays as it is."""
        return not self.num_started and not self.num_stopped


def moves(old: Plan, new: Plan) -> Moves:
    """Return what changes for pods when one plan takes another's place."""
    before, after = pod_sets(old), pod_sets(new)
    trainers = [[each for each in sets if each.role is Role.TRAINER] for sets in (before, after)]
    there, wanted = _rollouts(before), _rollouts(after)
    stopped = {place: pods for place, pods in there.items() if wanted.get(place) != pods}
    started = [place for place, pods in wanted.items() if there.get(place) != pods]
    moves_trainer = trainers[0] != trainers[1]
    num_gpus = sum(each.num_gpus for each in there.values()) or 1
    return Moves(
        moves_trainer=moves_trainer,
        num_started=len(started) + (_num_pods(trainers[1]) if moves_trainer else 0),
        num_stopped=len(stopped) + (_num_pods(trainers[0]) if moves_trainer else 0),
        stopped_share=sum(each.num_gpus for each in stopped.values()) / num_gpus,
        stopped_concurrency=sum(each.concurrency for each in stopped.values()),
        num_rollouts_before=len(there),
        num_rollouts_after=len(wanted),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rollout:
    """What a rollout's pod is; another one is another pod."""

    machine: str
    num_gpus: int
    concurrency: int
    shape: tuple[tuple[int, int, int], ...]


def _rollouts(sets: tuple[PodSet, ...]) -> dict[tuple[str, int], _Rollout]:
    found = {}
    for pods in sets:
        if pods.role is not Role.ROLLOUT:
            continue
        # One pod's rows of the rank table are its shape, as in what restarts pods.
        shape = tuple(
            (rank.local_gpu, rank.stage, rank.tensor_rank)
            for rank in pods.ranks
            if rank.ordinal == 0
        )
        for ordinal, machine in enumerate(pods.machines):
            found[pods.name, ordinal] = _Rollout(
                machine=machine, num_gpus=pods.gpus_per_pod,
                concurrency=pods.concurrency, shape=shape,
            )  # fmt: skip
    return found


def _num_pods(sets: list[PodSet]) -> int:
    return sum(each.num_pods for each in sets)
