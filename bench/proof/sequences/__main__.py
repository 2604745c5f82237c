"""``python -m bench.proof.sequences``: plays the seeds that have no record, and writes the page."""

from __future__ import annotations

import argparse
import json
import threading
from collections import deque
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.proof.commit import commit, machine
from e2e.sequences.lane import Lane, lanes
from e2e.sequences.steps import LEAST_STEPS, sequence
from e2e.sequences.verdict import judge

RUNS = Path("runs/proof-sequences")
RESULTS = Path("docs/results/sequences.md")
LEAST_SEQUENCES = 300


def main() -> int:
    """Play what is missing; tell whether nothing was broken anywhere."""
    parser = argparse.ArgumentParser(prog="python -m bench.proof.sequences", description=__doc__)
    parser.add_argument("--lanes", type=int, default=6, help="sequences at once")
    parser.add_argument("--seeds", type=int, default=LEAST_SEQUENCES, help="how many, from 0")
    parser.add_argument("--seed", type=int, help="this one alone, again")
    options = parser.parse_args()
    RUNS.mkdir(parents=True, exist_ok=True)
    seeds = [options.seed] if options.seed is not None else range(options.seeds)
    missing = deque(each for each in seeds if options.seed is not None or not _path(each).exists())
    if missing:
        with lanes(min(options.lanes, len(missing)), RUNS / "cluster") as found:
            players = [threading.Thread(target=_play, args=(lane, missing)) for lane in found]
            for each in players:
                each.start()
            for each in players:
                each.join()
    RESULTS.write_text(_page(_records()))
    return int(any(each["violations"] for each in _records()))


def _play(lane: Lane, missing: deque[int]) -> None:
    while missing:
        number = missing.popleft()
        steps = sequence(number)
        verdict = judge(lane, number, steps)
        record = {
            **asdict(verdict),
            "steps": [repr(each) for each in steps],
            "commit": commit(),
            "machine": machine(),
        }
        _path(number).write_text(json.dumps(record, indent=1))
        print(number, *(verdict.violations or ["holds"]), sep="\n  ", flush=True)


def _page(found: list[dict[str, Any]]) -> str:
    steps = sum(each["num_steps"] for each in found)
    broken = [each for each in found if each["violations"]]
    commits = ", ".join(sorted({each["commit"] for each in found}))
    played_on = found[0]["machine"] if found else "not played yet"
    lines = [
        "# Does a job recover from any sequence of faults?",
        "",
        f"`make proof-sequences` ({played_on}): sequences of at least {LEAST_STEPS} steps on a "
        "real API server, its controllers and scheduler,",
        "nodes by kwok. A step changes a field of the job, suspends or resumes it, deletes one of "
        "its objects, kills the operator,",
        "cordons a node, or takes it out of the job's pool. Then nodes are as they were, the job "
        "is resumed, and must come to run;",
        "all objects must be as those of a job that is created afresh with the spec that it has "
        "then. Where nothing can run that spec,",
        "both jobs must say so. Where a plan was made for a job that ran,",
        "trainers stay where they are by design, and the plan's own objects are not compared.",
        "",
        f"**{len(found)} sequences, {steps} steps, {len(broken)} violations** "
        f"({sum(each['is_exact'] for each in found)} compared whole; commit {commits}).",
        *(f"- seed {each['seed']}: {each['violations'][0]}" for each in broken[:20]),
        "",
    ]
    return "\n".join(lines)


def _records() -> list[dict[str, Any]]:
    found = [json.loads(path.read_text()) for path in RUNS.glob("*.json")]
    return sorted(found, key=lambda each: int(each["seed"]))


def _path(number: int) -> Path:
    return RUNS / f"{number:04}.json"


if __name__ == "__main__":
    raise SystemExit(main())
