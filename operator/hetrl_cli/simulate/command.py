"""``hetrl simulate``: simulates a plan, or a pipeline described by its rates.

This module reads the input and prints the result; ``hetrl_planner.simulator`` simulates.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from pydantic.alias_generators import to_camel

from hetrl_api.conversion import to_core
from hetrl_api.load import load_pipeline, read_plan
from hetrl_api.pipeline import PipelineFailures, RatePipeline, ResponseTokens
from hetrl_api.validation.errors import InvalidObjectError
from hetrl_cli.console import console
from hetrl_cli.files import read_job, read_text
from hetrl_cli.planning_progress import planning_progress
from hetrl_cli.say import say
from hetrl_cli.tables.simulation import show_simulation
from hetrl_cli.topology_option import requested_fleet, topology_option
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_planner.plan_job import plan
from hetrl_planner.problem.lengths import (
    Constant,
    Empirical,
    Lengths,
    Uniform,
    lognormal_of_max,
    lognormal_of_p95,
    lognormal_of_variation,
)
from hetrl_planner.simulator.measurement.result import SimulationResult
from hetrl_planner.simulator.pipeline.compile import compile_plan
from hetrl_planner.simulator.pipeline.pipeline import (
    Failures,
    Pipeline,
    ReplicaLoss,
    TrainerSpec,
    WeightRoute,
)
from hetrl_planner.simulator.pipeline.rates import GROUP, REGION, rollouts_of_rates
from hetrl_planner.simulator.simulate import simulate

DEFAULT_STEPS = 100
TABLE_WIDTH = 120
"""Columns where there is no terminal."""

_FILE = click.Path(dir_okay=False, allow_dash=True, path_type=Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationInput:
    """A pipeline to simulate, and the number of steps."""

    pipeline: Pipeline
    steps: int
    warmup_steps: int | None
    predicted_step_seconds: float | None = None
    """The plan's prediction; None without a plan."""


@click.command("simulate")
@click.option("-f", "--file", "job_file", type=_FILE, help="The HetRLJob whose plan is simulated.")
@click.option(
    "-p",
    "--pipeline",
    "pipeline_file",
    type=_FILE,
    help="A pipeline described by its rates, in place of a job.",
)
@click.option(
    "--plan",
    "plan_file",
    type=_FILE,
    help="The job's HetRLPlan, as hetrl plan -o json prints it. Unset: the planner makes one.",
)
@topology_option
@click.option("--context", help="The kubeconfig's context, where the fleet is a cluster.")
@click.option(
    "--steps",
    type=click.IntRange(min=1, max=1_000_000),
    help="Steps to simulate. Unset: the pipeline's, or the job's up to 100.",
)
@click.option(
    "--warmup-steps",
    type=click.IntRange(min=0),
    help="First steps that are not measured. Unset: the bound plus two.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
@click.option(
    "--plot",
    "plot_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw staleness and idle shares into a PNG or SVG file.",
)
def command(
    *,
    job_file: Path | None,
    pipeline_file: Path | None,
    plan_file: Path | None,
    topology: Path | None,
    context: str | None,
    steps: int | None,
    warmup_steps: int | None,
    seed: int,
    output: str,
    plot_file: Path | None,
) -> None:
    """Simulate a plan or a pipeline: throughput, idle shares, staleness, dollars.

    Ends 0 with figures, 2 where there is no plan, 1 if the input is invalid. The same
    input with the same seed gives the same figures.
    """
    if (job_file is None) == (pipeline_file is None):
        raise click.UsageError("give either --file with a job or --pipeline, not both")
    try:
        if pipeline_file is not None:
            _refuse_plan_options(plan=plan_file, topology=topology, context=context)
            simulation = _of_rates(load_pipeline(read_text(pipeline_file)))
        else:
            assert job_file is not None
            simulation = _of_job(job_file, plan_file, topology, context=context)
        result = simulate(
            simulation.pipeline,
            steps=steps or simulation.steps,
            warmup_steps=simulation.warmup_steps if warmup_steps is None else warmup_steps,
            generator=np.random.default_rng(seed),
        )
    except InvalidObjectError as error:
        raise click.ClickException("; ".join(error.messages)) from error
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    _print(result, simulation, output=output)
    if plot_file is not None:
        _plot(result, plot_file)


def as_document(result: SimulationResult) -> dict[str, Any]:
    """Return a result as JSON shows it: the same fields in camel case."""
    document = _camel(asdict(result))
    document["work"]["discarded"] = result.work.discarded
    return dict(document)


def _of_rates(spec: RatePipeline) -> SimulationInput:
    lengths = _lengths(spec.response_tokens)
    rollouts = rollouts_of_rates(
        concurrency=spec.concurrency,
        batch_size=spec.global_batch_size,
        rate_ratio=spec.rate_ratio,
        mean_tokens=lengths.mean_tokens,
        replicas=spec.replicas,
        train_step_seconds=spec.train_step_seconds,
        load_sensitivity=spec.load_sensitivity,
    )
    pipeline = to_core(
        Pipeline,
        spec,
        batch_size=spec.global_batch_size,
        max_staleness=spec.max_staleness,
        lengths=lengths,
        rollouts=(rollouts,),
        trainer=to_core(TrainerSpec, spec, step_seconds=spec.train_step_seconds),
        routes=(WeightRoute(region=REGION, load_seconds=spec.weight_sync_seconds),),
        checks_consumption=spec.strict_check,
        is_interruptible=spec.interruptible,
        leases_groups=spec.lend_groups,
        failures=_failures(spec.failures),
    )
    return SimulationInput(pipeline=pipeline, steps=spec.steps, warmup_steps=spec.warmup_steps)


def _failures(spec: PipelineFailures) -> Failures:
    losses = tuple(to_core(ReplicaLoss, each, group=GROUP) for each in spec.replicas)
    return to_core(Failures, spec, replicas=losses)


def _lengths(spec: ResponseTokens) -> Lengths:
    if spec.constant is not None:
        return Constant(tokens=spec.constant)
    if spec.uniform is not None:
        return Uniform(min_tokens=spec.uniform.min, max_tokens=spec.uniform.max)
    if spec.empirical is not None:
        return Empirical(tokens=spec.empirical)
    assert spec.lognormal is not None
    mean, most = spec.lognormal.mean, spec.lognormal.max
    if spec.lognormal.p95 is not None:
        return lognormal_of_p95(mean_tokens=mean, p95_tokens=spec.lognormal.p95, max_tokens=most)
    if spec.lognormal.cv is not None:
        return lognormal_of_variation(
            mean_tokens=mean, variation=spec.lognormal.cv, max_tokens=most
        )
    return lognormal_of_max(mean_tokens=mean, max_tokens=most)


def _of_job(
    job_file: Path, plan_file: Path | None, topology: Path | None, *, context: str | None
) -> SimulationInput:
    job = read_job(job_file)
    fleet = requested_fleet(topology, context=context).snapshot(job.resources)
    found = _plan(job, fleet) if plan_file is None else read_plan(read_text(plan_file))
    return SimulationInput(
        pipeline=compile_plan(found, job, fleet),
        steps=min(job.training.steps, DEFAULT_STEPS),
        warmup_steps=None,
        predicted_step_seconds=found.prediction.step_seconds,
    )


def _plan(job: JobSpec, fleet: ClusterSnapshot) -> Plan:
    with planning_progress(job.planning.time_budget_seconds) as should_stop:
        outcome = plan(fleet, job, should_stop=should_stop)
    if isinstance(outcome, Infeasible):
        say("Error: no plan: " + "; ".join(outcome.reasons), err=True)
        raise SystemExit(2)
    return outcome


def _refuse_plan_options(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise click.UsageError(f"--{name} belongs to --file: a pipeline has no plan")


def _print(result: SimulationResult, simulation: SimulationInput, *, output: str) -> None:
    if output == "json":
        document = as_document(result)
        document["predictedStepSeconds"] = simulation.predicted_step_seconds
        say(json.dumps(document, indent=1))
        return
    show_simulation(
        console(width=TABLE_WIDTH),
        result,
        predicted_step_seconds=simulation.predicted_step_seconds,
        max_staleness=simulation.pipeline.max_staleness,
    )


def _plot(result: SimulationResult, path: Path) -> None:
    try:
        from hetrl_cli.simulate.plot import draw  # noqa: PLC0415
    except ImportError as error:
        raise click.ClickException(
            f"--plot needs {error.name}: install hetrl with its report extra"
        ) from error
    try:
        draw(result, path)
    except (OSError, ValueError) as error:
        raise click.ClickException(f"cannot draw {path}: {error}") from error
    say(f"drawn: {path}", err=True)


def _camel(value: Any) -> Any:
    if isinstance(value, dict):
        return {to_camel(name): _camel(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_camel(each) for each in value]
    return value
