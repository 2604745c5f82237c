"""HetRLPlans with a GPU for each group, and the fleet that they are for."""

from collections.abc import Iterable
from pathlib import Path

import yaml

from hetrl_cli.plan import as_object
from hetrl_core.job.spec import Strategy
from hetrl_core.plan.groupings import TaskGroup
from hetrl_core.plan.plan import (
    REPLICATED,
    MemoryUse,
    Parallelism,
    Plan,
    Prediction,
    Replica,
    ReplicaGroup,
    Share,
)
from hetrl_core.task import TRAINING_TASKS, Task
from tests.builders import a_job

PREDICTION = Prediction(
    step_seconds=1.0,
    generation_seconds=1.0,
    training_seconds=1.0,
    weight_sync_seconds=0.1,
    samples_per_second=64.0,
    dollars_per_hour=1.0,
    mean_staleness=1.0,
    bottleneck="generation",
)


def write_plan(
    folder: Path,
    groups: Iterable[TaskGroup],
    *,
    num_layers: int,
    training_stages: tuple[int, ...] = (),
) -> tuple[str, ...]:
    """Write a plan and its fleet; return the options by which `hetrl run` takes both.

    ``training_stages`` are the layers of each trainer process; empty: one process has them all.
    """
    planned = tuple(
        _group(
            f"l4-{number:03}",
            tasks,
            stages=(TRAINING_TASKS & tasks and training_stages) or (num_layers,),
        )
        for number, tasks in enumerate(groups)
    )
    gpus_per_machine = max(1, len(training_stages))
    plan = Plan(strategy=Strategy.AUTO, groups=planned, prediction=PREDICTION, gap=0.5)
    (folder / "plan.yaml").write_text(yaml.safe_dump(as_object(plan, a_job())))
    fleet = {
        "apiVersion": "hetrl.dev/v1alpha1",
        "kind": "HetRLTopology",
        "metadata": {"name": "small"},
        "spec": {
            "pools": [
                {
                    "name": "l4",
                    "gpuKind": "L4",
                    "machines": len(planned),
                    "gpusPerMachine": gpus_per_machine,
                }
            ]
        },
    }
    (folder / "fleet.yaml").write_text(yaml.safe_dump(fleet))
    return "--plan", str(folder / "plan.yaml"), "--topology", str(folder / "fleet.yaml")


def _group(machine: str, tasks: TaskGroup, *, stages: tuple[int, ...]) -> ReplicaGroup:
    return ReplicaGroup(
        tasks=tuple(task for task in Task if task in tasks),
        gpu_kind="L4",
        region="local",
        parallelism=Parallelism(tensor=1, stage_layers=stages),
        replicas=(Replica(shares=(Share(machine=machine, num_gpus=len(stages)),)),),
        memory=MemoryUse(weights_bytes=1),
        training_mode=REPLICATED if TRAINING_TASKS & tasks else None,
        concurrency=64 if Task.ACTOR_GENERATION in tasks else 0,
    )
