"""Checks of every run, whatever its faults, on the files that it left."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.proof.kill.arrangement import GROUP_SIZE
from bench.proof.kill.keeper import left_behind
from bench.proof.kill.lineage import violations
from bench.proof.kill.stage import Stage
from hetrl_core.plan.pod_sets import COORDINATOR

_EVALUATION = (
    "--reward",
    "exact",
    "--max-prompt-tokens",
    "16",
    "--max-response-tokens",
    "8",
    "--batch-size",
    "256",
)


def judge(stage: Stage, *, hung: str) -> list[str]:
    """Return everything that must not be."""
    if not hung:
        stage.story.finish(steps=stage.work.steps, group_size=GROUP_SIZE)
    found = [*stage.violations, *stage.story.violations]
    if hung:
        found.append(f"hung: {hung}")
    for log in stage.folder.logs.glob("trainer-*.log"):
        found += violations(log.read_text(errors="replace").splitlines())
    found += [f"process group {each} was left behind" for each in left_behind(stage.groups)]
    return found + (_of_step_records(stage) if stage.story.journal_is_whole else [])


def _of_step_records(stage: Stage) -> list[str]:
    """Return what is wrong with the records that people read: one for each version, in order."""
    path = stage.folder.state(f"{COORDINATOR}-0") / "steps.jsonl"
    try:
        records = [json.loads(line) for line in path.read_text().splitlines()]
    except (OSError, ValueError) as error:
        return [f"{path.name} cannot be read: {error}"]
    found = [
        f"the record of version {before['version']} is followed by that of {after['version']}"
        for before, after in pairwise(records)
        if after["version"] > before["version"] + 1
    ]
    said = {record["version"]: record for record in records}
    for version in stage.story.versions:
        record = said.get(version.number)
        if record is None:
            found.append(f"version {version.number} has no step record")
        elif (record["epoch"], record["consumed"]) != (version.epoch, len(version.consumed)):
            found.append(f"the record of version {version.number} is of a history that was lost")
    return found


def accuracy(model: Path, claim: Path) -> float:
    """Return the share of held-out problems that a model solves greedily."""
    hetrl = Path(sys.executable).parent / "hetrl"
    said = subprocess.run(
        [hetrl, "evaluate", "--model", model, "--data", claim / "held-out.jsonl", *_EVALUATION],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(json.loads(said.stdout)["accuracy"])


def record(stage: Stage, *, hung: str, wall_seconds: float) -> dict[str, Any]:
    """Return what is kept of a run."""
    story = stage.story
    return {
        "violations": judge(stage, hung=hung),
        "wall_seconds": round(wall_seconds, 1),
        "ending": story.ending,
        "steps": story.version,
        "commits": story.num_commits,
        "lost_steps": story.lost_steps,
        "staleness_max": max((a for v in story.versions for a in v.staleness), default=0),
        "trajectories": sum(len(v.consumed) for v in story.versions),
        "rewards": [round(v.reward_mean, 4) for v in story.versions],
        "kills": [
            {
                "process": each.process,
                "role": str(each.role),
                "signal": each.number,
                "version": each.version,
                "point": each.point,
            }
            for each in stage.kills
        ],
        "recoveries": [[str(role), round(seconds, 2)] for role, seconds in stage.recoveries],
        "counts": dict(stage.counts),
        "notes": stage.notes,
    }
