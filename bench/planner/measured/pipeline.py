"""A published run as the simulator plays it.

What the published system does and the cost model has no field for is set on the pipeline.
"""

from dataclasses import replace

from bench.planner.measured.calibration import Parameters
from bench.planner.measured.case import Run
from bench.planner.measured.layouts import evaluated, evaluator_of, places
from hetrl_core.fleet.snapshot import GpuKind
from hetrl_core.job.algorithm import AlgorithmSpec, Mode
from hetrl_core.job.spec import DataSpec, JobSpec, ModelSpec, Strategy, TrainingSpec
from hetrl_core.plan.plan import Parallelism, Plan
from hetrl_core.task import Task
from hetrl_planner.cost.inference import inference_pace
from hetrl_planner.cost.network import inside_machine
from hetrl_planner.cost.stage import uniform_stages
from hetrl_planner.layout.to_plan import prediction, replica_groups
from hetrl_planner.simulator.pipeline.compile import compile_plan
from hetrl_planner.simulator.pipeline.pipeline import Pipeline

KEEPS_UP_SECONDS = 1.0
"""A step of a trainer that holds nothing back."""

LOOSE = 1_000
"""A staleness bound that keeps no replica out; the pipeline gets the run's own."""


def pipeline_of(run: Run, parameters: Parameters) -> Pipeline:
    unbounded = replace(run, work=replace(run.work, max_staleness=LOOSE * run.work.max_staleness))
    evaluator = evaluator_of(unbounded, parameters)
    found = evaluated(unbounded, evaluator)
    groups = tuple(
        replace(group, concurrency=places(run)) if Task.ACTOR_GENERATION in group.tasks else group
        for group in replica_groups(found, evaluator)
    )
    plan = Plan(strategy=Strategy.AUTO, groups=groups, prediction=prediction(found, run.work))
    snapshot = evaluator.devices.snapshot
    compiled = compile_plan(plan, _job(run), snapshot)
    skipped = 0.0 if run.has_proximal_pass else _scoring_seconds(run, snapshot.gpu_kinds[0])
    return replace(
        compiled,
        trainer=replace(
            compiled.trainer,
            step_seconds=KEEPS_UP_SECONDS
            if run.trainer_keeps_up
            else compiled.trainer.step_seconds - skipped,
            minibatches=run.streamed_parts,
            streams_minibatches=run.streamed_parts > 1,
        ),
        rollouts=tuple(
            replace(
                group,
                recompute_seconds_per_token=group.prefill_seconds / run.work.prompt_tokens
                if run.recomputes_cache
                else 0.0,
            )
            for group in compiled.rollouts
        ),
        queue_capacity=_queue_capacity(run),
        is_interruptible=run.is_interruptible,
        # None of these systems checks a trajectory's age again.
        checks_consumption=False,
    )


def _queue_capacity(run: Run) -> int | None:
    """Return the trajectories that may wait; what is trained on together must find room."""
    if run.ahead_share is None:
        return None
    part = run.work.batch_size // run.streamed_parts
    return max(part, round(run.ahead_share * run.work.batch_size))


def _scoring_seconds(run: Run, kind: GpuKind) -> float:
    """Return the time of one forward pass over a batch, by unpiped training replicas."""
    assert run.training.stages == 1
    cut = Parallelism(tensor=run.training.tensor, stage_layers=(run.work.architecture.num_layers,))
    stages = uniform_stages(run.work.architecture, cut, kind, inside_machine(kind))
    replicas = run.training.num_gpus // run.training.tensor
    return inference_pace(run.work, stages).seconds(run.work.batch_size / replicas)


def _job(run: Run) -> JobSpec:
    """Return a job that is this run's work."""
    work = run.work
    return JobSpec(
        name="measured",
        model=ModelSpec(source="published", architecture=work.architecture),
        algorithm=AlgorithmSpec(
            mode=Mode.SYNC if work.is_synchronous else Mode.ASYNC,
            max_staleness=work.max_staleness,
            group_size=work.group_size,
            global_batch_size=work.batch_size,
            minibatches=work.minibatches,
            kl_coefficient=0.01 if Task.REFERENCE_INFERENCE in work.tasks else 0.0,
        ),
        data=DataSpec(
            prompts="published.jsonl",
            max_prompt_tokens=work.max_prompt_tokens,
            max_response_tokens=work.max_response_tokens,
            mean_response_tokens=work.response_tokens,
        ),
        training=TrainingSpec(steps=1),
    )
