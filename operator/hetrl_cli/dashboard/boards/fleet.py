"""The board of all jobs: GPUs by job, prices, and jobs with problems."""

from hetrl_cli.dashboard.boards.expression import Expression, mean, rate, series
from hetrl_cli.dashboard.boards.job import STALENESS, rollouts_idle
from hetrl_cli.dashboard.boards.panel import Board, Curve, Form, Panel, Row, Unit, Variable

_BY_JOB = ("namespace", "hetrljob")
_JOB = "{{namespace}}/{{hetrljob}}"


def _figure(title: str, says: str, expression: Expression, unit: Unit = Unit.COUNT) -> Panel:
    return Panel(
        title=title,
        says=says,
        form=Form.FIGURE,
        unit=unit,
        width=4,
        curves=(Curve(expression=expression),),
    )


_AT_A_GLANCE = Row(
    title="At a glance",
    panels=(
        _figure(
            "Running jobs",
            "Jobs in phase Running.",
            series("hetrl_job_phase", phase="Running").sum(),
        ),
        _figure("Jobs", "Jobs in any phase, ended ones included.", series("hetrl_job_phase").sum()),
        _figure("GPUs held", "GPUs that are held for jobs.", series("hetrl_job_gpus").sum()),
        _figure(
            "Price",
            "US dollars per hour of all GPUs that jobs hold.",
            series("hetrl_cost_dollars_per_hour").sum(),
            Unit.DOLLARS,
        ),
        _figure(
            "Trajectories per second",
            "Trained on, over all jobs.",
            rate(f"{STALENESS}_count").sum(),
        ),
        _figure(
            "Rollouts idle",
            "Share of all rollouts' time with nothing to generate.",
            rollouts_idle(),
            Unit.SHARE,
        ),
    ),
)

_GPUS = Row(
    title="GPUs",
    panels=(
        Panel(
            title="GPUs held, by pool",
            says="By GPU kind.",
            form=Form.STACK,
            curves=(Curve(expression=series("hetrl_job_gpus").sum("pool"), legend="{{pool}}"),),
        ),
        Panel(
            title="GPUs held, by job",
            says="Each job's share of what is held.",
            form=Form.STACK,
            curves=(Curve(expression=series("hetrl_job_gpus").sum(*_BY_JOB), legend=_JOB),),
        ),
        Panel(
            title="GPUs held, by what they do",
            says="Trainers and rollouts, by GPU kind.",
            form=Form.BARS,
            curves=(
                Curve(
                    expression=series("hetrl_job_gpus").sum("role", "pool"),
                    legend="{{role}} on {{pool}}",
                ),
            ),
        ),
    ),
)

_JOBS = Row(
    title="Jobs",
    panels=(
        Panel(
            title="Jobs by phase",
            says="How many are waiting, running and ended.",
            form=Form.STACK,
            curves=(Curve(expression=series("hetrl_job_phase").sum("phase"), legend="{{phase}}"),),
        ),
        Panel(
            title="Price by job",
            says="US dollars per hour of the GPUs that each job holds.",
            unit=Unit.DOLLARS,
            form=Form.STACK,
            curves=(
                Curve(expression=series("hetrl_cost_dollars_per_hour").sum(*_BY_JOB), legend=_JOB),
            ),
        ),
        Panel(
            title="What holds",
            says="How many jobs each condition holds for; Degraded is the one to look into.",
            form=Form.BARS,
            curves=(
                Curve(expression=series("hetrl_job_condition").sum("type"), legend="{{type}}"),
            ),
        ),
    ),
)

_HOW_WELL = Row(
    title="How well they run",
    panels=(
        Panel(
            title="Trajectories per second, by job",
            says="Trained on.",
            curves=(Curve(expression=rate(f"{STALENESS}_count").sum(*_BY_JOB), legend=_JOB),),
        ),
        Panel(
            title="Measured against predicted, by job",
            says="Time of a step over what the plan expects: far above 1, the plan is wrong.",
            curves=(
                Curve(
                    expression=mean("hetrl_trainer_step_seconds", *_BY_JOB)
                    / series("hetrl_plan_predicted_step_seconds").max(*_BY_JOB),
                    legend=_JOB,
                ),
            ),
        ),
        Panel(
            title="Gap, by job",
            says="Distance of each plan from the best bound known.",
            unit=Unit.SHARE,
            form=Form.BARS,
            curves=(Curve(expression=series("hetrl_plan_gap_ratio").max(*_BY_JOB), legend=_JOB),),
        ),
        Panel(
            title="Trainer idle, by job",
            says="Share of a step that the trainer waits for a batch.",
            unit=Unit.SHARE,
            top=1,
            curves=(
                Curve(
                    expression=rate("hetrl_trainer_wait_seconds_sum").sum(*_BY_JOB)
                    / rate("hetrl_trainer_step_seconds_sum").sum(*_BY_JOB),
                    legend=_JOB,
                ),
            ),
        ),
        Panel(
            title="Rollouts idle, by GPU kind",
            says="Share of time with nothing to generate.",
            unit=Unit.SHARE,
            top=1,
            curves=(Curve(expression=rollouts_idle("pool"), legend="{{pool}}"),),
        ),
        Panel(
            title="Restarts, by job",
            says="Of trainers and coordinators after failures, since each job was made.",
            form=Form.BARS,
            curves=(Curve(expression=series("hetrl_job_restarts").max(*_BY_JOB), legend=_JOB),),
        ),
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
