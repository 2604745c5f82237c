"""The planner's inputs for one job, and the digest of the spec's part of them."""

import json
from collections.abc import Hashable
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec, MeetDeadline
from hetrl_operator.model.observed import JobSeen, ParsedSpec
from hetrl_planner.problem.cache_key import PlanningProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchInput:
    """The planner's inputs for a job at one moment."""

    spec: JobSpec
    free: ClusterSnapshot
    whole: ClusterSnapshot
    left_out: tuple[str, ...]
    problem: PlanningProblem
    full: tuple[str, ...]
    """The part of ``left_out`` that is machines without room."""

    full_gpus: int
    """GPUs of these machines that no other job holds."""

    @property
    def exact(self) -> Hashable:
        """The cache key of a refusal: its message counts all that is free."""
        return self.problem.key, self.free.machines, self.whole.machines, self.left_out


_NOT_PLANNED_FOR = dict.fromkeys(("mode", "plan_ref", "history_limit", "replan"))
"""Fields of ``spec.planning`` that do not influence a plan."""


_TIMEOUT_OF_0_2_0 = 2.0
"""The default of ``spec.data.python.timeoutSeconds`` then. The API server stored it with each job,
so the digest leaves out this value instead of the present default."""


def planning_key(parsed: ParsedSpec) -> str:
    """Digest the fields that influence a plan; ``spec.suspend`` is not among them."""
    written = parsed.written
    fields = {
        "model": written.model,
        "algorithm": written.algorithm,
        "data": written.data,
        "resources": written.resources,
        "rollout": written.rollout,
        "planning": written.planning.model_copy(update=_NOT_PLANNED_FOR),
    }
    values = {
        name: each.model_dump(mode="json", exclude_defaults=True, warnings=False)
        for name, each in fields.items()
    }
    if python := written.data.python:
        values["data"]["python"].pop("timeout_seconds", None)
        if python.timeout_seconds != _TIMEOUT_OF_0_2_0:
            values["data"]["python"]["timeout_seconds"] = python.timeout_seconds
    values["runtime"] = {"engine": written.runtime.engine}
    values["training"] = {"steps": written.training.steps}
    text = json.dumps(values, sort_keys=True)
    return sha256(text.encode()).hexdigest()[:32]


def from_now(spec: JobSpec, job: JobSeen, now: datetime) -> JobSpec | None:
    """Subtract the elapsed time and steps from a deadline; None if it has passed."""
    objective = spec.planning.objective
    if not isinstance(objective, MeetDeadline):
        return spec
    left = objective.seconds_left - (now - job.created_at).total_seconds()
    if left <= 0:
        return None
    done = job.status.progress.step if job.status.progress else 0
    return replace(
        spec,
        planning=replace(spec.planning, objective=MeetDeadline(left)),
        training=replace(spec.training, steps=max(1, spec.training.steps - done)),
    )
