"""``python -m bench.proof.load``: measures the cases that have no record, and writes the page.

Records are kept beside the page: all cases take an hour and more, on more than one day.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from bench.proof.commit import commit, machine
from bench.proof.load import cycles, growth, race, running, start
from bench.proof.load.figure import draw
from bench.proof.load.page import page
from e2e.cluster.machines import KINDS, NodePool, evenly
from e2e.load.crowd import Crowd
from e2e.load.stage import Stage, stage

RUNS = Path("runs/proof-load")
RECORDS = Path("docs/results/load")
RESULTS = Path("docs/results/load.md")
FIGURE = Path("docs/results/load.png")

_NODES = evenly(500)
_FEW = evenly(200)
_TWO = (NodePool(name="fake-l4", machine=KINDS["l4"], count=2),)
_IDLE_SECONDS = 120.0
_EVENTS = 200
_SETTLE_SECONDS = 10.0

Record = dict[str, Any]
Case = Callable[[Stage], Record]


def _crowd(size: int, *, differs: bool = False) -> Case:
    def case(on: Stage) -> Record:
        crowd = Crowd(size=size, differs=differs)
        found = asyncio.run(growth.submitted(on, crowd))
        found["idle"] = asyncio.run(running.idle(on, seconds=_IDLE_SECONDS))
        found["told"] = asyncio.run(running.status_latencies(on, crowd, events=min(size, _EVENTS)))
        found["restart"] = asyncio.run(running.restarted(on, crowd))
        return found

    return case


CASES: Mapping[str, tuple[tuple[NodePool, ...], Case]] = {
    "crowd-0100": (_NODES, _crowd(100)),
    "crowd-0300": (_NODES, _crowd(300)),
    "crowd-1000": (_NODES, _crowd(1000)),
    "crowd-1000-all-differ": (_NODES, _crowd(1000, differs=True)),
    "crowd-3000": (evenly(1500), _crowd(3000)),
    "cycles": (_NODES, lambda on: asyncio.run(cycles.cycled(on, cycles=2000, samples=20))),
    "start-first": (_FEW, lambda on: asyncio.run(start.first_set(on))),
    "start-fifty": (
        _FEW,
        lambda on: start.beside_others(on, RUNS / "start-fifty", rounds=3),
    ),
    "race-two": (_TWO, lambda on: asyncio.run(race.two(on, gpus=16))),
    "race-fifty": (_TWO, lambda on: asyncio.run(race.fifty(on, gpus=16))),
}


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(prog="python -m bench.proof.load", description=__doc__)
    parser.add_argument("--case", default="*", help="cases whose names match, such as 'crowd-*'")
    parser.add_argument("--again", action="store_true", help="measure also what has a record")
    options = parser.parse_args()
    RECORDS.mkdir(parents=True, exist_ok=True)
    for name, (nodes, case) in CASES.items():
        if fnmatch(name, options.case) and (options.again or not _path(name).exists()):
            _measure(name, nodes, case)
    _publish()


def _measure(name: str, nodes: tuple[NodePool, ...], case: Case) -> None:
    with stage(nodes, RUNS / name) as on:
        # The nodes' first events, and the planner's imports, are no part of what is measured.
        time.sleep(_SETTLE_SECONDS)
        found = case(on)
    record = {
        "nodes": sum(each.count for each in nodes),
        **found,
        "commit": commit(),
        "machine": machine(),
    }
    _path(name).write_text(json.dumps(record, indent=1))
    print(name, json.dumps(found), flush=True)
    _publish()


def _publish() -> None:
    found = {name: json.loads(_path(name).read_text()) for name in CASES if _path(name).exists()}
    draw(found, FIGURE)
    RESULTS.write_text(page(found))


def _path(name: str) -> Path:
    return RECORDS / f"{name}.json"


if __name__ == "__main__":
    main()
