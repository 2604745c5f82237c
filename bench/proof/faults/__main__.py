"""``python -m bench.proof.faults``: runs the cases that have no record, and writes the page."""

import argparse
import json
import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.proof.commit import commit
from bench.proof.faults.cases import Case, cases
from bench.proof.faults.page import page
from e2e.cluster.cluster import Cluster
from e2e.cluster.machines import evenly
from e2e.faults.failover import replicas
from e2e.faults.quiet import quiet_writes
from e2e.faults.sweep import Lane, Story, label_lanes, lane, violations

RUNS = Path("runs/proof-faults")
RESULTS = Path("docs/results/faults.md")
CRDS = Path("crds")
_NUM_FAILOVERS = 10
_QUIET_SECONDS = 60.0


def main() -> int:
    """Run what is missing; tell whether nothing was broken anywhere."""
    parser = argparse.ArgumentParser(prog="python -m bench.proof.faults", description=__doc__)
    parser.add_argument("--lanes", type=int, default=2, help="operators at once, each with a fleet")
    parser.add_argument("--only", help="cases whose name begins so, `failover` or `quiet`")
    options = parser.parse_args()
    RUNS.mkdir(parents=True, exist_ok=True)
    with Cluster.start(name=f"proof-{os.getpid()}", fake_nodes=evenly(3 * options.lanes)) as fleet:
        fleet.add_kinds(CRDS)
        label_lanes(fleet, options.lanes)
        if (options.only or "failover") == "failover":
            _fail_over(fleet)
        if (options.only or "quiet") == "quiet":
            _stay_quiet(fleet)
        if options.only not in {"failover", "quiet"}:
            _run_all(fleet, options.lanes, options.only or "")
    RESULTS.write_text(page(_records()))
    return int(any(found.get("violations") for found in _records().values()))


def _run_all(fleet: Cluster, num_lanes: int, only: str) -> None:
    lives: list[threading.Thread] = []
    for number in range(num_lanes):
        arguments = (fleet, number, num_lanes, only)
        lives.append(threading.Thread(target=_run, args=arguments, name=f"lane-{number}"))
    for each in lives:
        each.start()
    for each in lives:
        each.join()


def _run(fleet: Cluster, number: int, num_lanes: int, only: str) -> None:
    """Run one lane's share of the cases."""
    with lane(fleet, number, RUNS / f"lane-{number}") as found:
        undisturbed = found.undisturbed()
        _write(f"undisturbed-{number}", _record(undisturbed, []))
        missing = [
            each
            for position, each in enumerate(cases(len(undisturbed.writes)))
            # By the write, not by the position: lives of two lanes may differ by some writes.
            if (each.write or position) % num_lanes == number
            and each.name.startswith(only)
            and not _path(each.name).exists()
        ]
        for case in missing:
            _write(case.name, _of(found, undisturbed, case))
            RESULTS.write_text(page(_records()))


def _of(found: Lane, undisturbed: Story, case: Case) -> dict[str, Any]:
    try:
        story = found.live(case.script(), with_start=case.begins_anew)
    except TimeoutError as error:
        found.clear()
        return {"violations": [f"never converged: {error}"], "commit": commit()}
    return _record(story, violations(undisturbed, story))


def _record(story: Story, broken: list[str]) -> dict[str, Any]:
    struck = [str(each.call) for each in story.record if each.fault]
    return {
        "seconds": round(story.seconds, 1),
        "writes": Counter(each.name.partition("/")[0] for each in story.writes if each.name),
        "requests": Counter(each.call.category for each in story.record),
        "num_writes": len(story.writes),
        "num_creates": sum(n for name, n in story.creates.items() if name[:5] != "Event"),
        "num_faults": len(struck),
        "struck": struck[:1],
        "deaths": story.deaths,
        "exit_codes": story.exit_codes,
        "violations": broken,
        "commit": commit(),
    }


def _fail_over(fleet: Cluster) -> None:
    if _path("failover").exists():
        return
    with replicas(fleet, RUNS / "replicas") as both:
        takeovers = [both.kill_leader(f"job-{number}") for number in range(_NUM_FAILOVERS)]
    seconds = [round(each.seconds, 1) for each in takeovers]
    twice = [name for each in takeovers for name in each.made_twice]
    _write("failover", {"seconds": seconds, "violations": twice, "commit": commit()})


def _stay_quiet(fleet: Cluster) -> None:
    if _path("quiet").exists():
        return
    started = time.monotonic()
    with lane(fleet, 0, RUNS / "quiet") as found:
        written = quiet_writes(found, seconds=_QUIET_SECONDS)
    record = {"seconds": round(time.monotonic() - started), "violations": written}
    _write("quiet", {**record, "commit": commit()})


def _records() -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(RUNS.glob("*.json"))}


def _path(name: str) -> Path:
    return RUNS / f"{name}.json"


def _write(name: str, record: dict[str, Any]) -> None:
    _path(name).write_text(json.dumps(record, indent=1))
    print(name, *(record.get("violations") or ["holds"]), sep="\n  ", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
