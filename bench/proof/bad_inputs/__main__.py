"""``python -m bench.proof.bad_inputs``: plays every case, and writes the page."""

import argparse
import sys
from fnmatch import fnmatch
from pathlib import Path

from bench.proof.bad_inputs.cases import CASES, Case
from bench.proof.bad_inputs.play import Outcome, empty, play
from bench.proof.commit import commit, machine

RUNS = Path("runs/proof-bad-inputs")
PAGE = Path("docs/results/bad-inputs.md")


def main() -> int:
    """Play the cases that are asked for; 0 if all end as wanted."""
    parser = argparse.ArgumentParser(prog="python -m bench.proof.bad_inputs", description=__doc__)
    parser.add_argument("--case", default="*", help="a pattern of names; the page needs all")
    parser.add_argument(
        "--limit-seconds", type=float, default=60.0, help="of a command; more on a busy machine"
    )
    asked = parser.parse_args()
    pattern, limit_seconds = asked.case, asked.limit_seconds
    outcomes: list[tuple[Case, Outcome]] = []
    for case in CASES:
        if fnmatch(case.name, pattern):
            outcome = play(case, empty(RUNS / case.name).absolute(), limit_seconds=limit_seconds)
            outcomes.append((case, outcome))
            print(f"{case.name}: {outcome.seconds:.0f} s: {outcome.message}", flush=True)
            for each in outcome.wrong:
                print(f"    WRONG: {each}", flush=True)
    if pattern == "*":
        PAGE.write_text(page(outcomes, limit_seconds))
    return int(any(outcome.wrong for _, outcome in outcomes))


def page(outcomes: list[tuple[Case, Outcome]], limit_seconds: float) -> str:
    """Write down how each case ended."""
    good = sum(not outcome.wrong for _, outcome in outcomes)
    rows = [
        f"| {case.given} | {_end(case, outcome)} | {outcome.seconds:.0f} "
        f"| `{_short(outcome.message)}` |"
        for case, outcome in outcomes
    ]
    return "\n".join(
        [
            "# How runs end on inputs that must not be trained on",
            "",
            f"`make proof-bad-inputs` on {machine()}, commit {commit()}: `hetrl run` with real "
            "processes and a tiny model, each with one fault.",
            f"A command may take {limit_seconds:g} s, its start included. All numbers in all "
            "checkpoints are finite.",
            "",
            f"**{good} of {len(outcomes)} end as wanted.**",
            "",
            "| fault | the run | seconds | message |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _end(case: Case, outcome: Outcome) -> str:
    if outcome.wrong:
        return f"**not as wanted**: {outcome.wrong[0]}"
    return "goes on to its last step" if case.succeeds else "ends"


def _short(message: str) -> str:
    plain = message.replace(str(RUNS.absolute()), "").replace("|", "\\|").replace("`", "'")
    return plain if len(plain) <= 400 else f"{plain[:397]}..."


if __name__ == "__main__":
    sys.exit(main())
