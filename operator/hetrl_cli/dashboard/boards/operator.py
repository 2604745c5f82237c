"""The board of the operator: leadership, reconcile latency, planning, and API requests."""

from hetrl_cli.dashboard.boards.expression import Age, Expression, increase, quantile, rate, series
from hetrl_cli.dashboard.boards.panel import Board, Curve, Form, Panel, Row, Unit, Variable

_QUEUE = "hetrl_operator_workqueue"


def _figure(title: str, says: str, expression: Expression, unit: Unit = Unit.COUNT) -> Panel:
    return Panel(
        title=title,
        says=says,
        form=Form.FIGURE,
        unit=unit,
        width=4,
        curves=(Curve(expression=expression),),
    )


def _quantiles(title: str, says: str, histogram: str) -> Panel:
    return Panel(
        title=title,
        says=says,
        unit=Unit.SECONDS,
        curves=(
            Curve(expression=quantile(0.5, histogram), legend="median"),
            Curve(expression=quantile(0.95, histogram), legend="95th percentile"),
        ),
    )


_AT_A_GLANCE = Row(
    title="At a glance",
    panels=(
        _figure("Leaders", "Replicas that act: one.", series("hetrl_operator_leader").sum()),
        _figure(
            "Replicas",
            "Replicas that are scraped, whether they act or wait.",
            series("hetrl_operator_build_info").count(),
        ),
        _figure("In the queue", "Jobs that wait for a worker.", series(f"{_QUEUE}_depth").sum()),
        _figure(
            "Event loop lag",
            "How late the event loop's timer was last.",
            series("hetrl_operator_event_loop_lag_seconds").max(),
            Unit.SECONDS,
        ),
        _figure(
            "Memory",
            "Resident memory of the largest replica, the planner's processes aside.",
            series("process_resident_memory_bytes").max(),
            Unit.BYTES,
        ),
        _figure(
            "GPUs in the cluster",
            "Of nodes of any state.",
            series("hetrl_fleet_gpus").max("pool").sum(),
        ),
    ),
)

_ROUNDS = Row(
    title="Rounds over jobs",
    panels=(
        Panel(
            title="Rounds by result",
            says="Per second. Requeued ones are retried; failed ones were refused.",
            form=Form.STACK,
            curves=(
                Curve(
                    expression=rate("hetrl_operator_reconcile_total").sum("result"),
                    legend="{{result}}",
                ),
            ),
        ),
        _quantiles(
            "Reconcile time",
            "From the snapshot of a job to the last write.",
            "hetrl_operator_reconcile_duration_seconds",
        ),
        Panel(
            title="Queue",
            says="Jobs that wait, and per second those added and those that came back.",
            curves=(
                Curve(expression=series(f"{_QUEUE}_depth").sum(), legend="waiting"),
                Curve(expression=rate(f"{_QUEUE}_adds_total").sum(), legend="added per second"),
                Curve(
                    expression=rate(f"{_QUEUE}_retries_total").sum(),
                    legend="tried again per second",
                ),
            ),
        ),
        _quantiles(
            "Wait for a worker",
            "How long a job waits in the queue.",
            f"{_QUEUE}_queue_duration_seconds",
        ),
        _quantiles(
            "Time of a worker",
            "How long a worker is busy with a job, API calls included.",
            f"{_QUEUE}_work_duration_seconds",
        ),
        Panel(
            title="Event loop",
            says="How late its timer was: a blocked loop misses watches and probes.",
            unit=Unit.SECONDS,
            curves=(
                Curve(
                    expression=series("hetrl_operator_event_loop_lag_seconds").max("pod"),
                    legend="{{pod}}",
                ),
            ),
        ),
    ),
)

_API = Row(
    title="API server",
    panels=(
        Panel(
            title="Requests by answer",
            says="Per second and HTTP code; 0 is no answer at all.",
            form=Form.STACK,
            curves=(
                Curve(expression=rate("rest_client_requests_total").sum("code"), legend="{{code}}"),
            ),
        ),
        Panel(
            title="Requests by method",
            says="Per second. A quiet cluster sees no PATCH.",
            curves=(
                Curve(
                    expression=rate("rest_client_requests_total").sum("method"), legend="{{method}}"
                ),
            ),
        ),
        Panel(
            title="Waiting for a turn",
            says="Seconds a second that requests are held back by the client's own limit.",
            unit=Unit.SECONDS,
            curves=(
                Curve(
                    expression=rate("hetrl_operator_throttled_seconds_total").sum(),
                    legend="held back",
                ),
            ),
        ),
        Panel(
            title="Watch events",
            says="Per second, by kind of object.",
            curves=(
                Curve(
                    expression=rate("hetrl_operator_watch_events_total").sum("resource"),
                    legend="{{resource}}",
                ),
            ),
        ),
        Panel(
            title="Silence of watches",
            says="Since each kind's last event. Nodes report often; the others may be quiet.",
            unit=Unit.SECONDS,
            curves=(
                Curve(
                    expression=Age(series("hetrl_operator_watch_last_event_timestamp_seconds")).min(
                        "resource"
                    ),
                    legend="{{resource}}",
                ),
            ),
        ),
        Panel(
            title="Processor time",
            says="Processors kept busy by each replica, the planner's processes aside.",
            curves=(
                Curve(expression=rate("process_cpu_seconds_total").sum("pod"), legend="{{pod}}"),
            ),
        ),
    ),
)

_JOBS = Row(
    title="Planning and jobs",
    panels=(
        Panel(
            title="Answers of the planner",
            says="Within the window, by what came of them.",
            form=Form.STACK,
            curves=(
                Curve(
                    expression=increase("hetrl_planner_solve_duration_seconds_count").sum(
                        "outcome"
                    ),
                    legend="{{outcome}}",
                ),
            ),
        ),
        Panel(
            title="Time to a plan",
            says="95th percentile, by what came of it.",
            unit=Unit.SECONDS,
            curves=(
                Curve(
                    expression=quantile(0.95, "hetrl_planner_solve_duration_seconds", "outcome"),
                    legend="{{outcome}}",
                ),
            ),
        ),
        Panel(
            title="Other plans for running jobs",
            says="Searches within the window, by why they were begun and what came of them.",
            form=Form.STACK,
            curves=(
                Curve(
                    expression=increase("hetrl_replans_total").sum("reason", "outcome"),
                    legend="{{reason}}, {{outcome}}",
                ),
            ),
        ),
        _quantiles(
            "Time to running",
            "From a job's first pod to its running, of jobs that started within the window.",
            "hetrl_job_startup_seconds",
        ),
        Panel(
            title="Jobs that ended",
            says="Since each replica started, by how.",
            curves=(
                Curve(
                    expression=series("hetrl_jobs_ended_total").sum("outcome"), legend="{{outcome}}"
                ),
            ),
        ),
        Panel(
            title="GPUs in the cluster, by kind",
            says="Of nodes of any state, cordoned ones included.",
            form=Form.STACK,
            curves=(Curve(expression=series("hetrl_fleet_gpus").max("pool"), legend="{{pool}}"),),
        ),
        Panel(
            title="Open files",
            says="File descriptors of each replica: watches, requests, processes.",
            curves=(Curve(expression=series("process_open_fds").max("pod"), legend="{{pod}}"),),
        ),
    ),
)

OPERATOR_BOARD = Board(
    name="operator",
    title="HetRL / Operator",
    says="The operator: leadership, reconcile times, results of the API server and the planner.",
    variables=(
        Variable(name="namespace", label="Namespace", metric="hetrl_operator_build_info"),
        Variable(
            name="pod",
            label="Replica",
            metric="hetrl_operator_build_info",
            is_multiple=True,
            within=("namespace",),
        ),
    ),
    rows=(_AT_A_GLANCE, _ROUNDS, _API, _JOBS),
)
