"""The series of a cluster's job, made from its status and plan as the operator makes them.

The operator serves them too, but few users may reach its namespace.
"""

import contextlib
import json

import click
from prometheus_client import CollectorRegistry, generate_latest
from pydantic import ValidationError

from hetrl_api.job.status import JobStatus
from hetrl_api.load import parse
from hetrl_api.plan.plan import HetRLPlan
from hetrl_api.plan.to_core import to_plan
from hetrl_api.validation.errors import InvalidObjectError
from hetrl_cli.cluster.connection import Connection, Object
from hetrl_cli.run.metrics.recording import Identity, series_of
from hetrl_core.plan.plan import Plan
from hetrl_operator.http.job_metrics import JobMetrics, job_shown


class ClusterJobSeries:
    """One job's series; each plan that it follows is read once."""

    def __init__(self, connection: Connection) -> None:
        """Show nothing yet."""
        self._connection = connection
        self._registry = CollectorRegistry()
        self._metrics = JobMetrics(self._registry)
        self._plan: tuple[str, Plan | None] = "", None

    def series(self, job: Object) -> dict[Identity, float]:
        """Return the series; the last ones if an operator of another release wrote the status."""
        metadata = job["metadata"]
        text = json.dumps(job.get("status") or {})
        with contextlib.suppress(ValidationError):
            status = JobStatus.model_validate_json(text, by_alias=True, by_name=False)
            plan = self._followed(status.plan.name if status.plan else "")
            has_pods = any(each.replicas for each in status.pod_sets)
            shown = job_shown(status, plan=plan, is_paid=has_pods)
            self._metrics.show((metadata["namespace"], metadata["name"]), shown)
        return series_of(generate_latest(self._registry).decode(), {})

    def _followed(self, name: str) -> Plan | None:
        known, plan = self._plan
        if name != known:
            plan = self._read(name) if name else None
            self._plan = name, plan
        return plan

    def _read(self, name: str) -> Plan | None:
        with contextlib.suppress(click.ClickException, InvalidObjectError):
            return to_plan(parse(HetRLPlan, self._connection.plan(name)).spec)
        return None
