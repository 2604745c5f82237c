"""``python -m bench.proof.learning``: plays the cases that have no record yet, writes the page.

Then those whose record was made by other code.
"""

import argparse
import sys
from collections.abc import Sequence
from fnmatch import fnmatch

from bench.proof.learning.cases import CASES, Case
from bench.proof.learning.page import write
from bench.proof.learning.play import Kept, kept, play


def main() -> int:
    """Play what is chosen and missing; tell whether every record holds."""
    parser = argparse.ArgumentParser(prog="python -m bench.proof.learning", description=__doc__)
    parser.add_argument(
        "--case",
        metavar="PATTERN",
        action="append",
        default=[],
        help="such as 'grpo-eta4-*'; may be repeated; --list says what there is",
    )
    parser.add_argument("--again", action="store_true", help="also those that have a record")
    parser.add_argument("--list", action="store_true", help="say what there is, and play nothing")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    chosen = _chosen(options.case)
    if not chosen:
        parser.error(f"no case is called {' or '.join(options.case)}; see --list")
    if options.list:
        print(*(f"{case.name}: {_state(case)}" for case in chosen), sep="\n")
        return 0
    if not options.page:
        _play(chosen, again=options.again)
    found = _records()
    write(found)
    return int(any(case.shortcomings(each.result) for case, each in found.items()))


def _chosen(patterns: Sequence[str]) -> list[Case]:
    return [
        case
        for case in CASES
        if not patterns or any(fnmatch(case.name, pattern) for pattern in patterns)
    ]


def _play(chosen: Sequence[Case], *, again: bool) -> None:
    for case in sorted(chosen, key=lambda case: kept(case) is not None):
        found = kept(case)
        if found and found.is_of(case) and not again:
            continue
        print(f"== {case.name}", flush=True)
        wrong = case.shortcomings(play(case).result)
        print(f"== {case.name}: {', '.join(wrong) or 'holds'}", flush=True)
        write(_records())


def _records() -> dict[Case, Kept]:
    return {case: found for case in CASES if (found := kept(case))}


def _state(case: Case) -> str:
    found = kept(case)
    if not found:
        return "not played"
    age = "" if found.is_of(case) else ", with other code than today's"
    return (", ".join(case.shortcomings(found.result)) or "holds") + age


if __name__ == "__main__":
    sys.exit(main())
