"""``python -m bench.proof.mutants``: tries the mutants that have no record, and writes the page."""

import argparse
import json
import os
import resource
import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from bench.proof.mutants.checkout_copy import CheckoutCopy, checkout_copy
from bench.proof.mutants.equivalents import equivalents
from bench.proof.mutants.mutant import DrawnMutant, Mutant
from bench.proof.mutants.page import Sample, page
from bench.proof.mutants.quick_tests import subject_of
from bench.proof.mutants.records import Records

PYTHON = ".venv-mutants/bin/python"
PAGE = Path("docs/results/mutants.md")
MEMORY_BYTES = 5 << 30
"""Limit of one process: a mutant of a loop may fill a list for ever."""

COUNT = 200
SEED = 1


def main() -> int:
    """Try what is missing; tell whether enough mutants were killed."""
    parser = argparse.ArgumentParser(prog="python -m bench.proof.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED, help="of the draw")
    parser.add_argument("--count", type=int, default=COUNT, help="mutants to draw")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants at once")
    parser.add_argument("--only", default="*", help="files whose path matches this pattern")
    parser.add_argument("--line", default="*", help="lines whose text matches this pattern")
    parser.add_argument("--list", action="store_true", help="only list the drawn mutants")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    drawn, records = _draw(options.seed, options.count), Records()
    chosen = [
        each
        for each in drawn
        if fnmatch(each.mutant.path, options.only) and fnmatch(each.mutant.line, options.line)
    ]
    if options.list:
        for each in chosen:
            found = records.of(each.mutant)
            print(f"{found['outcome'] if found else '-':9}{each.mutant}")
        return 0
    sample = _sample(drawn, records)
    missing = [each for each in chosen if each.mutant in sample.missing()]
    if missing and not options.page:
        Session(missing, records).run(num_jobs=options.jobs)
    sample = _sample(drawn, records)
    PAGE.write_text(page(sample, seed=options.seed))
    print(*sample.survivors(), sep="\n")
    return int(not sample.holds)


def _draw(seed: int, count: int) -> list[DrawnMutant]:
    command = [PYTHON, "-m", "bench.proof.mutants.draw", f"--seed={seed}", f"--count={count}"]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = map(json.loads, printed.splitlines())
    return [DrawnMutant(mutant=Mutant(**each["mutant"]), source=each["source"]) for each in found]


def _sample(drawn: Sequence[DrawnMutant], records: Records) -> Sample:
    mutants = [each.mutant for each in drawn]
    found = {each.key: record for each in mutants if (record := records.of(each))}
    return Sample(drawn=mutants, records=found, equivalents=equivalents())


class Session:
    """Trials of several mutants, in one copy of the checkout for each job."""

    def __init__(self, missing: Sequence[DrawnMutant], records: Records) -> None:
        """Start with all trials ahead."""
        self._missing = deque(missing)
        self._records = records
        self._num_all = len(missing)
        self._num_done = 0
        self._lock = threading.Lock()
        self._started = time.monotonic()

    def run(self, *, num_jobs: int) -> None:
        """Try all mutants. An interrupt ends it after those that are being tried."""
        _limit_memory()
        jobs = [
            threading.Thread(target=self._work, name=f"job-{number}")
            for number in range(min(num_jobs, self._num_all))
        ]
        for each in jobs:
            each.start()
        try:
            for each in jobs:
                each.join()
        except KeyboardInterrupt:
            with self._lock:
                self._missing.clear()
            for each in jobs:
                each.join()

    def _work(self) -> None:
        checked: set[tuple[str, ...]] = set()
        with checkout_copy() as copy:
            while drawn := self._next():
                tests = subject_of(drawn.mutant.path).tests
                if tests not in checked:
                    copy.check(tests)
                    checked.add(tests)
                self._attempt(copy, drawn)

    def _next(self) -> DrawnMutant | None:
        with self._lock:
            return self._missing.popleft() if self._missing else None

    def _attempt(self, copy: CheckoutCopy, drawn: DrawnMutant) -> None:
        trial = copy.attempt(drawn)
        with self._lock:
            self._records.add(drawn.mutant, trial)
            self._num_done += 1
            spent = time.monotonic() - self._started
            left = spent / self._num_done * (self._num_all - self._num_done)
            print(
                f"{self._num_done}/{self._num_all} {trial.outcome} ({trial.seconds:.0f} s, about "
                f"{left / 60:.0f} min left): {drawn.mutant}",
                flush=True,
            )


def _limit_memory() -> None:
    """Limit the memory of processes that are started from now on."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = MEMORY_BYTES if most == resource.RLIM_INFINITY else min(MEMORY_BYTES, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


if __name__ == "__main__":
    raise SystemExit(main())
