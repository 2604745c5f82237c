"""The page of the proof, drawn from the records of its cases."""

import platform
from collections.abc import Mapping
from statistics import fmean, median
from typing import Any

from bench.proof.kill.cases import CASES, Case
from hetrl_core.task import Role

_LAST_STEPS = 10


def page(found: Mapping[Case, dict[str, Any]], *, code: str) -> str:
    """Write down what was found so far; ``code`` is today's."""
    missing = ", ".join(case.title for case in CASES if case not in found)
    return "\n".join(
        [
            "# What is lost when processes die?",
            "",
            *_opening(found),
            "",
            *_runs(found, code),
            "",
            *_deaths(found),
            "",
            *_points(found),
            *_other_faults(found),
            *(["", f"Not played yet: {missing}."] if missing else []),
            "",
        ]
    )


def _opening(found: Mapping[Case, dict[str, Any]]) -> list[str]:
    kills = [kill for each in found.values() for kill in each["kills"]]
    broken = sum(len(each["violations"]) for each in found.values())
    return [
        f"`make proof-kill` on two cores, Python {platform.python_version()}: the processes that "
        "`hetrl run` starts (coordinator, trainer,",
        "two rollout workers, mutual TLS), with a tiny model that learns sums, started again as "
        "often as they end: forked from an",
        "interpreter that has imported PyTorch, so that it is this project's code that is struck. "
        "What came of it is read from what the runs",
        "leave behind: the journal as it lay on the disk, followed from outside, the trainer's log "
        "of the digests of its weights, and the",
        "step records.",
        "",
        f"**{len(kills)} deaths, {broken} violations.** Looked for in every run: a trajectory "
        "that was trained on twice along the surviving",
        "history, or staler than the bound of 2 when it was; a gap between versions; a prompt that "
        "is passed over; a trainer that came",
        "back with other weights than, byte for byte, those that its history had made;",
        "a version without a step record; a wait beyond its limit; a process that was left behind.",
    ]


def _runs(found: Mapping[Case, dict[str, Any]], code: str) -> list[str]:
    rows = [
        f"| {case.title} | {case.what} | {each['steps']} | {len(each['kills'])} "
        f"| {sum(each['lost_steps'])} | {each['trajectories']:,} | {each['staleness_max']} "
        f"| {_reward(each)} | {_accuracy(each)} | {each['wall_seconds']:.0f} s "
        f"| {len(each['violations'])} | {each['commit']}{_age(each, code)} |"
        for case, each in found.items()
    ]
    return [
        "| run | faults | steps | deaths | steps made again | trajectories | stalest "
        f"| reward, first and last {_LAST_STEPS} steps | held-out accuracy | time | violations "
        "| commit |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
        *rows,
    ]


def _age(each: Mapping[str, Any], code: str) -> str:
    return "" if each["code"] == code else " (earlier code)"


def _reward(each: Mapping[str, Any]) -> str:
    rewards = each["rewards"]
    if len(rewards) < 2 * _LAST_STEPS:
        return ""
    return f"{fmean(rewards[:_LAST_STEPS]):.2f} → {fmean(rewards[-_LAST_STEPS:]):.2f}"


def _accuracy(each: Mapping[str, Any]) -> str:
    if "accuracy_after" not in each:
        return ""
    return f"{each['accuracy_before']:.1%} → {each['accuracy_after']:.1%}"


def _deaths(found: Mapping[Case, dict[str, Any]]) -> list[str]:
    lines = [
        "Seconds from a death until the process was of use again: the coordinator's next journal "
        "entry, the trainer's next commit, the",
        "worker's next lease. Where others were struck meanwhile, that is in it, and so is all "
        "else that two busy cores had to do.",
        "",
        "| role | deaths | of them SIGTERM | recovered in, median | 95th percentile | longest |",
        "|---|---|---|---|---|---|",
    ]
    for role in Role:
        kills = [k for each in found.values() for k in each["kills"] if k["role"] == role]
        times = sorted(s for each in found.values() for r, s in each["recoveries"] if r == role)
        if times:
            lines.append(
                f"| {role} | {len(kills)} | {sum(k['signal'] == 15 for k in kills)} "
                f"| {median(times):.1f} s | {times[int(0.95 * (len(times) - 1))]:.1f} s "
                f"| {times[-1]:.1f} s |"
            )
    lost = [steps for each in found.values() for steps in each["lost_steps"]]
    rewinds = f"{len(lost)} rewinds made {sum(lost)} steps again, at most {max(lost, default=0)}"
    return [
        *lines,
        "",
        f"Checkpoints were written every second step, beside training: {rewinds} at once. Versions "
        "are taken back only where a trainer starts again.",
    ]


def _points(found: Mapping[Case, dict[str, Any]]) -> list[str]:
    died = [
        (k["point"].partition(":")[0], k["role"])
        for each in found.values()
        for k in each["kills"]
        if k["point"]
    ]
    if not died:
        return []
    where = "`runtime/hetrl_runtime/process/faults.py`"
    lines = [f"Named points at which a process killed itself ({where}): {len(set(died))}."]
    for role in Role:
        names = ", ".join(f"`{name}`" for name, its_role in dict.fromkeys(died) if its_role == role)
        lines += [f"- {role}: {names}"] if names else []
    return [*lines, ""]


def _other_faults(found: Mapping[Case, dict[str, Any]]) -> list[str]:
    lines = []
    for case, each in found.items():
        if each["notes"] or each["counts"]:
            lines += [f"{case.title}: {case.what}", ""]
            lines += [f"- {note}" for note in each["notes"]]
            lines += [
                f"- {name}: {count}" for name, count in sorted(each["counts"].items()) if count
            ]
            lines.append("")
    for case, each in found.items():
        lines += [f"- **{case.title}**: {what}" for what in each["violations"]]
    return lines
