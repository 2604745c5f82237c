"""The page of the proof, drawn from the records of its cases."""

import platform
from collections.abc import Mapping
from typing import Any

from bench.proof.faults.cases import Case, cases
from e2e.faults.fault import KILLS, ON_REQUESTS, ON_WATCHES, Fault

Records = Mapping[str, Mapping[str, Any]]


def page(found: Records) -> str:
    """Write down what was found so far."""
    return "\n".join(
        [
            "# What if the operator dies, or the API server fails it?",
            "",
            *_opening(found),
            "",
            *_sweep(found),
            "",
            *_everywhere(found),
            "",
            *_replicas(found),
            "",
        ]
    )


def _opening(found: Records) -> list[str]:
    lives = [each for name, each in found.items() if "num_writes" in each or "violations" in each]
    broken = sum(len(each["violations"]) for each in lives)
    undisturbed = found.get("undisturbed-0", {})
    kinds = ", ".join(f"{n} {kind}" for kind, n in undisturbed.get("writes", {}).items())
    return [
        f"`make proof-faults`, Python {platform.python_version()}: the operator's process, and "
        "between it and a real API server (its controllers and",
        "scheduler beside it, nodes by kwok) a proxy that fails on request. One job's life is "
        "played through the API: created, run,",
        "scaled, suspended, resumed, moved off a node that is about to go, finished, deleted.",
        "After each stage all objects must be as in the life without a fault, no object made "
        "more often than there, and nothing left in the end.",
        "",
        f"**{len(lives)} records, {broken} violations.** The undisturbed life has "
        f"{undisturbed.get('num_writes', '?')} writes ({kinds}) and takes "
        f"{undisturbed.get('seconds', '?')} s.",
        *_violations(found),
    ]


def _violations(found: Records) -> list[str]:
    return [
        f"- **{name}**: {each}" for name, one in found.items() for each in one["violations"][:3]
    ]


def _sweep(found: Records) -> list[str]:
    writes = int(found.get("undisturbed-0", {}).get("num_writes", 0))
    rows = []
    for fault in KILLS:
        ours = [each for each in cases(writes) if each.fault is fault]
        done = [found[each.name] for each in ours if each.name in found]
        if not done:
            continue
        broken = sum(len(each["violations"]) for each in done)
        deaths = sum(each.get("deaths", 0) for each in done)
        commits = ", ".join(sorted({each["commit"] for each in done}))
        rows.append(f"| {fault} | {len(done)} of {len(ours)} | {deaths} | {broken} | {commits} |")
    return [
        "The operator is killed once a life, at each of its writes in turn.",
        "",
        "| what befalls it | writes | deaths | violations | commit |",
        "|---|---|---|---|---|",
        *rows,
    ]


def _everywhere(found: Records) -> list[str]:
    return [
        "A fault befalls every request of a whole life (what is sent once more gets through), the "
        "operator's start included.",
        "",
        "| what befalls it | requests struck | times that it ended by itself | writes | time "
        "| violations | commit |",
        "|---|---|---|---|---|---|---|",
        *(_row(fault, found) for fault in (*ON_REQUESTS, *ON_WATCHES)),
    ]


def _row(fault: Fault, found: Records) -> str:
    record = found.get(Case(fault=fault).name)
    if record is None:
        return f"| {fault} | not lived yet | | | | | |"
    if "num_writes" not in record:
        return f"| {fault} | | | | | {len(record['violations'])} | {record['commit']} |"
    return (
        f"| {fault} | {record['num_faults']} | {len(record['exit_codes'])} "
        f"| {record['num_writes']} | {record['seconds']:.0f} s "
        f"| {len(record['violations'])} | {record['commit']} |"
    )


def _replicas(found: Records) -> list[str]:
    lines = []
    failover, quiet = found.get("failover"), found.get("quiet")
    if failover:
        seconds = failover["seconds"]
        lines.append(
            f"Two replicas, the leader killed while it created a job, {len(seconds)} times: the "
            f"other wrote after {min(seconds):g} to {max(seconds):g} s; made twice: "
            f"{len(failover['violations'])} (commit {failover['commit']})."
        )
    if quiet:
        lines += [
            "",
            "A job that runs, 60 s, the operator killed and started again half-way: "
            f"{len(quiet['violations'])} writes (audit log, commit {quiet['commit']}).",
        ]
    return lines
