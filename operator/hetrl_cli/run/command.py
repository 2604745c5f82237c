"""The command ``hetrl run``: options, exit codes and the final report."""

import asyncio
import json
import math
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from hetrl_api.validation.errors import InvalidObjectError
from hetrl_cli.console import PlainConsole
from hetrl_cli.files import claims_option
from hetrl_cli.picture.option import write_picture
from hetrl_cli.run.display.panel import Moment, clock
from hetrl_cli.run.display.progress import Progresses
from hetrl_cli.run.display.screen import LiveScreen, PlainScreen
from hetrl_cli.run.execute import Ended, Limits, execute
from hetrl_cli.run.metrics.scrape import recorded
from hetrl_cli.run.processes.process import Command
from hetrl_cli.run.processes.restart import Failed, Succeeded
from hetrl_cli.run.processes.supervisor import End, Stopped
from hetrl_cli.run.setup.folder import RunFolder, take
from hetrl_cli.run.setup.prepare import Experiment, Prepared, make_plan, plan_from_file, prepare
from hetrl_cli.run.start import choose_folder, fill
from hetrl_cli.say import say
from hetrl_core.job.identity import Aspect
from hetrl_core.job.spec import Engine
from hetrl_core.plan.plan import Plan
from hetrl_core.plan.pod_sets import COORDINATOR, pod_sets
from hetrl_core.task import TRAINING_TASKS, Task

_SIGNAL_EXIT_CODE = 128
"""What shells add to the number of the signal that ended a program."""

_REPORT_SECONDS = 120.0


@click.command("run")
@click.argument("job", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--topology",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Fleet to plan for; unset: this machine stands for two A100s and an L4.",
)
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Run this HetRLPlan, as hetrl plan --runnable -o yaml prints it. Unset: plan the job.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the run; unset: the next free runs/JOB-N.",
)
@click.option("--resume", "resumed", is_flag=True, help="Continue the run of --out, or the newest.")
@click.option(
    "--allow-change",
    "allowed_changes",
    type=click.Choice(Aspect, case_sensitive=False),
    multiple=True,
    help="Continue although this differs from what checkpoints are of; may be repeated.",
)
@click.option("--display/--no-display", default=None, help="Live display; unset: on a terminal.")
@claims_option
@click.option(
    "--engine",
    type=click.Choice(Engine, case_sensitive=False),
    help="Instead of the job's runtime.engine.",
)
@click.option("--steps", type=click.IntRange(min=1), help="Instead of the job's training.steps.")
@click.option("--seed", type=click.IntRange(min=0), help="Instead of the job's training.seed.")
@click.option(
    "--learning-rate",
    type=click.FloatRange(min=0),
    help="Instead of the job's training.learningRate; 0 is a control that must learn nothing.",
)
@click.option(
    "--shuffle-rewards",
    is_flag=True,
    help="Shuffle each batch's rewards: the other control.",
)
@click.option(
    "--traces",
    metavar="ENDPOINT",
    help="Trace every trajectory, instead of the job's runtime.telemetry.traces: send spans to a "
    "collector such as http://localhost:4318.",
)
@click.option(
    "--tls/--no-tls", default=True, help="Mutual TLS between the processes, as between pods."
)
@click.option(
    "--stall-seconds",
    type=click.FloatRange(min=1),
    default=900.0,
    show_default=True,
    help="Seconds without progress after which the run fails.",
)
def command(
    *,
    job: Path,
    topology: Path | None,
    plan_file: Path | None,
    out: Path | None,
    resumed: bool,
    allowed_changes: tuple[Aspect, ...],
    display: bool | None,
    claims: tuple[tuple[str, Path], ...],
    engine: Engine | None,
    steps: int | None,
    seed: int | None,
    learning_rate: float | None,
    shuffle_rewards: bool,
    traces: str | None,
    tls: bool,
    stall_seconds: float,
) -> None:
    """Run a JOB on this machine: the same planner and the same processes as in a cluster.

    All that the run writes goes into one folder: contracts, logs, checkpoints, state and, at
    the end, report/index.html. With engine vllm, HETRL_ROLLOUT_PYTHON may name the Python of
    an environment that has vLLM.

    Ends 0 when the run succeeded, 1 when it failed or could not start, 130 after Ctrl-C.
    """
    experiment = Experiment(
        engine=engine,
        steps=steps,
        seed=seed,
        learning_rate=learning_rate,
        shuffle_rewards=shuffle_rewards,
        traces=traces,
        allowed_changes=allowed_changes,
    )
    with _refusals():
        prepared = prepare(job, topology=topology, claims=dict(claims), experiment=experiment)
        folder = choose_folder(prepared.spec.name, out=out, resumed=resumed)
        if resumed:
            # Before planning: where the folder is in use, the user hears it at once.
            _own(folder, resumed=True)
            if done := _finished_in(folder, prepared):
                say(done)
                return
        plan = plan_from_file(prepared, plan_file) if plan_file else make_plan(prepared)
        if not resumed:
            _own(folder, resumed=False)
        commands = fill(folder, prepared, plan, resumed=resumed, encrypted=tls)
    limits = _limits(prepared, stall_seconds)
    ended = asyncio.run(_execute(commands, folder, prepared, plan, limits, display=display))
    _draw(folder, prepared, plan)
    _finish(ended, folder)


@contextmanager
def _refusals() -> Iterator[None]:
    """Show why a run cannot start as the command's error."""
    try:
        yield
    except InvalidObjectError as error:
        raise click.ClickException("; ".join(error.messages)) from error
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _own(folder: RunFolder, *, resumed: bool) -> None:
    """Own a folder until the command ends."""
    click.get_current_context().call_on_close(take(folder, resumed=resumed).close)


def _finished_in(folder: RunFolder, prepared: Prepared) -> str:
    """Return that a run is finished and what can be done; empty where there is more to train."""
    progress = Progresses(folder.state(f"{COORDINATOR}-0")).newest()
    steps = prepared.spec.training.steps
    if progress is None or progress.outcome != "Succeeded" or progress.step < steps:
        return ""
    return (
        f"{folder.path} is finished: {progress.step} steps are done, and the job asks for {steps}; "
        f"to train on, resume it with more, as with --steps {2 * progress.step}"
    )


async def _execute(
    commands: tuple[Command, ...],
    folder: RunFolder,
    prepared: Prepared,
    plan: Plan,
    limits: Limits,
    *,
    display: bool | None,
) -> Ended:
    """Run the processes, and record metrics meanwhile."""
    console = PlainConsole()
    live = console.is_terminal if display is None else display
    async with recorded(folder, folder.identity(), plan) as series:
        ended = await execute(
            commands,
            progresses=Progresses(folder.state(f"{COORDINATOR}-0")),
            screen=LiveScreen(console) if live else PlainScreen(console),
            start=_start(prepared, plan),
            limits=limits,
        )
        series.phase = _phase(ended.end)
    if series.trouble:
        say(f"{folder.metrics_file} is incomplete: {series.trouble}", err=True)
    return ended


def _phase(end: End) -> str:
    match end:
        case Failed():
            return "Failed"
        case Stopped():
            return "Suspended"
        case Succeeded():
            return "Succeeded"


def _start(prepared: Prepared, plan: Plan) -> Moment:
    return Moment(
        job=f"{prepared.spec.namespace}/{prepared.spec.name}",
        plan=_in_one_line(plan),
        gpu_kinds={pods.name: pods.gpu_kind for pods in pod_sets(plan)},
        predicted_step_seconds=plan.prediction.step_seconds,
        max_staleness=prepared.spec.algorithm.max_staleness,
    )


def _in_one_line(plan: Plan) -> str:
    def gpus(tasks: frozenset[Task]) -> str:
        groups = [each for each in plan.groups if tasks.intersection(each.tasks)]
        return " + ".join(f"{each.num_gpus} x {each.gpu_kind}" for each in groups)

    generates = frozenset({Task.ACTOR_GENERATION})
    return f"training on {gpus(TRAINING_TASKS)} · generation on {gpus(generates)}"


def _limits(prepared: Prepared, stall_seconds: float) -> Limits:
    spec = prepared.document.spec
    return Limits(
        max_restarts=spec.failure_policy.max_restarts,
        window_seconds=spec.failure_policy.window_seconds or math.inf,
        stall_seconds=stall_seconds,
        active_seconds=spec.active_deadline_seconds,
    )


def _draw(folder: RunFolder, prepared: Prepared, plan: Plan) -> None:
    try:
        write_picture(folder.picture_file, plan, prepared.fleet, prepared.spec)
    except click.ClickException as error:
        # The report goes without; the run's own end counts.
        say(f"no picture of the plan: {error.message}", err=True)


def _finish(ended: Ended, folder: RunFolder) -> None:
    """Record the end of the run, write its report, and print both."""
    folder.end_file.write_text(
        json.dumps({"wall_seconds": ended.wall_seconds, "events": ended.events}, indent=1)
    )
    if ended.is_killed:
        say(f"ended at once, without a checkpoint; continue with --resume --out {folder.path}")
        by = ended.end.signal if isinstance(ended.end, Stopped) else signal.SIGINT
        sys.exit(_SIGNAL_EXIT_CODE + by)
    _report(folder)
    match ended.end:
        case Failed(reason):
            raise click.ClickException(f"{reason} (logs: {folder.logs})")
        case Stopped(number):
            say(f"stopped; continue with --resume --out {folder.path}", err=True)
            sys.exit(_SIGNAL_EXIT_CODE + number)
        case _:
            say(f"done in {clock(ended.wall_seconds)}")


def _report(folder: RunFolder) -> None:
    entry_point = Path(sys.executable).parent / "hetrl"
    try:
        written = subprocess.run(  # noqa: S603  # our own entry point
            [entry_point, "report", folder.path],
            check=False,
            capture_output=True,
            text=True,
            timeout=_REPORT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        say(f"no report: it was not done within {_REPORT_SECONDS:g} s", err=True)
        return
    if written.returncode:
        # A run without a single step has nothing to report; the run's own end counts.
        say(f"no report: {written.stderr.strip()}", err=True)
    else:
        say(f"report: {written.stdout.strip()}")
