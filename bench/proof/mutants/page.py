"""The page of the proof, written from the records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.proof.commit import machine
from bench.proof.mutants.checkout_copy import Outcome
from bench.proof.mutants.equivalents import Equivalent
from bench.proof.mutants.mutant import Mutant
from bench.proof.mutants.quick_tests import SUBJECTS, subject_of
from bench.proof.mutants.records import Record

LEAST_SHARE = 0.85
"""Of the mutants that are not equivalent, the share that must be killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Drawn mutants, with the records that they have."""

    drawn: Sequence[Mutant]
    records: Mapping[str, Record]
    """By the mutants' keys."""

    equivalents: Sequence[Equivalent]

    def tried(self) -> list[Mutant]:
        """Return the mutants that have a record and are not known to be equivalent."""
        return [each for each in self.drawn if each.key in self.records and not self.reason(each)]

    def killed(self) -> list[Mutant]:
        """Return the mutants that a test or a time limit noticed."""
        return [each for each in self.tried() if self._outcome(each) != Outcome.SURVIVED]

    def survivors(self) -> list[Mutant]:
        """Return the mutants that no test noticed and that are not known to be equivalent."""
        return [each for each in self.tried() if self._outcome(each) == Outcome.SURVIVED]

    def equivalent(self) -> list[Mutant]:
        """Return the mutants that are known to be equivalent."""
        return [each for each in self.drawn if self.reason(each)]

    def missing(self) -> list[Mutant]:
        """Return the mutants without a record that are not known to be equivalent."""
        return [
            each for each in self.drawn if each.key not in self.records and not self.reason(each)
        ]

    def reason(self, mutant: Mutant) -> str:
        """Return why a mutant is equivalent; empty if that is not known."""
        return next((each.reason for each in self.equivalents if each.is_of(mutant)), "")

    @property
    def share(self) -> float:
        """Share of the tried mutants that was killed."""
        return len(self.killed()) / len(self.tried()) if self.tried() else 0.0

    @property
    def holds(self) -> bool:
        """Whether all were tried and enough of them killed."""
        return not self.missing() and self.share >= LEAST_SHARE

    def commits(self) -> str:
        """Return the commits of the records."""
        return ", ".join(sorted({self.records[each.key]["commit"] for each in self.tried()}))

    def _outcome(self, mutant: Mutant) -> str:
        return str(self.records[mutant.key]["outcome"])


def page(sample: Sample, *, seed: int) -> str:
    """Return the page of a sample."""
    missing = len(sample.missing())
    lines = [
        "# Do the quick tests notice a changed operator?",
        "",
        f"`make proof-mutants` ({machine()}): {len(sample.drawn)} mutants by cosmic-ray, drawn "
        f"with seed {seed}. Each changes one",
        "comparison, arithmetic or boolean operator. The quick tests of its package (those of "
        "`make check`) run in a copy of the checkout until one fails.",
        f"At least {LEAST_SHARE:.0%} must be noticed. Mutants that behave as the code does are "
        "not counted.",
        "",
        f"**{len(sample.killed())} of {len(sample.tried())} killed ({sample.share:.1%}), "
        f"{len(sample.survivors())} survived**, {len(sample.equivalent())} equivalent, "
        f"{missing} not tried yet (commit {sample.commits()}).",
        "",
        *_by_subject(sample),
        "",
        "## Survivors",
        "",
        *([_row(each) for each in sample.survivors()] or ["None."]),
        "",
        "## Equivalent mutants",
        "",
        *([f"{_row(each)}: {sample.reason(each)}" for each in sample.equivalent()] or ["None."]),
        "",
    ]
    return "\n".join(lines)


def _by_subject(sample: Sample) -> list[str]:
    rows = []
    for subject in SUBJECTS:
        tried, killed = (
            sum(subject_of(each.path) is subject for each in group)
            for group in (sample.tried(), sample.killed())
        )
        rows.append(f"| `{subject.code}` | {tried} | {killed} | {tried - killed} |")
    return ["| code | tried | killed | survived |", "|---|---|---|---|", *rows]


def _row(mutant: Mutant) -> str:
    return f"- `{mutant.path}:{mutant.line_number}`: `{mutant.line}` → `{mutant.mutated_line}`"
