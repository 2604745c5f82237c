from dataclasses import replace

import pytest

from hetrl_core.job.spec import Strategy
from hetrl_core.plan.plan import (
    Infeasible,
    MemoryUse,
    Parallelism,
    Plan,
    Prediction,
    Replica,
    ReplicaGroup,
    Share,
)
from hetrl_core.task import Task

PREDICTION = Prediction(
    step_seconds=2.0,
    generation_seconds=2.0,
    training_seconds=1.0,
    weight_sync_seconds=0.1,
    samples_per_second=4.0,
    dollars_per_hour=10.0,
    mean_staleness=1.0,
    bottleneck="generation",
)


def a_group(task: Task, *machines: str, tensor: int = 1, stages: int = 1) -> ReplicaGroup:
    return ReplicaGroup(
        tasks=(task,),
        gpu_kind="L4",
        region="local",
        parallelism=Parallelism(tensor=tensor, stage_layers=(4,) * stages),
        replicas=tuple(
            Replica(shares=(Share(machine=name, num_gpus=tensor * stages),)) for name in machines
        ),
        memory=MemoryUse(weights_bytes=1),
    )


def test_gpus_are_counted_over_replicas_tensor_ranks_and_stages() -> None:
    group = a_group(Task.ACTOR_GENERATION, "a", "b", tensor=2, stages=3)
    plan = Plan(strategy=Strategy.AUTO, groups=(group, group), prediction=PREDICTION)
    assert group.num_gpus == 12
    assert plan.num_gpus == 24


def test_groups_are_found_by_what_they_do() -> None:
    trains, generates = a_group(Task.ACTOR_TRAINING, "a"), a_group(Task.ACTOR_GENERATION, "b")
    both = replace(trains, tasks=(Task.ACTOR_TRAINING, Task.REFERENCE_INFERENCE))
    plan = Plan(strategy=Strategy.AUTO, groups=(trains, generates, both), prediction=PREDICTION)
    assert plan.groups_with(Task.ACTOR_TRAINING) == (trains, both)
    assert plan.groups_with(Task.CRITIC_TRAINING) == ()


def test_memory_is_the_sum_of_its_parts() -> None:
    use = MemoryUse(
        weights_bytes=1,
        gradients_bytes=2,
        optimizer_bytes=4,
        activations_bytes=8,
        kv_cache_bytes=16,
        overhead_bytes=32,
    )
    assert use.total_bytes == 63


@pytest.mark.parametrize(
    ("tensor", "stage_layers", "message"),
    [
        pytest.param(0, (1,), "tensor parallelism must be >= 1, got 0", id="no rank"),
        pytest.param(1, (), "each pipeline stage needs a layer", id="no stage"),
        pytest.param(1, (3, 0), "each pipeline stage needs a layer", id="empty stage"),
    ],
)
def test_split_without_parts_is_refused(
    tensor: int, stage_layers: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Parallelism(tensor=tensor, stage_layers=stage_layers)


def test_infeasible_outcome_says_why() -> None:
    with pytest.raises(ValueError, match="at least one reason"):
        Infeasible(reasons=())
