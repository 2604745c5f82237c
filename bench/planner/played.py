"""Simulated plans: lengths vary, and batches wait for their longest responses.

The simulator leases prompts to free replicas and scores on free replicas, so here verl's equal
chunks are divided better than by verl itself; its training shares stay equal.
"""

import numpy as np

from hetrl_core.job.algorithm import AlgorithmSpec, AlgorithmType, Mode
from hetrl_core.job.spec import (
    DataSpec,
    Engine,
    JobSpec,
    ModelSpec,
    PlanningSpec,
    ResourcesSpec,
    RolloutSpec,
    TrainingSpec,
)
from hetrl_core.task import Task
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.problem.workload import Workload
from hetrl_planner.strategies import playoff


def step_seconds(found: Evaluation, evaluator: Evaluator, *, seed: int = 1) -> float:
    """Return the mean time of a step of a plan."""
    generator = np.random.default_rng(seed)
    return playoff.step_seconds(found, evaluator, job_of(evaluator.work), generator=generator)


def job_of(work: Workload) -> JobSpec:
    """Return a job that is this work."""
    return JobSpec(
        name="bench",
        model=ModelSpec(source="bench", architecture=work.architecture),
        algorithm=AlgorithmSpec(
            type=AlgorithmType.PPO if Task.CRITIC_TRAINING in work.tasks else AlgorithmType.GRPO,
            mode=Mode.SYNC if work.is_synchronous else Mode.ASYNC,
            max_staleness=work.max_staleness,
            global_batch_size=work.batch_size,
            minibatches=work.minibatches,
            kl_coefficient=0.001,
        ),
        data=DataSpec(
            prompts="bench.jsonl",
            max_prompt_tokens=work.max_prompt_tokens,
            max_response_tokens=work.max_response_tokens,
            mean_response_tokens=work.response_tokens,
        ),
        training=TrainingSpec(steps=playoff.STEPS),
        resources=ResourcesSpec(),
        rollout=RolloutSpec(),
        planning=PlanningSpec(),
        engine=Engine.VLLM,
    )
