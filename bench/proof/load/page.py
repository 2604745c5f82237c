"""The page of the proof, drawn from the records of its cases."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

Records = Mapping[str, Mapping[str, Any]]


def page(found: Records) -> str:
    """Write down what was measured so far."""
    return "\n".join(
        [
            "# What does the operator bear?",
            "",
            *_opening(found),
            "",
            *_crowds(found),
            "",
            *_living(found),
            "",
            *_cycles(found),
            *_start(found),
            *_race(found),
        ]
    )


def _opening(found: Records) -> list[str]:
    machine = next((each["machine"] for each in found.values()), "not measured yet")
    return [
        f"`make proof-load` ({machine}): the operator's process on a real API server with its "
        "controllers and scheduler, nodes of eight GPUs",
        "by kwok, all on the same cores. Jobs are of one pool and at most four GPUs, their "
        "strategy is `Auto`; they differ in their learning rates.",
        "Requests and times are from the API server's audit log. A load average far above the "
        "number of cores means that others had most of the machine.",
    ]


def _crowds(found: Records) -> list[str]:
    rows = [
        _row(
            _jobs(each),
            str(each["nodes"]),
            f"{each['plans_seconds']:g} s",
            f"{each['stateful_sets_seconds']:g} s",
            f"{each['running_seconds']:g} s",
            f"{each['requests_per_job']:g}",
            f"{each['cpu_seconds']:g} s",
            f"{each['peak_mib']} MiB",
            f"{each['planners_mib']} MiB",
            _load(each),
            each["commit"],
        )
        for name, each in found.items()
        if name.startswith("crowd")
    ]
    return [
        "## Submitted at once",
        "",
        "From the first submission until all are planned, all StatefulSets exist, all jobs run; "
        "the peak is the operator's process, planners apart.",
        "",
        "| jobs | nodes | planned | StatefulSets | running | requests a job | CPU | memory "
        "| planners | load average | commit |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *rows,
        *(["", "![Seconds and requests against the number of jobs](load.png)"] if rows else []),
    ]


def _living(found: Records) -> list[str]:
    rows = []
    for name, each in found.items():
        if not name.startswith("crowd"):
            continue
        idle, latency, restart = each["idle"], each["told"], each["restart"]
        rows.append(
            _row(
                _jobs(each),
                f"{idle['core_share']:.1%}",
                f"{latency['p50_seconds']:g} s",
                f"{latency['p99_seconds']:g} s",
                f"{latency['untold']} of {latency['events'] + latency['untold']}",
                _seconds(restart.get("looked_at_all_seconds")),
                f"{restart['peak_mib']} MiB",
                str(restart["writes_to_children"]),
                _load(restart),
            )
        )
    return [
        "## While they run",
        "",
        "Idle: two minutes with nothing but heartbeats of the nodes. Status: coordinators that "
        "stop being ready and become ready again, ten a second; the time is",
        "from the pod's status to the answer to the job's status. Restart: the operator is killed "
        "and starts again, and has",
        "reconciled all jobs when its work queue is empty.",
        "",
        "| jobs | idle, of a core | status written, median | p99 | not written "
        "| all reconciled after a restart | memory then | children written then | load average |",
        "|---|---|---|---|---|---|---|---|---|",
        *rows,
    ]


def _cycles(found: Records) -> list[str]:
    each = found.get("cycles")
    if each is None:
        return []
    readings = each["readings"]
    half = [mib for done, mib, _ in readings if done >= each["cycles"] // 2]
    return [
        "## Jobs that come and go",
        "",
        f"{each['cycles']} jobs created and deleted, each with its objects, twenty at once: "
        f"{', '.join(f'{mib:.0f}' for _, mib, _ in readings[:: max(1, len(readings) // 10)])} MiB "
        f"along the way; from the middle to the end {half[-1] - half[0]:+.1f} MiB (load average "
        f"{each['load_average']}, commit {each['commit']}).",
        "",
    ]


def _start(found: Records) -> list[str]:
    lines: list[str] = []
    fifty, first = found.get("start-fifty"), found.get("start-first")
    if fifty:
        rounds = zip(fifty["operator"], fifty["client"], fifty["jobset"], strict=True)
        lines += [
            "## From submission to pods that run",
            "",
            f"{fifty['num_jobs']} jobs at once, each of two trainer and four rollout pods and a "
            f"coordinator ({fifty['pods']} pods on {fifty['nodes']} nodes), beside their "
            "StatefulSets applied by a client, and the same pods as JobSets (v0.10.1), in turn.",
            "",
            "| round | jobs | StatefulSets alone | ratio | JobSets | ratio |",
            "|---|---|---|---|---|---|",
            *(
                f"| {number} | {ours:g} s | {sets:g} s | {ours / sets:.2f} "
                f"| {jobsets:g} s | {ours / jobsets:.2f} |"
                for number, (ours, sets, jobsets) in enumerate(rounds, start=1)
            ),
            "",
            f"Load averages {_loads(fifty)}, commit {fifty['commit']}.",
            "",
        ]
    if first:
        lines += [
            f"One job on an idle operator: its first StatefulSet after {first['seconds']:g} s, "
            f"planning included (load average {_load(first)}, commit {first['commit']}).",
            "",
        ]
    return lines


def _race(found: Records) -> list[str]:
    lines: list[str] = []
    two, fifty = found.get("race-two"), found.get("race-fifty")
    if two or fifty:
        lines += ["## Jobs that want the same GPUs", ""]
    if two:
        lines += [
            f"Two jobs that each want more than half of a fleet: overlaps {len(two['overlaps'])}; "
            f"the second says “{two['said']}”, and runs {two['started_after_seconds']:g} s after "
            f"the first was deleted (commit {two['commit']}).",
            "",
        ]
    if fifty:
        lines += [
            f"{fifty['racers']} jobs of 2 to 9 GPUs on 16, each deleted as soon as it runs: "
            f"{fifty['started']} started, overlaps {len(fifty['overlaps'])}; the last after "
            f"{fifty['last_started_seconds']:g} s, the last of the large ones after "
            f"{fifty['last_large_started_seconds']:g} s (commit {fifty['commit']}).",
            "",
        ]
    return lines


def _jobs(record: Mapping[str, Any]) -> str:
    return f"{record['num_jobs']}{', no two ask alike' if record['all_differ'] else ''}"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _seconds(found: float | None) -> str:
    return "" if found is None else f"{found:g} s"


def _load(record: Mapping[str, Any]) -> str:
    load = record["load_average"]
    return _loads(record) if isinstance(load, list) else f"{load:g}"


def _loads(record: Mapping[str, Any]) -> str:
    load = record["load_average"]
    ends = [load[0], *(b for a, b in pairwise(load) if a != b)]
    return " to ".join(f"{each:g}" for each in (min(ends), max(ends)))
