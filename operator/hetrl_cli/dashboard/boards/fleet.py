"""The board of all jobs: GPUs by job, prices, and jobs with problems."""

from hetrl_cli.dashboard.boards.expression import mean, rate, series
from hetrl_cli.dashboard.boards.job import STALENESS, rollouts_idle
from hetrl_cli.dashboard.boards.panel import Board, Form, Unit, Variable, chart, figure, row

_BY_JOB = ("namespace", "hetrljob")
_JOB = "{{namespace}}/{{hetrljob}}"

_AT_A_GLANCE = row(
    "At a glance",
    figure(
        "Running jobs", "Jobs in phase Running.", series("hetrl_job_phase", phase="Running").sum()
    ),
    figure("Jobs", "Jobs in any phase, ended ones included.", series("hetrl_job_phase").sum()),
    figure("GPUs held", "GPUs that are held for jobs.", series("hetrl_job_gpus").sum()),
    figure(
        "Price",
        "US dollars per hour of all GPUs that jobs hold.",
        series("hetrl_cost_dollars_per_hour").sum(),
        Unit.DOLLARS,
    ),
    figure(
        "Trajectories per second", "Trained on, over all jobs.", rate(f"{STALENESS}_count").sum()
    ),
    figure(
        "Rollouts idle",
        "Share of all rollouts' time with nothing to generate.",
        rollouts_idle(),
        Unit.SHARE,
    ),
)

_GPUS = row(
    "GPUs",
    chart(
        "GPUs held, by pool",
        "By GPU kind.",
        {"{{pool}}": series("hetrl_job_gpus").sum("pool")},
        form=Form.STACK,
    ),
    chart(
        "GPUs held, by job",
        "Each job's share of what is held.",
        {_JOB: series("hetrl_job_gpus").sum(*_BY_JOB)},
        form=Form.STACK,
    ),
    chart(
        "GPUs held, by what they do",
        "Trainers and rollouts, by GPU kind.",
        {"{{role}} on {{pool}}": series("hetrl_job_gpus").sum("role", "pool")},
        form=Form.BARS,
    ),
)

_JOBS = row(
    "Jobs",
    chart(
        "Jobs by phase",
        "How many are waiting, running and ended.",
        {"{{phase}}": series("hetrl_job_phase").sum("phase")},
        form=Form.STACK,
    ),
    chart(
        "Price by job",
        "US dollars per hour of the GPUs that each job holds.",
        {_JOB: series("hetrl_cost_dollars_per_hour").sum(*_BY_JOB)},
        form=Form.STACK,
        unit=Unit.DOLLARS,
    ),
    chart(
        "What holds",
        "How many jobs each condition holds for; Degraded is the one to look into.",
        {"{{type}}": series("hetrl_job_condition").sum("type")},
        form=Form.BARS,
    ),
)

_HOW_WELL = row(
    "How well they run",
    chart(
        "Trajectories per second, by job",
        "Trained on.",
        {_JOB: rate(f"{STALENESS}_count").sum(*_BY_JOB)},
    ),
    chart(
        "Measured against predicted, by job",
        "Time of a step over what the plan expects: far above 1, the plan is wrong.",
        {
            _JOB: mean("hetrl_trainer_step_seconds", *_BY_JOB)
            / series("hetrl_plan_predicted_step_seconds").max(*_BY_JOB)
        },
    ),
    chart(
        "Gap, by job",
        "Distance of each plan from the best bound known.",
        {_JOB: series("hetrl_plan_gap_ratio").max(*_BY_JOB)},
        form=Form.BARS,
        unit=Unit.SHARE,
    ),
    chart(
        "Trainer idle, by job",
        "Share of a step that the trainer waits for a batch.",
        {
            _JOB: rate("hetrl_trainer_wait_seconds_sum").sum(*_BY_JOB)
            / rate("hetrl_trainer_step_seconds_sum").sum(*_BY_JOB)
        },
        unit=Unit.SHARE,
        top=1,
    ),
    chart(
        "Rollouts idle, by GPU kind",
        "Share of time with nothing to generate.",
        {"{{pool}}": rollouts_idle("pool")},
        unit=Unit.SHARE,
        top=1,
    ),
    chart(
        "Restarts, by job",
        "Of trainers and coordinators after failures, since each job was made.",
        {_JOB: series("hetrl_job_restarts").max(*_BY_JOB)},
        form=Form.BARS,
    ),
)

FLEET_BOARD = Board(
    name="fleet",
    title="HetRL / Fleet",
    says="All jobs: GPUs by pool and by job, prices, and how well each runs.",
    variables=(
        Variable(name="namespace", label="Namespace", metric="hetrl_job_phase", is_multiple=True),
        Variable(
            name="hetrljob",
            label="Job",
            metric="hetrl_job_phase",
            is_multiple=True,
            within=("namespace",),
        ),
    ),
    rows=(_AT_A_GLANCE, _GPUS, _JOBS, _HOW_WELL),
)
