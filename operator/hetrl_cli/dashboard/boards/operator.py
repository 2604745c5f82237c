"""The board of the operator: leadership, reconcile latency, planning, and API requests."""

from hetrl_cli.dashboard.boards.expression import Age, increase, quantile, rate, series
from hetrl_cli.dashboard.boards.panel import (
    Board,
    Form,
    Unit,
    Variable,
    chart,
    figure,
    quantiles,
    row,
)

_QUEUE = "hetrl_operator_workqueue"


_AT_A_GLANCE = row(
    "At a glance",
    figure("Leaders", "Replicas that act: one.", series("hetrl_operator_leader").sum()),
    figure(
        "Replicas",
        "Replicas that are scraped, whether they act or wait.",
        series("hetrl_operator_build_info").count(),
    ),
    figure("In the queue", "Jobs that wait for a worker.", series(f"{_QUEUE}_depth").sum()),
    figure(
        "Event loop lag",
        "How late the event loop's timer was last.",
        series("hetrl_operator_event_loop_lag_seconds").max(),
        Unit.SECONDS,
    ),
    figure(
        "Memory",
        "Resident memory of the largest replica, the planner's processes aside.",
        series("process_resident_memory_bytes").max(),
        Unit.BYTES,
    ),
    figure(
        "GPUs in the cluster",
        "Of nodes of any state.",
        series("hetrl_fleet_gpus").max("pool").sum(),
    ),
)

_ROUNDS = row(
    "Rounds over jobs",
    chart(
        "Rounds by result",
        "Per second. Requeued ones are retried; failed ones were refused.",
        {"{{result}}": rate("hetrl_operator_reconcile_total").sum("result")},
        form=Form.STACK,
    ),
    chart(
        "Reconcile time",
        "From the snapshot of a job to the last write.",
        quantiles("hetrl_operator_reconcile_duration_seconds"),
        unit=Unit.SECONDS,
    ),
    chart(
        "Queue",
        "Jobs that wait, and per second those added and those that came back.",
        {
            "waiting": series(f"{_QUEUE}_depth").sum(),
            "added per second": rate(f"{_QUEUE}_adds_total").sum(),
            "tried again per second": rate(f"{_QUEUE}_retries_total").sum(),
        },
    ),
    chart(
        "Wait for a worker",
        "How long a job waits in the queue.",
        quantiles(f"{_QUEUE}_queue_duration_seconds"),
        unit=Unit.SECONDS,
    ),
    chart(
        "Time of a worker",
        "How long a worker is busy with a job, API calls included.",
        quantiles(f"{_QUEUE}_work_duration_seconds"),
        unit=Unit.SECONDS,
    ),
    chart(
        "Event loop",
        "How late its timer was: a blocked loop misses watches and probes.",
        {"{{pod}}": series("hetrl_operator_event_loop_lag_seconds").max("pod")},
        unit=Unit.SECONDS,
    ),
)

_API = row(
    "API server",
    chart(
        "Requests by answer",
        "Per second and HTTP code; 0 is no answer at all.",
        {"{{code}}": rate("rest_client_requests_total").sum("code")},
        form=Form.STACK,
    ),
    chart(
        "Requests by method",
        "Per second. A quiet cluster sees no PATCH.",
        {"{{method}}": rate("rest_client_requests_total").sum("method")},
    ),
    chart(
        "Waiting for a turn",
        "Seconds a second that requests are held back by the client's own limit.",
        {"held back": rate("hetrl_operator_throttled_seconds_total").sum()},
        unit=Unit.SECONDS,
    ),
    chart(
        "Watch events",
        "Per second, by kind of object.",
        {"{{resource}}": rate("hetrl_operator_watch_events_total").sum("resource")},
    ),
    chart(
        "Silence of watches",
        "Since each kind's last event. Nodes report often; the others may be quiet.",
        {
            "{{resource}}": Age(series("hetrl_operator_watch_last_event_timestamp_seconds")).min(
                "resource"
            )
        },
        unit=Unit.SECONDS,
    ),
    chart(
        "Processor time",
        "Processors kept busy by each replica, the planner's processes aside.",
        {"{{pod}}": rate("process_cpu_seconds_total").sum("pod")},
    ),
)

_JOBS = row(
    "Planning and jobs",
    chart(
        "Answers of the planner",
        "Within the window, by what came of them.",
        {"{{outcome}}": increase("hetrl_planner_solve_duration_seconds_count").sum("outcome")},
        form=Form.STACK,
    ),
    chart(
        "Time to a plan",
        "95th percentile, by what came of it.",
        {"{{outcome}}": quantile(0.95, "hetrl_planner_solve_duration_seconds", "outcome")},
        unit=Unit.SECONDS,
    ),
    chart(
        "Other plans for running jobs",
        "Searches within the window, by why they were begun and what came of them.",
        {"{{reason}}, {{outcome}}": increase("hetrl_replans_total").sum("reason", "outcome")},
        form=Form.STACK,
    ),
    chart(
        "Time to running",
        "From a job's first pod to its running, of jobs that started within the window.",
        quantiles("hetrl_job_startup_seconds"),
        unit=Unit.SECONDS,
    ),
    chart(
        "Jobs that ended",
        "Since each replica started, by how.",
        {"{{outcome}}": series("hetrl_jobs_ended_total").sum("outcome")},
    ),
    chart(
        "GPUs in the cluster, by kind",
        "Of nodes of any state, cordoned ones included.",
        {"{{pool}}": series("hetrl_fleet_gpus").max("pool")},
        form=Form.STACK,
    ),
    chart(
        "Open files",
        "File descriptors of each replica: watches, requests, processes.",
        {"{{pod}}": series("process_open_fds").max("pod")},
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
