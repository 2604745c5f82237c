"""The pods that differ between two plans. ``replan_cost`` computes the cost of the move."""

from dataclasses import dataclass

from hetrl_core.plan.plan import Plan
from hetrl_core.plan.pod_sets import PodSet, inference_tasks, pod_sets
from hetrl_core.task import Role, Task
from hetrl_operator.model.pods import WORKERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """The pods that stop and start between two plans, without the coordinator's."""

    moves_trainer: bool
    """Whether the trainers restart; all of them do, or none."""

    num_started: int
    """Pods that start, on other machines or with other settings."""

    num_stopped: int
    stopped_share: float
    """Share of the rollouts' GPUs that stop generating, or of the inference workers' GPUs if that
    is larger: trajectories that are not scored cannot be trained on."""

    stopped_concurrency: int
    """Trajectories that the stopping rollouts may be generating."""

    num_rollouts_before: int
    num_rollouts_after: int
    num_inference_before: int = 0
    num_inference_after: int = 0

    @property
    def is_none(self) -> bool:
        """Whether every pod stays as it is."""
        return not self.num_started and not self.num_stopped


def moves(old: Plan, new: Plan) -> Moves:
    """Return how the pods change when one plan replaces another."""
    before, after = pod_sets(old), pod_sets(new)
    trainers = [[each for each in sets if each.role is Role.TRAINER] for sets in (before, after)]
    there, wanted = _workers(before), _workers(after)
    stopped = {place: pods for place, pods in there.items() if wanted.get(place) != pods}
    started = [place for place, pods in wanted.items() if there.get(place) != pods]
    moves_trainer = trainers[0] != trainers[1] or inference_tasks(before) != inference_tasks(after)
    generating = _of(Role.ROLLOUT, stopped)
    return Moves(
        moves_trainer=moves_trainer,
        num_started=len(started) + (_num_pods(trainers[1]) if moves_trainer else 0),
        num_stopped=len(stopped) + (_num_pods(trainers[0]) if moves_trainer else 0),
        stopped_share=max(_share(role, stopped, there) for role in WORKERS),
        stopped_concurrency=sum(each.concurrency for each in generating),
        num_rollouts_before=len(_of(Role.ROLLOUT, there)),
        num_rollouts_after=len(_of(Role.ROLLOUT, wanted)),
        num_inference_before=len(_of(Role.INFERENCE, there)),
        num_inference_after=len(_of(Role.INFERENCE, wanted)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Worker:
    """The identity of a worker's pod: a changed value is another pod."""

    role: Role
    machine: str
    num_gpus: int
    concurrency: int
    shape: tuple[tuple[int, Task, int, int], ...]
    asks: tuple[Task, ...]
    """Tasks of the plan's inference workers."""


_Workers = dict[tuple[str, int], _Worker]


def _workers(sets: tuple[PodSet, ...]) -> _Workers:
    found, asks = {}, inference_tasks(sets)
    for pods in sets:
        if pods.role not in WORKERS:
            continue
        # One pod's rows of the rank table are its shape, as in ``render.restart``.
        shape = tuple(
            (rank.local_gpu, rank.task, rank.stage, rank.tensor_rank)
            for rank in pods.ranks
            if rank.ordinal == 0
        )
        for ordinal, machine in enumerate(pods.machines):
            found[pods.name, ordinal] = _Worker(
                role=pods.role,
                machine=machine,
                num_gpus=pods.gpus_per_pod,
                concurrency=pods.concurrency,
                shape=shape,
                asks=asks,
            )
    return found


def _of(role: Role, workers: _Workers) -> list[_Worker]:
    return [each for each in workers.values() if each.role is role]


def _share(role: Role, stopped: _Workers, there: _Workers) -> float:
    """Return the share of a role's GPUs whose pods stop."""
    num_gpus = sum(each.num_gpus for each in _of(role, there)) or 1
    return sum(each.num_gpus for each in _of(role, stopped)) / num_gpus


def _num_pods(sets: list[PodSet]) -> int:
    return sum(each.num_pods for each in sets)
