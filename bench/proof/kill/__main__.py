"""``python -m bench.proof.kill``: plays the cases that have no record yet, and writes the page."""

import argparse
import asyncio
import json
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from bench.proof.commit import commit
from bench.proof.kill import page
from bench.proof.kill.arrangement import make_claim
from bench.proof.kill.cases import CASES, Case
from bench.proof.kill.keeper import HungError
from bench.proof.kill.stage import Stage
from bench.proof.kill.starter import Starter
from bench.proof.kill.verdict import accuracy, record

RUNS = Path("runs/proof-kill")
RESULTS = Path("docs/results/kill.md")
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
        for case in chosen:
            found = await _result(case, starter, claim, again=again)
            print(case.title, *(found["violations"] or ["holds"]), sep="\n  ", flush=True)
            RESULTS.write_text(page.page(_all_results()))


async def play(case: Case, starter: Starter, out: Path, claim: Path) -> dict[str, Any]:
    """Play a case in a folder of its own; return its record."""
    stage = Stage(
        starter=starter, out=out, claim=claim, work=case.work, seed=case.seed,
        rng=random.Random(f"{case.name}/{case.seed}"),
    )  # fmt: skip
    started, hung = time.monotonic(), ""
    try:
        await case.befalls(stage)
    except HungError as error:
        hung = str(error)
    finally:
        stage.close()
    return record(stage, hung=hung, wall_seconds=time.monotonic() - started)


async def _result(case: Case, starter: Starter, claim: Path, *, again: bool) -> dict[str, Any]:
    out = RUNS / case.title
    kept = out / "record.json"
    if again or not kept.exists():
        print(f"== {case.title}: {case.what}", flush=True)
        shutil.rmtree(out, ignore_errors=True)
        began_at = commit()
        found = await play(case, starter, out, claim) | {"commit": began_at}
        if case.work.steps >= _STEPS_THAT_TEACH and not found["violations"]:
            newest = max((out / "checkpoints").glob("step-*"))
            found |= {
                "accuracy_before": accuracy(claim / "model", claim),
                "accuracy_after": accuracy(newest, claim),
            }
        kept.write_text(json.dumps(found, indent=1) + "\n")
    return dict(json.loads(kept.read_text()))


def _all_results() -> dict[Case, dict[str, Any]]:
    return {
        case: json.loads(path.read_text())
        for case in CASES
        if (path := RUNS / case.title / "record.json").exists()
    }


if __name__ == "__main__":
    sys.exit(main())
