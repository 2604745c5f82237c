"""``python -m bench.proof.kill``: plays the cases that have no record yet, and writes the page.

Then those whose record was made by other code. Records are kept beside the page: all cases take an
hour and more, on more than one day and machine.
"""

import argparse
import asyncio
import json
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from bench.proof.code import digest
from bench.proof.commit import commit
from bench.proof.kill import page
from bench.proof.kill.arrangement import make_claim
from bench.proof.kill.cases import CASES, Case
from bench.proof.kill.keeper import HungError
from bench.proof.kill.stage import Stage
from bench.proof.kill.starter import Starter
from bench.proof.kill.verdict import accuracy, record
from bench.proof.records import keep

RUNS = Path("runs/proof-kill")
RECORDS = Path("docs/results/kill")
RESULTS = Path("docs/results/kill.md")
_DECIDES = ("core/hetrl_core/*.py", "runtime/hetrl_runtime/**/*.py")
_STEPS_THAT_TEACH = 60


def main() -> int:
    """Play what is missing; tell whether nothing was broken anywhere."""
    parser = argparse.ArgumentParser(prog="python -m bench.proof.kill", description=__doc__)
    names = sorted({case.name for case in CASES})
    parser.add_argument("--case", choices=names, action="append", help="may be repeated")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--again", action="store_true", help="also those that have a record")
    options = parser.parse_args()
    chosen = [
        case
        for case in CASES
        if case.name in (options.case or names) and options.seed in {None, case.seed}
    ]
    asyncio.run(_play_all(chosen, again=options.again))
    return int(any(found["violations"] for found in _all_results().values()))


async def _play_all(chosen: list[Case], *, again: bool) -> None:
    claim = make_claim(RUNS / "claim")
    async with Starter.open() as starter:
        for case in sorted(chosen, key=lambda case: _kept(case) is not None):
            found = _kept(case)
            if again or not found or found["code"] != digest(_DECIDES):
                print(f"== {case.title}: {case.what}", flush=True)
                found = await _played(case, starter, claim)
            print(case.title, *(found["violations"] or ["holds"]), sep="\n  ", flush=True)
            RESULTS.write_text(page.page(_all_results(), code=digest(_DECIDES)))


async def play(case: Case, starter: Starter, out: Path, claim: Path) -> dict[str, Any]:
    """Play a case in a folder of its own; return its record."""
    stage = Stage(
        starter=starter,
        out=out,
        claim=claim,
        work=case.work,
        seed=case.seed,
        rng=random.Random(f"{case.name}/{case.seed}"),
    )
    started, hung = time.monotonic(), ""
    try:
        await case.inject(stage)
    except HungError as error:
        hung = str(error)
    finally:
        stage.close()
    return record(stage, hung=hung, wall_seconds=time.monotonic() - started)


async def _played(case: Case, starter: Starter, claim: Path) -> dict[str, Any]:
    """Play a case and keep its record."""
    out, made_by = RUNS / case.title, {"commit": commit(), "code": digest(_DECIDES)}
    shutil.rmtree(out, ignore_errors=True)
    found = await play(case, starter, out, claim) | made_by
    if case.work.steps >= _STEPS_THAT_TEACH and not found["violations"]:
        newest = max((out / "checkpoints").glob("step-*"))
        found |= {
            "accuracy_before": accuracy(claim / "model", claim),
            "accuracy_after": accuracy(newest, claim),
        }
    keep(_record(case), found)
    return found


def _kept(case: Case) -> dict[str, Any] | None:
    """Return a case's record, of whatever code."""
    path = _record(case)
    return dict(json.loads(path.read_text())) if path.exists() else None


def _all_results() -> dict[Case, dict[str, Any]]:
    return {case: found for case in CASES if (found := _kept(case))}


def _record(case: Case) -> Path:
    return RECORDS / f"{case.title}.json"


if __name__ == "__main__":
    sys.exit(main())
