"""Preparation of a local run: reads job, fleet and plan, and refuses what cannot start.

The job is validated with the API server's rules, and every path is checked before a process
needs it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

from pydantic import ValidationError

from hetrl_api.job.job import HetRLJob
from hetrl_api.job.planning import PlanningMode
from hetrl_api.job.runtime import Traces
from hetrl_api.job.to_core import to_spec
from hetrl_api.load import read_fleet, read_job, read_plan
from hetrl_cli.files import read_text, with_models_checked
from hetrl_cli.planning_progress import planning_progress
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.identity import Aspect
from hetrl_core.job.spec import Engine, JobSpec, TracesSpec
from hetrl_core.plan.capabilities import obstacles
from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_planner.plan_job import plan
from hetrl_planner.replan.validate import misfits

_CONFIG = "config.json"
_THIS_MACHINE = files(__package__) / "this-machine.yaml"


class NotStartableError(ValueError):
    """A job that cannot start here; the message names the field and what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A job that may be planned, and the fleet to plan it on."""

    text: str
    """The job as it was written."""

    document: HetRLJob
    spec: JobSpec
    fleet: ClusterSnapshot
    left_out: tuple[str, ...] = ()
    """Why nodes of the fleet's file are not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Overrides of the job's file for one run."""

    engine: Engine | None = None
    steps: int | None = None
    seed: int | None = None
    learning_rate: float | None = None
    shuffle_rewards: bool = False
    """Shuffle each batch's rewards, so that nothing can be learned from them."""

    traces: str | None = None
    """Where spans of every trajectory go."""

    allowed_changes: tuple[Aspect, ...] = ()
    """Beside those that the job allows itself."""

    def applied_to(self, job: JobSpec) -> JobSpec:
        """Return the job with the overrides."""
        training, rate = job.training, self.learning_rate
        return replace(
            job,
            engine=self.engine or job.engine,
            traces=_every_trajectory(self.traces) if self.traces else job.traces,
            training=replace(
                training,
                steps=self.steps or training.steps,
                seed=training.seed if self.seed is None else self.seed,
                learning_rate=training.learning_rate if rate is None else rate,
                shuffle_rewards=self.shuffle_rewards,
                allowed_changes=(*training.allowed_changes, *self.allowed_changes),
            ),
        )


def _every_trajectory(endpoint: str) -> TracesSpec:
    try:
        return TracesSpec(endpoint=Traces(endpoint=endpoint).endpoint, sample_ratio=1.0)
    except ValidationError as error:
        raise NotStartableError(
            f"--traces must be a collector's address such as http://localhost:4318, got {endpoint}"
        ) from error


def prepare(
    job_file: Path,
    *,
    topology: Path | None,
    claims: Mapping[str, Path],
    experiment: Experiment,
) -> Prepared:
    """Read a job and a fleet, and check every path that the job names.

    Raises:
        ValueError: the job or the fleet is not valid, or something that it names is missing.
    """
    text = read_text(job_file)
    document = read_job(text)
    if document.spec.planning.mode is PlanningMode.MANUAL:
        raise NotStartableError(
            "spec.planning.mode Manual names a HetRLPlan of a cluster: set mode Auto, and give "
            "the plan with --plan FILE"
        )
    if document.spec.failure_policy.rules_by_role:
        raise NotStartableError(
            "spec.failurePolicy.rules are followed on a cluster only: here each process is "
            "restarted alone, within maxRestarts"
        )
    spec = to_spec(
        document, base_path=job_file.resolve().parent, claims=claims, now=datetime.now(UTC)
    )
    _require_files(spec)
    spec = experiment.applied_to(with_models_checked(spec, needs_weights=True))
    fleet = read_fleet(read_text(topology) if topology else _THIS_MACHINE.read_text())
    return Prepared(
        text=text,
        document=document,
        spec=spec,
        fleet=fleet.snapshot(spec.resources),
        left_out=fleet.left_out(spec.resources),
    )


def make_plan(prepared: Prepared) -> Plan:
    """Plan a job with what this release can run.

    Raises:
        NotStartableError: there is no such plan; every reason in words.
    """
    with planning_progress(prepared.spec.planning.time_budget_seconds) as should_stop:
        outcome = plan(prepared.fleet, prepared.spec, should_stop=should_stop, runnable_only=True)
    if isinstance(outcome, Infeasible):
        reasons = (*outcome.reasons, *prepared.left_out)
        raise NotStartableError("the job fits nowhere: " + "; ".join(reasons))
    found = obstacles(outcome, prepared.spec)
    if found:
        raise NotStartableError("this release cannot run the plan: " + "; ".join(found))
    return outcome


def plan_from_file(prepared: Prepared, plan_file: Path) -> Plan:
    """Read the plan of a run from a file.

    Raises:
        NotStartableError: it does not fit the job or the fleet; every misfit in words.
        ValueError: the file is not one of a plan.
    """
    found = read_plan(read_text(plan_file))
    if why := misfits(found, prepared.fleet, prepared.spec):
        raise NotStartableError(f"plan {plan_file} does not fit: " + "; ".join(why))
    return found


def _is_there(where: Path) -> bool:
    """Tell whether a path, or one that a pattern matches, is a file."""
    first = next((n for n, part in enumerate(where.parts) if "*" in part), None)
    if first is None:
        return where.is_file()
    folder, pattern = Path(*where.parts[:first]), "/".join(where.parts[first:])
    return any(each.is_file() for each in folder.glob(pattern))


def _require_files(spec: JobSpec) -> None:
    model = spec.model
    if model.is_path and not (Path(model.source) / _CONFIG).is_file():
        raise NotStartableError(f"spec.model.source: there is no {model.source}/{_CONFIG}")
    for each in spec.data.prompt_sets:
        field = f"spec.data.sets[{each.name}]" if each.name else "spec.data"
        if each.dataset is None and not _is_there(Path(each.prompts)):
            raise NotStartableError(f"{field}.prompts: there is no file {each.prompts}")
    judges = spec.data.model
    if judges and judges.is_path and not (Path(judges.source) / _CONFIG).is_file():
        raise NotStartableError(f"spec.data.model.source: there is no {judges.source}/{_CONFIG}")
    codes = [each.python for each in spec.data.parts if each.python]
    for code in codes:
        if not Path(code.file).is_file():
            raise NotStartableError(f"spec.data.python.source: there is no file {code.file}")
