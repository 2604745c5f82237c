"""The display of a running job: a live panel on a terminal, plain lines elsewhere.

``view`` renders a moment of the run with rich. Nothing here reads a file or a clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hetrl_cli.run.display.charts import bar, curve
from hetrl_cli.run.display.progress import Progress

_CURVE_HEIGHT = 5
_NUM_EVENTS = 3
_LABEL, _VALUE, _QUIET = "dim", "bold", "dim"
_REWARD, _RATE, _GOOD, _BAD = "green", "cyan", "green", "red"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A run at one moment, as it is shown."""

    job: str
    plan: str
    """What runs where, in one line."""

    gpu_kinds: Mapping[str, str]
    """Pod set to GPU kind."""

    predicted_step_seconds: float
    max_staleness: int
    elapsed_seconds: float = 0.0
    progress: Progress | None = None
    """None until the coordinator has reported."""

    rewards: Sequence[float] = ()
    """Mean reward of every step so far."""

    rates: Sequence[float] = ()
    """Samples per second of every step so far."""

    events: tuple[str, ...] = ()
    """Restarts by the supervisor, newest last."""


def view(moment: Moment) -> RenderableType:
    """Draw a moment for a terminal."""
    if moment.progress is None:
        body: RenderableType = Text("starting: waiting for the coordinator", style=_QUIET)
    else:
        body = Group(
            _steps(moment.progress),
            Text(),
            _curves(moment),
            Text(),
            *_reward_parts(moment.progress),
            _figures(moment, moment.progress),
            Text(),
            _processes(moment, moment.progress),
            Text(),
            _waiting(moment.progress),
        )
    notices = moment.progress.notices if moment.progress else ()
    events = [
        Text(f"! {each}", style="yellow", overflow="ellipsis")
        for each in (*notices, *moment.events[-_NUM_EVENTS:])
    ]
    return Panel(
        Group(Text(moment.plan, style=_QUIET), Text(), body, *events),
        title=Text.assemble(("hetrl run", "bold"), f" · {moment.job}"),
        title_align="left",
        subtitle=clock(moment.elapsed_seconds),
        subtitle_align="right",
        border_style="blue",
        padding=(1, 2),
        width=104,
    )


def line(moment: Moment) -> str:
    """Say a moment in one line, for logs and pipes."""
    progress = moment.progress
    if progress is None:
        return f"{clock(moment.elapsed_seconds)}  starting: waiting for the coordinator"
    return (
        f"{clock(moment.elapsed_seconds)}  step {progress.step}/{progress.total_steps}"
        f"  reward {progress.reward_mean:.3f}{_parts_in_brackets(progress)}"
        f"  {progress.samples_per_second:.1f} samples/s"
        f"  staleness {progress.staleness_mean:.2f} (max {progress.staleness_max:.0f}"
        f" of {moment.max_staleness})  buffer {progress.buffered}"
        f"  {progress.waiting_for}"
    )


def clock(seconds: float) -> str:
    """Write a duration as people read it: ``3:07``, ``1:02:09``."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def _steps(progress: Progress) -> RenderableType:
    row = Table.grid(padding=(0, 2))
    row.add_column(justify="left")
    row.add_column(justify="left", width=52)
    row.add_column(justify="left")
    left = clock(progress.eta_seconds) if progress.eta_seconds > 0 else "-"
    row.add_row(
        Text.assemble(
            ("step ", _LABEL), (f"{progress.step}", _VALUE), f" / {progress.total_steps}"
        ),
        ProgressBar(total=progress.total_steps, completed=progress.step, complete_style="blue"),
        Text.assemble(
            ("left ", _LABEL), left, ("   policy version ", _LABEL), f"{progress.version}"
        ),
    )
    return row


def _curves(moment: Moment) -> RenderableType:
    row = Table.grid(padding=(0, 4))
    row.add_row(
        _curve("reward", moment.rewards, least_top=1.0, style=_REWARD, width=54),
        _curve("samples/s", moment.rates, least_top=1.0, style=_RATE, width=28),
    )
    return row


def _curve(
    name: str, values: Sequence[float], *, least_top: float, style: str, width: int
) -> RenderableType:
    top = max([least_top, *values])
    newest = f"{values[-1]:.3g}" if values else "-"
    axis = [f"{top:.3g}", *[""] * (_CURVE_HEIGHT - 2), "0"]
    rows = zip(axis, curve(values, width=width, height=_CURVE_HEIGHT, top=top), strict=True)
    return Group(
        Text.assemble((f"{name} ", _LABEL), (newest, f"bold {style}")),
        *(Text.assemble((f"{mark:>4}▕", _LABEL), (row, style)) for mark, row in rows),
    )


def _parts_in_brackets(progress: Progress) -> str:
    parts = ", ".join(f"{name} {mean:.3f}" for name, mean in sorted(progress.reward_parts.items()))
    return f" ({parts})" if parts else ""


def _reward_parts(progress: Progress) -> list[RenderableType]:
    """Draw the mean of each reward, where a job has several."""
    parts = progress.reward_parts
    if not parts:
        return []
    shown = [
        Text.assemble((f"{name} ", _LABEL), (f"{mean:.3f}", f"bold {_REWARD}"))
        for name, mean in sorted(parts.items())
    ]
    return [Text("   ").join([Text("rewards", style=_LABEL), *shown])]


def _figures(moment: Moment, progress: Progress) -> RenderableType:
    within = progress.staleness_max <= moment.max_staleness
    row = Table.grid(padding=(0, 4))
    row.add_row(
        Text.assemble(
            ("staleness ", _LABEL),
            ("mean ", _LABEL),
            (f"{progress.staleness_mean:.2f}", _VALUE),
            ("  max ", _LABEL),
            (f"{progress.staleness_max:.0f}", f"bold {_GOOD if within else _BAD}"),
            (f" of {moment.max_staleness}", _LABEL),
        ),
        Text.assemble(("in buffer ", _LABEL), (f"{progress.buffered}", _VALUE)),
        Text.assemble(("generating ", _LABEL), (f"{progress.running}", _VALUE)),
        Text.assemble(
            ("predicted ", _LABEL),
            (f"{moment.predicted_step_seconds * 1000:,.3g} ms a step", _VALUE),
        ),
    )
    return row


def _processes(moment: Moment, progress: Progress) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=_LABEL, pad_edge=False)
    table.add_column("process", min_width=24)
    table.add_column("GPU", min_width=10)
    for name in ("version", "running", "tokens/s"):
        table.add_column(name, justify="right")
    table.add_column("idle", min_width=20)
    for each in progress.processes:
        table.add_row(
            each.process,
            moment.gpu_kinds.get(each.pod_set) or "-",
            str(each.version),
            str(each.running) if each.running else "-",
            f"{each.tokens_per_second:,.0f}" if each.tokens_per_second else "-",
            Text.assemble((bar(each.idle_ratio, width=12), "yellow"), f" {each.idle_ratio:4.0%}"),
        )
    return table


def _waiting(progress: Progress) -> RenderableType:
    return Text.assemble(("now  ", _LABEL), progress.waiting_for or "nothing waits")
