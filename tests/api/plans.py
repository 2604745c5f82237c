"""Plans for tests of their objects: predictions, and a plan as large as plans get."""

from collections.abc import Sequence

from hetrl_core.job.spec import Strategy
from hetrl_core.plan.plan import (
    MemoryUse,
    Parallelism,
    Plan,
    Prediction,
    Rejected,
    Replica,
    ReplicaGroup,
    Share,
)
from hetrl_core.task import Task


def a_prediction() -> Prediction:
    """What some plan is expected to do."""
    return Prediction(
        step_seconds=12.5,
        generation_seconds=12.5,
        training_seconds=7.25,
        weight_sync_seconds=0.1,
        samples_per_second=20.5,
        dollars_per_hour=31.4,
        mean_staleness=1.5,
        bottleneck="generation: HBM bandwidth of the L4s",
    )


def a_plan_of_10240_gpus(machines: Sequence[str]) -> Plan:
    """One replica on each of 10,240 GPUs, spread evenly over the machines."""
    gpus_per_machine = 10_240 // len(machines)
    group = ReplicaGroup(
        tasks=(Task.ACTOR_GENERATION,),
        gpu_kind="A100-40GB",
        region="eu-west-1",
        parallelism=Parallelism(tensor=1, stage_layers=(36,)),
        replicas=tuple(
            Replica(shares=(Share(machine=machine, num_gpus=1),), work_share=1 / 10_240)
            for machine in machines
            for _ in range(gpus_per_machine)
        ),
        memory=MemoryUse(weights_bytes=2**34),
    )
    return Plan(
        strategy=Strategy.AREAL_HEX,
        groups=(group,),
        prediction=a_prediction(),
        rejected=tuple(Rejected(summary="s" * 200, reason="r" * 400) for _ in range(30)),
    )
