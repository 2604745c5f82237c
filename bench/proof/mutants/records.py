"""Records of mutants that were tried, beside the page that is written from them.

A record is of the code that it was made with: one of a killed mutant counts while the mutated file
is the same, one of a survivor while the tests are the same as well.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from bench.proof.code import digest
from bench.proof.commit import commit
from bench.proof.mutants.checkout_copy import Outcome, Trial
from bench.proof.mutants.mutant import Mutant
from bench.proof.mutants.quick_tests import subject_of
from bench.proof.records import keep

PATH = Path("docs/results/mutants/records.json")

Record = Mapping[str, Any]


class Records:
    """All records, by the mutants' keys."""

    def __init__(self, path: Path = PATH) -> None:
        """Read the records that there are."""
        self._path = path
        self._commit = commit()
        self._found: dict[str, Record] = json.loads(path.read_text()) if path.exists() else {}

    def of(self, mutant: Mutant) -> Record | None:
        """Return a mutant's record if it is of today's code and tests."""
        found, code, tests = self._found.get(mutant.key), _code(mutant.path), _tests(mutant.path)
        if not found or found["code"] != code:
            return None
        if found["outcome"] == Outcome.SURVIVED and found["tests"] != tests:
            return None
        return found

    def add(self, mutant: Mutant, trial: Trial) -> None:
        """Keep a mutant's result, in the place of an older one."""
        self._found[mutant.key] = {
            **mutant.fields(),
            **asdict(trial),
            "seconds": round(trial.seconds, 1),
            "code": _code(mutant.path),
            "tests": _tests(mutant.path),
            "commit": self._commit,
        }
        keep(self._path, dict(sorted(self._found.items())))


# Computed once, as the commit is: a session tries mutants in copies of the files at its start.
@cache
def _code(path: str) -> str:
    return digest([path])


@cache
def _tests(path: str) -> str:
    return digest(map(str, subject_of(path).test_files()))
