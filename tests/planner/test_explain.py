import re
from dataclasses import replace

import pytest

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.algorithm import AlgorithmSpec, AlgorithmType
from hetrl_core.job.spec import (
    Engine,
    JobSpec,
    MeetDeadline,
    MinimiseCost,
    ModelSpec,
    PoolSpec,
    RolloutSpec,
)
from hetrl_core.plan.plan import Infeasible
from hetrl_planner.plan_job import plan
from tests.builders import a_fleet, a_job

FLEET = a_fleet(a100=16, l4=8)


def reasons(fleet: ClusterSnapshot, job: JobSpec, *, runnable_only: bool = False) -> str:
    # Without evolution, which shares GPUs between tasks where they do not fit apart.
    outcome = plan(fleet, job, runnable_only=runnable_only, evaluations=0)
    assert isinstance(outcome, Infeasible)
    return " | ".join(outcome.reasons)


def in_pool(fleet: ClusterSnapshot, pool: str) -> ClusterSnapshot:
    return replace(fleet, machines=tuple(replace(each, pool=pool) for each in fleet.machines))


@pytest.mark.parametrize(
    ("fleet", "job", "said"),
    [
        pytest.param(
            a_fleet(l4=8),
            a_job("Qwen3-32B"),
            r"actor training needs 549\.\d GiB of weights, gradients and optimizer state; the best "
            r"split that this fleet allows on L4 in local, 8 GPUs on one machine of 22\.5 GiB",
            id="model too large to train",
        ),
        pytest.param(
            a_fleet(l4=8),
            a_job("Qwen3-32B", algorithm=AlgorithmSpec(type=AlgorithmType.PPO)),
            r"actor and critic training need 1,?09\d\.\d GiB of weights",
            id="two models to train",
        ),
        pytest.param(
            a_fleet(t4=1),
            a_job("Qwen3-14B"),
            r"generation needs 27\.5 GiB of weights",
            id="model too large to generate",
        ),
        pytest.param(
            a_fleet(a100=1),
            a_job("Qwen3-1.7B"),
            "training takes at least 1 GPUs and generation at least 1, .* "
            "do not fit the fleet's 1 GPUs together",
            id="one GPU for two tasks",
        ),
        pytest.param(
            FLEET,
            a_job(budget=1.0),
            r"budgetPerHour is 1\.00 \$/h; the cheapest plan found costs 2\.40 \$/h",
            id="budget",
        ),
        pytest.param(
            FLEET,
            a_job("Qwen3-14B", max_gpus=3),
            r"maxGPUs is 3; the smallest plan found takes \d+ GPUs",
            id="GPUs",
        ),
        pytest.param(
            FLEET,
            a_job(objective=MinimiseCost(1e6)),
            r"asks for 1000000\.00 samples/s; the fastest plan found within the limits makes \d+\.",
            id="rate",
        ),
        pytest.param(
            FLEET,
            a_job(steps=1000, objective=MeetDeadline(1.0)),
            r"asks for 256000\.00 samples/s",
            id="deadline",
        ),
        pytest.param(
            FLEET,
            a_job(rollout=RolloutSpec(replicas=100)),
            r"rollout\.replicas is 100; without that, the smallest plan found has 1",
            id="replicas",
        ),
        pytest.param(
            FLEET,
            a_job(global_batch_size=8, max_staleness=1, rollout=RolloutSpec(replicas=9)),
            r"rollout\.replicas is 9; the batch and the staleness bound have use for 4",
            id="staleness bound",
        ),
        pytest.param(
            in_pool(FLEET, "edge"),
            a_job(pools=(PoolSpec(name="edge", max_gpus=1),)),
            r"limit the GPUs of edge \(1\); without these limits the smallest plan found takes 2 ",
            id="pool",
        ),
        pytest.param(
            FLEET,
            a_job(pools=(PoolSpec(name="big", gpu_product="H100-80GB"),)),
            "pool big: no machine with GPU product H100-80GB",
            id="empty pool",
        ),
        pytest.param(
            ClusterSnapshot(gpu_kinds=(), machines=()),
            a_job(),
            "no machine with GPUs",
            id="no machine",
        ),
        pytest.param(
            FLEET,
            a_job(budget=1.0, max_gpus=1),
            "together they leave no plan",
            id="two limits",
        ),
        pytest.param(
            FLEET,
            replace(a_job(), model=ModelSpec(source="Qwen/Qwen3-8B", is_path=False)),
            "dimensions of model Qwen/Qwen3-8B are not known",
            id="unknown model",
        ),
    ],
)
@pytest.mark.slow
def test_infeasible_job_gets_reasons_with_numbers(
    fleet: ClusterSnapshot, job: JobSpec, said: str
) -> None:
    found = reasons(fleet, job)
    assert re.search(said, found), found


def test_engine_that_does_not_split_is_named() -> None:
    found = reasons(
        a_fleet(l4=8), a_job("Qwen3-14B", engine=Engine.TRANSFORMERS), runnable_only=True
    )
    assert "would fit, but engine transformers generates with one GPU per replica" in found
