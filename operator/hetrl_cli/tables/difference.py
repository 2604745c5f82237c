"""The difference between two plans: replicas added and removed, and the change of figures.

Groups are compared by tasks, GPUs, region and split. Machines are left out: another machine of
the same kind makes no difference to a user.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from hetrl_cli.tables.plan import gpus_and_regions, split, task_words
from hetrl_cli.tables.table import titled
from hetrl_core.plan.plan import Plan

_CHANGED = {True: "green", False: "red"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Replicas of one kind, before and after."""

    tasks: str
    gpus: str
    region: str
    split: str
    before: int
    after: int


def changes(before: Plan, after: Plan) -> tuple[Change, ...]:
    """Return every kind of replica of both plans, those that change first."""
    counted = [_replicas(plan) for plan in (before, after)]
    found = [
        Change(
            tasks=tasks,
            gpus=gpus,
            region=region,
            split=cut,
            before=counted[0][key],
            after=counted[1][key],
        )
        for key in dict.fromkeys([*counted[0], *counted[1]])
        for tasks, gpus, region, cut in [key]
    ]
    return tuple(sorted(found, key=lambda each: each.before == each.after))


def show_difference(
    console: Console, before: Plan, after: Plan, *, name: str, notes: Sequence[str]
) -> None:
    """Print what would change, were the second plan to replace the first."""
    found = changes(before, after)
    if all(each.before == each.after for each in found):
        console.print("nothing would change")
    console.print(Group(_table(found, name), Text(), _figures(before, after)))
    for note in notes:
        console.print(Text(f"note: {note}", style="yellow"))


def _replicas(plan: Plan) -> Counter[tuple[str, str, str, str]]:
    counted: Counter[tuple[str, str, str, str]] = Counter()
    for group in plan.groups:
        counted[(task_words(group), *gpus_and_regions(group), split(group))] += len(group.replicas)
    return counted


def _table(found: Sequence[Change], name: str) -> Table:
    title = f"Replicas of {name}, and of this plan"
    table = titled(title, "task", "GPU", "region", "split", figures=("now", "then"))
    for each in found:
        style = "" if each.before == each.after else _CHANGED[each.after > each.before]
        table.add_row(
            each.tasks,
            each.gpus,
            each.region,
            each.split,
            str(each.before),
            str(each.after),
            style=style,
        )
    return table


def _figures(before: Plan, after: Plan) -> Table:
    table = titled("What that is worth", "", figures=("now", "then", "change"))
    here, there = before.prediction, after.prediction
    for title, now, then in (
        ("step, s", here.step_seconds, there.step_seconds),
        ("samples/s", here.samples_per_second, there.samples_per_second),
        ("$/h", here.dollars_per_hour, there.dollars_per_hour),
        ("staleness", here.mean_staleness, there.mean_staleness),
        ("GPUs", before.num_gpus, after.num_gpus),
    ):
        change = f"{then / now - 1:+.1%}" if now else ""
        table.add_row(title, f"{now:.2f}", f"{then:.2f}", change)
    return table
