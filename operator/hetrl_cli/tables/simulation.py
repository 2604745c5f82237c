"""A simulated run as tables: pace, idle shares, staleness, losses and price."""

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from hetrl_cli.tables.table import pairs, titled
from hetrl_planner.simulator.measurement.result import SimulationResult, StalenessResult

_BAR_WIDTH = 40


def show_simulation(
    console: Console,
    result: SimulationResult,
    *,
    predicted_step_seconds: float | None,
    max_staleness: int | None,
) -> None:
    """Print a result as tables."""
    console.print(
        Group(
            _pace(result, predicted_step_seconds),
            Text(),
            _time(result),
            Text(),
            _staleness(result.staleness, max_staleness),
            Text(),
            _work(result),
            *_ended(result),
        )
    )


def _pace(result: SimulationResult, predicted: float | None) -> Table:
    step = result.step_seconds
    rows = [
        ("steps", f"{result.steps}, of which {result.measured_steps} after the warm-up measured"),
        ("step", f"{step.mean:.2f} s on average, p95 {step.p95:.2f} s"),
        ("samples/s", f"{result.samples_per_second:.2f}"),
        ("tokens/s", f"{result.tokens_per_second:,.0f}"),
    ]
    if predicted and step.mean:
        rows.append(("predicted step", f"{predicted:.2f} s: {step.mean / predicted - 1:+.1%}"))
    dollars = result.dollars
    if dollars.per_hour:
        rows.append(
            (
                "price",
                f"{dollars.per_hour:.2f} $/h, {dollars.per_thousand_samples:.2f} $ per thousand "
                f"samples; egress {dollars.egress:.2f} $",
            )
        )
    rows.append(("events", f"{result.events:,} in {result.simulated_seconds:,.0f} simulated s"))
    return pairs("Pace", rows)


def _time(result: SimulationResult) -> Table:
    figures = ("replicas", "at work", "idle", "weights", "yielded", "lost", "at once")
    table = titled("How the time was spent", "who", figures=figures)
    idle, lost = result.trainer_idle_share, result.trainer_lost_share
    table.add_row("trainer", "1", f"{1 - idle - lost:.1%}", f"{idle:.1%}", "", "", f"{lost:.1%}")
    for stage in result.stages:
        busy = 1 - stage.idle_share
        table.add_row(stage.name, str(stage.servers), f"{busy:.1%}", f"{stage.idle_share:.1%}")
    for use in result.rollouts:
        table.add_row(
            use.name,
            str(use.replicas),
            f"{use.generating_share:.1%}",
            f"{use.idle_share:.1%}",
            f"{use.weights_share:.1%}",
            f"{use.yielded_share:.1%}",
            f"{use.lost_share:.1%}",
            f"{use.mean_running:.1f}",
        )
    return table


def _staleness(found: StalenessResult, bound: int | None) -> Table:
    table = pairs("Staleness in versions", ())
    limit = "no bound" if bound is None else f"bound {bound}"
    table.add_row("mean", f"{found.mean:.2f}, p95 {found.p95}, max {found.max}; {limit}")
    most = max(found.histogram, default=0)
    total = sum(found.histogram)
    for age, count in enumerate(found.histogram):
        bar = "█" * round(_BAR_WIDTH * count / most) if most else ""
        table.add_row(str(age), f"{count / total:6.1%}  {bar}" if total else "")
    return table


def _work(result: SimulationResult) -> Table:
    work = result.work
    table = pairs("What became of every lease", ())
    table.add_row("granted", f"{work.granted:,}")
    table.add_row("consumed", f"{work.consumed:,}")
    table.add_row("still there", f"{work.buffered:,} buffered, {work.running:,} running")
    table.add_row(
        "discarded",
        f"{work.discarded:,}: {work.rejected:,} too old, {work.withdrawn:,} withdrawn, "
        f"{work.expired:,} expired, {work.filtered:,} filtered, {work.fenced:,} fenced",
    )
    table.add_row(
        "tokens",
        f"{result.generated_tokens:,.0f} generated, {result.discarded_tokens:,.0f} discarded",
    )
    lost = result.failures
    if lost.replicas or lost.trainers:
        table.add_row(
            "failures",
            f"{lost.replicas} of replicas, {lost.trainers} of the trainer, "
            f"{lost.steps} steps trained again",
        )
    return table


def _ended(result: SimulationResult) -> list[Text]:
    if not result.reason:
        return []
    return [Text(), Text(f"note: {result.reason}", style="yellow")]
