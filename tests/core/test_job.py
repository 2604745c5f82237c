from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from hetrl_core.job.algorithm import AlgorithmSpec, Mode
from hetrl_core.job.reward import LengthPenalty, PythonReward, RegexReward
from hetrl_core.job.spec import (
    DataSpec,
    MeetDeadline,
    MinimiseCost,
    PoolSpec,
    ResourcesSpec,
    RolloutSpec,
    Tool,
    TrainingSpec,
)

NAN = float("nan")

data = partial(DataSpec, prompts="train.jsonl")
pool = partial(PoolSpec, name="edge")


@pytest.mark.parametrize(
    ("make", "fields", "said"),
    [
        pytest.param(
            data,
            {"reward": "regex"},
            "data.regex must be set if and only if data.reward is regex",
            id="no pattern",
        ),
        pytest.param(
            data,
            {"python": PythonReward(file="x")},
            "data.reward is python, got math",
            id="code for another reward",
        ),
        pytest.param(
            data,
            {"max_response_tokens": 8, "length_penalty": LengthPenalty(buffer_tokens=9)},
            r"data.lengthPenalty.bufferTokens must be <= maxResponseTokens \(8\), got 9",
            id="a penalty for every response and more",
        ),
        pytest.param(
            data,
            {"tools": (Tool.CALCULATOR,) * 2},
            "data.tools must not name a tool twice, got calculator, calculator",
            id="a tool twice",
        ),
        pytest.param(
            LengthPenalty,
            {"buffer_tokens": 0},
            "lengthPenalty.bufferTokens must be >= 1, got 0",
            id="no buffer",
        ),
        pytest.param(
            LengthPenalty,
            {"buffer_tokens": 1, "weight": NAN},
            "data.lengthPenalty.weight must be > 0, got nan",
            id="no weight",
        ),
        pytest.param(
            RegexReward,
            {"pattern": "(a"},
            "data.regex.pattern is not a regular expression",
            id="half a pattern",
        ),
        pytest.param(
            PythonReward,
            {"file": "x", "timeout_seconds": 0},
            "data.python.timeoutSeconds must be > 0, got 0",
            id="no time",
        ),
        pytest.param(
            PythonReward,
            {"file": "x", "function": "a.b"},
            "data.python.function must be a name of Python, got 'a.b'",
            id="no name",
        ),
        pytest.param(
            AlgorithmSpec,
            {"max_staleness": -1},
            "algorithm.maxStaleness must be >= 0, got -1",
            id="a bound below on-policy",
        ),
        pytest.param(
            AlgorithmSpec,
            {"mode": Mode.SYNC, "max_staleness": 1},
            "maxStaleness must be 0 when algorithm.mode is Sync, got 1",
            id="synchronous but stale",
        ),
        pytest.param(
            AlgorithmSpec,
            {"group_size": 0},
            "algorithm.groupSize must be >= 1, got 0",
            id="empty groups",
        ),
        pytest.param(
            AlgorithmSpec,
            {"global_batch_size": 0},
            "globalBatchSize must be >= 1, got 0",
            id="an empty batch",
        ),
        pytest.param(
            AlgorithmSpec,
            {"global_batch_size": 12},
            r"\(12\) must be a multiple of .* \(8\)",
            id="a group cut in two",
        ),
        pytest.param(
            AlgorithmSpec,
            {"minibatches": 0},
            "algorithm.minibatches must be >= 1, got 0",
            id="no minibatch",
        ),
        pytest.param(
            AlgorithmSpec,
            {"kl_coefficient": NAN},
            "klCoefficient must be >= 0, got nan",
            id="a term of no size",
        ),
        pytest.param(
            data,
            {"max_prompt_tokens": 0},
            "data.maxPromptTokens must be >= 1, got 0",
            id="prompts of no length",
        ),
        pytest.param(
            data,
            {"max_response_tokens": -5},
            "data.maxResponseTokens must be >= 1, got -5",
            id="responses of negative length",
        ),
        pytest.param(
            data,
            {"mean_response_tokens": 0},
            "data.meanResponseTokens must be >= 1, got 0",
            id="no response on average",
        ),
        pytest.param(
            TrainingSpec, {"steps": 0}, "training.steps must be >= 1, got 0", id="no steps"
        ),
        pytest.param(
            partial(TrainingSpec, steps=1),
            {"learning_rate": NAN},
            "training.learningRate must be >= 0, got nan",
            id="no learning rate",
        ),
        pytest.param(
            ResourcesSpec,
            {"budget_dollars_per_hour": 0.0},
            "resources.budgetPerHour must be > 0, got 0",
            id="no budget",
        ),
        pytest.param(
            ResourcesSpec,
            {"budget_dollars_per_hour": NAN},
            "resources.budgetPerHour must be > 0, got nan",
            id="a budget that is no number",
        ),
        pytest.param(
            ResourcesSpec, {"max_gpus": 0}, "resources.maxGPUs must be >= 1, got 0", id="no GPUs"
        ),
        pytest.param(
            pool,
            {"max_gpus": -1},
            "resources.pools edge: maxGPUs must be >= 1, got -1",
            id="a pool of fewer than none",
        ),
        pytest.param(
            pool,
            {"dollars_per_gpu_hour": -0.1},
            "resources.pools edge: pricePerGPUHour must be >= 0, got -0.1",
            id="a pool that pays",
        ),
        pytest.param(
            RolloutSpec,
            {"min_replicas": 0},
            "rollout.minReplicas must be >= 1, got 0",
            id="no rollouts",
        ),
        pytest.param(
            RolloutSpec,
            {"min_replicas": 3, "max_replicas": 2},
            r"rollout.maxReplicas must be >= minReplicas \(3\), got 2",
            id="most below fewest",
        ),
        pytest.param(
            RolloutSpec,
            {"replicas": -1},
            "rollout.replicas must be >= 1, got -1",
            id="fewer rollouts than none",
        ),
        pytest.param(
            MinimiseCost,
            {"required_samples_per_second": 0.0},
            "requiredSamplesPerSecond must be > 0, got 0",
            id="no pace",
        ),
        pytest.param(
            MeetDeadline,
            {"seconds_left": -1.0},
            "deadline: seconds left must be > 0, got -1",
            id="a deadline in the past",
        ),
    ],
)
def test_meaningless_job_is_refused_with_reason(
    make: Callable[..., object], fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        make(**fields)
