"""Numbers that make no pipeline, refused in one line with field, limit and value."""

from collections.abc import Callable
from dataclasses import replace
from math import inf, nan

import pytest

from hetrl_planner.problem.lengths import (
    Constant,
    Empirical,
    Uniform,
    lognormal_of_max,
    lognormal_of_p95,
    lognormal_of_variation,
)
from hetrl_planner.simulator.pipeline.pipeline import (
    Failures,
    InferenceStage,
    ReplicaLoss,
    SharedGpus,
    TrainerSpec,
)
from hetrl_planner.simulator.pipeline.rates import rollouts_of_rates
from tests.simulator.pipelines import a_pipeline, a_route, play, some_rollouts


def of_rates(**changes: object) -> object:
    asked = {"concurrency": 8, "batch_size": 8, "rate_ratio": 1.0, "mean_tokens": 10} | changes
    return rollouts_of_rates(**asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Constant(tokens=0), "responseTokens.constant must be >= 1 and finite, got 0"),
        (lambda: Uniform(min_tokens=-5, max_tokens=3), "uniform.min must be >= 1"),
        (lambda: Uniform(min_tokens=5, max_tokens=3), "uniform.max must be >= 5"),
        (lambda: Empirical(tokens=()), "must have at least one length, got none"),
        (lambda: Empirical(tokens=(4, -1)), "empirical must be >= 1 and finite, got -1"),
        (lambda: lognormal_of_max(mean_tokens=0, max_tokens=9), "mean must be > 0"),
        (lambda: lognormal_of_max(mean_tokens=10, max_tokens=9), "max must be >= the mean (10)"),
        (lambda: lognormal_of_variation(mean_tokens=1, variation=nan, max_tokens=9), "got nan"),
        (lambda: lognormal_of_p95(mean_tokens=10, p95_tokens=9, max_tokens=99), "p95 must be >="),
        (
            lambda: lognormal_of_p95(mean_tokens=10, p95_tokens=90, max_tokens=99),
            "p95 must be at most about 3.9 times the mean (10), got 90",
        ),
        (lambda: a_pipeline(eta=-1), "maxStaleness must be >= 0 and finite, got -1"),
        (lambda: a_pipeline(group=0), "groupSize must be >= 1"),
        (lambda: a_pipeline(batch=30), "globalBatchSize must be a multiple of groupSize (4)"),
        (lambda: a_pipeline(train_seconds=0), "step_seconds must be > 0 and finite, got 0"),
        (lambda: a_pipeline(train_seconds=inf), "step_seconds must be > 0 and finite, got inf"),
        (lambda: a_pipeline(filtered_share=1.0), "filteredShare must be in [0, 1), got 1.0"),
        (lambda: a_pipeline(queue_capacity=-1), "queueCapacity must be >= 0"),
        (
            lambda: a_pipeline(leases_groups=True, rollouts=(some_rollouts(places=3),)),
            "granted whole groups must be >= 4 and finite, got 3",
        ),
        (lambda: a_pipeline(max_concurrent=0), "concurrency must be >= 1"),
        (lambda: a_pipeline(lease_seconds=0), "leaseSeconds must be > 0"),
        (lambda: some_rollouts(replicas=0), "num_replicas must be >= 1 and finite, got 0"),
        (lambda: some_rollouts(places=0), "places must be >= 1, got 0"),
        (lambda: some_rollouts(token_seconds=-0.1), "token_seconds must be > 0"),
        (lambda: some_rollouts(upload_seconds=-1), "upload_seconds must be >= 0"),
        (lambda: a_route(load_seconds=-1), "load_seconds must be >= 0"),
        (lambda: InferenceStage(name="r", server_seconds=()), "num_servers must be >= 1"),
        (lambda: InferenceStage(name="r", server_seconds=(1, -1)), "server_seconds must be >= 0"),
        (lambda: SharedGpus(name="g", switch_seconds=-1), "switch_seconds must be >= 0"),
        (
            lambda: a_pipeline(trainer=TrainerSpec(step_seconds=1, gpus=("pool",))),
            "shared GPUs 'pool' are not among []",
        ),
        (
            lambda: a_pipeline(
                trainer=TrainerSpec(step_seconds=1, minibatches=3, streams_minibatches=True)
            ),
            "must be a multiple of minibatches x groupSize (12), got 32",
        ),
        (lambda: replace(a_pipeline(), rollouts=()), "at least one group of rollout replicas"),
        (lambda: Failures(replica_mean_seconds=0), "replica_mean_seconds must be > 0"),
        (lambda: ReplicaLoss(group="r", replica=0, at_seconds=-1), "at_seconds must be >= 0"),
        (
            lambda: a_pipeline(
                failures=Failures(
                    replicas=(ReplicaLoss(group="rollouts", replica=4, at_seconds=1),)
                )
            ),
            "replica must be one of the 4 of group 'rollouts', got 4",
        ),
        (lambda: of_rates(rate_ratio=0), "rateRatio must be > 0 and finite, got 0"),
        (lambda: of_rates(rate_ratio=-2), "rateRatio must be > 0 and finite, got -2"),
        (lambda: of_rates(concurrency=0), "concurrency must be >= 1"),
        (lambda: of_rates(replicas=3), "concurrency must be a multiple of replicas (3), got 8"),
        (lambda: of_rates(load_sensitivity=1.5), "loadSensitivity must be in [0, 1], got 1.5"),
        (lambda: play(a_pipeline(), steps=0), "steps must be >= 1 and finite, got 0"),
        (lambda: play(a_pipeline(), steps=5, warmup_steps=5), "warmupSteps must be < steps (5)"),
    ],
)
def test_wrong_number_is_refused_in_one_line(make: Callable[[], object], said: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        make()
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
