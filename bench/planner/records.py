"""Records of a bench, kept in files so that an interrupted run can resume.

A record is written whole or not at all, so several processes may share a folder, each with a
part of the work. Layouts are kept as lists of numbers: prices change, layouts can be priced again.
"""

import json
import os
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hetrl_core.plan.plan import Recompute, Sharding, TrainingMode
from hetrl_core.task import Task
from hetrl_planner.layout.layout import Layout, PipelineStage, TaskLayout

RUNS = Path("runs/bench-planner")
RESULTS = Path("docs/results")

Record = dict[str, Any]


def kept(path: Path, make: Callable[[], Record], *, fresh: bool = False) -> Record:
    """Return what a file holds; make and keep it where there is none."""
    if fresh or not path.exists():
        found = make() | {"commit": commit()}
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(found))
        draft.replace(path)
        print(f"{path.parent.name} {path.stem}: done", flush=True)
    record: Record = json.loads(path.read_text())
    return record


def part_of(text: str, things: list[Any]) -> list[Any]:
    """Return every n-th thing: ``2/3`` is the second of three parts."""
    number, parts = (int(each) for each in text.split("/"))
    return things[number - 1 :: parts]


def commit() -> str:
    """Return the commit, with a plus where the planner or its bench differ from it."""
    head = _git("rev-parse", "--short", "HEAD")
    return head + ("+" if _git("status", "--porcelain", "--", "core", "operator", "bench") else "")


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def machine() -> str:
    """Say what the bench ran on."""
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def from_layout(layout: Layout) -> list[Any]:
    """Return a layout as lists."""
    return [
        [
            {
                "task": task.task,
                "mode": task.mode and [task.mode.recompute, task.mode.sharding],
                "replicas": [
                    [[list(stage.gpus), stage.num_layers] for stage in replica]
                    for replica in task.replicas
                ],
            }
            for task in group
        ]
        for group in layout.groups
    ]


def to_layout(groups: list[Any]) -> Layout:
    """Return the layout that lists were made of."""
    return Layout(tuple(tuple(_task(task) for task in group) for group in groups))


def _task(fields: Record) -> TaskLayout:
    mode = fields["mode"]
    return TaskLayout(
        Task(fields["task"]),
        tuple(
            tuple(PipelineStage(tuple(gpus), layers) for gpus, layers in replica)
            for replica in fields["replicas"]
        ),
        TrainingMode(recompute=Recompute(mode[0]), sharding=Sharding(mode[1])) if mode else None,
    )
