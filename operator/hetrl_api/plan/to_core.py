"""From the core's ``Plan`` to the spec of a HetRLPlan and back; all but digits of predictions."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby, islice

from hetrl_api.conversion import from_core, to_core
from hetrl_api.plan.plan import (
    GroupMemory,
    GroupTraining,
    MachineRun,
    Placement,
    PlannedGroup,
    PlanPrediction,
    PlanSpec,
    RejectedAlternative,
    StageSite,
)
from hetrl_api.plan.ranges import MAX_MACHINES, Run, compress
from hetrl_core.plan.plan import (
    Parallelism,
    Plan,
    Prediction,
    Rejected,
    Replica,
    ReplicaGroup,
    Share,
    TrainingMode,
)

_DIGITS = 5
MAX_REJECTED = 20
"""Alternatives kept in the object; a search may report more."""


def from_plan(plan: Plan) -> PlanSpec:
    """Return the spec of a HetRLPlan; of the rejected alternatives it keeps the first 20."""
    return from_core(
        PlanSpec,
        plan,
        gap_ratio=None if plan.gap is None else _shown(plan.gap),
        groups=tuple(_group_from(group) for group in plan.groups),
        prediction=_prediction_from(plan.prediction),
        rejected=tuple(
            from_core(RejectedAlternative, each) for each in plan.rejected[:MAX_REJECTED]
        ),
    )


def to_plan(spec: PlanSpec) -> Plan:
    """Return the plan that a HetRLPlan holds.

    Raises:
        ValueError: a machine range is malformed, or machines and replicas do not match, or there
            are more of them than of any fleet.
    """
    _refuse_too_many(spec)
    return to_core(
        Plan,
        spec,
        gap=spec.gap_ratio,
        groups=tuple(_group_to(group, number=number) for number, group in enumerate(spec.groups)),
        rejected=tuple(to_core(Rejected, each) for each in spec.rejected),
    )


def _group_from(group: ReplicaGroup) -> PlannedGroup:
    return from_core(
        PlannedGroup,
        group,
        tensor=group.parallelism.tensor,
        stage_layers=group.parallelism.stage_layers,
        stage_sites=tuple(
            StageSite(gpu_kind=kind, region=region) for kind, region in group.stage_sites
        ),
        training=from_core(GroupTraining, group.training_mode) if group.training_mode else None,
        replicas=len(group.replicas),
        placements=_placements_from(group.replicas),
        memory=from_core(GroupMemory, group.memory),
    )


def _placements_from(replicas: tuple[Replica, ...]) -> tuple[Placement, ...]:
    def shape(replica: Replica) -> tuple[tuple[int, ...], tuple[int, ...], float]:
        firsts = tuple(share.first_gpu for share in replica.shares if share.first_gpu is not None)
        return tuple(share.num_gpus for share in replica.shares), firsts, replica.work_share

    return tuple(
        Placement(
            gpus=gpus,
            first_gpus=firsts,
            work_share=work_share,
            runs=tuple(
                MachineRun(machines=run.pattern, times=run.times)
                for run in compress(share.machine for each in alike for share in each.shares)
            ),
        )
        for (gpus, firsts, work_share), alike in groupby(replicas, key=shape)
    )


def _refuse_too_many(spec: PlanSpec) -> None:
    """Count what is to be read before it is made: some letters may stand for all of our memory."""
    total = sum(
        Run(pattern=run.machines, times=run.times).num_names
        for group in spec.groups
        for placement in group.placements
        for run in placement.runs
    )
    if total > MAX_MACHINES:
        raise ValueError(
            f"spec.groups must name at most {MAX_MACHINES} machines, each as often as it is taken "
            f"from, got {total}"
        )


def _group_to(group: PlannedGroup, *, number: int) -> ReplicaGroup:
    replicas = tuple(each for placement in group.placements for each in _replicas_to(placement))
    if len(replicas) != group.replicas:
        raise ValueError(
            f"spec.groups[{number}].placements must place {group.replicas} replicas, "
            f"got {len(replicas)}"
        )
    return to_core(
        ReplicaGroup,
        group,
        parallelism=to_core(Parallelism, group),
        replicas=replicas,
        stage_sites=tuple((each.gpu_kind, each.region) for each in group.stage_sites),
        training_mode=to_core(TrainingMode, group.training) if group.training else None,
    )


def _replicas_to(placement: Placement) -> list[Replica]:
    runs = [Run(pattern=run.machines, times=run.times) for run in placement.runs]
    machines = [name for run in runs for name in run.names()]
    if not placement.gpus or len(machines) % len(placement.gpus):
        raise ValueError(
            f"a placement must list {len(placement.gpus)} machines for each replica, "
            f"got {len(machines)} in all"
        )
    if placement.first_gpus and len(placement.first_gpus) != len(placement.gpus):
        raise ValueError(
            f"firstGPUs must name one GPU for each of {len(placement.gpus)} shares, "
            f"got {len(placement.first_gpus)}"
        )
    waiting = iter(machines)
    shares = len(placement.gpus)
    firsts: Sequence[int | None] = placement.first_gpus or [None] * shares
    return [
        Replica(
            shares=tuple(
                Share(machine=machine, num_gpus=num_gpus, first_gpu=first)
                for machine, num_gpus, first in zip(
                    islice(waiting, shares), placement.gpus, firsts, strict=True
                )
            ),
            work_share=placement.work_share,
        )
        for _ in range(len(machines) // shares)
    ]


def _prediction_from(prediction: Prediction) -> PlanPrediction:
    fields = asdict(prediction)
    figures = {name: _shown(value) for name, value in fields.items() if name != "bottleneck"}
    return PlanPrediction(**figures, bottleneck=prediction.bottleneck)


def _shown(figure: float) -> float:
    """Leave out digits that say nothing: kubectl prints all that there are."""
    return float(f"{figure:.{_DIGITS}g}")
