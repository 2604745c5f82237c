"""The tiers of ``make test``: each is a target of make, with what it needs from the machine.

All tiers run, also after one has failed, and a table at the end says how long each took. A tier
whose needs are missing is skipped with the reason. With HETRL_TEST_ALL=1, as in CI, that is a
failure.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

REPORTS = Path("runs/tests")
"""Folder of the tiers' JUnit reports, with the time of each test."""

TESTS_ALL = "HETRL_TEST_ALL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """One target of make."""

    target: str
    needs: tuple[Callable[[], str], ...] = ()
    """Checks of the machine; each returns what is missing, or an empty string."""

    @property
    def missing(self) -> str:
        """What the machine lacks for it; empty if nothing."""
        return ", ".join(text for need in self.needs if (text := need()))


@dataclass(frozen=True, slots=True, kw_only=True)
class TierResult:
    """The end of a tier."""

    target: str
    outcome: Literal["passed", "failed", "skipped"]
    seconds: float = 0.0
    tests: str = ""


def go() -> str:
    """Return what is missing for building Kubernetes."""
    return "" if shutil.which("go") else "Go on PATH"


def root_on_debian() -> str:
    """Return what is missing for nodes that run pods."""
    if os.geteuid() != 0:
        return "root"
    return "" if shutil.which("apt-get") else "Debian"


def python_of_vllm() -> str:
    """Return what is missing for vLLM's CPU build, which has no wheel for later Pythons."""
    return "" if sys.version_info < (3, 13) else "Python 3.11 or 3.12"


TIERS = (
    Tier(target="check"),
    Tier(target="docs"),
    Tier(target="test-slow"),
    Tier(target="test-oracles"),
    Tier(target="test-engine", needs=(python_of_vllm,)),
    Tier(target="test-cluster", needs=(go,)),
    Tier(target="e2e", needs=(go, root_on_debian, python_of_vllm)),
)


def run(tier: Tier) -> TierResult:
    """Run a tier, unless something is missing for it."""
    if tier.missing:
        print(f"skipped: make {tier.target} needs {tier.missing}", flush=True)
        return TierResult(target=tier.target, outcome="skipped", tests=f"needs {tier.missing}")
    print(f"\n== make {tier.target}", flush=True)
    report = (REPORTS / f"{tier.target}.xml").absolute()
    report.unlink(missing_ok=True)
    options = f"{os.environ.get('PYTEST_ADDOPTS', '')} --junitxml={report}"
    started = time.monotonic()
    code = subprocess.call(
        ["make", "--no-print-directory", tier.target],
        env={**os.environ, "PYTEST_ADDOPTS": options.strip()},
    )
    return TierResult(
        target=tier.target,
        outcome="failed" if code else "passed",
        seconds=time.monotonic() - started,
        tests=counts(report),
    )


def counts(report: Path) -> str:
    """Return the number of tests in a JUnit report, by outcome; empty if there is none."""
    if not report.exists():
        return ""
    suites = list(ElementTree.parse(report).iter("testsuite"))
    total, skipped, failed, errors = (
        sum(int(suite.get(name, 0)) for suite in suites)
        for name in ("tests", "skipped", "failures", "errors")
    )
    passed = total - skipped - failed - errors
    numbers = {"passed": passed, "skipped": skipped, "failed": failed + errors}
    return ", ".join(f"{number} {name}" for name, number in numbers.items() if number)


def table(results: list[TierResult]) -> str:
    """Return the results as a table."""
    rows = [
        f"{each.target:<13} {each.outcome:<8} {minutes(each.seconds):>7}  {each.tests}".rstrip()
        for each in results
    ]
    total = minutes(sum(each.seconds for each in results))
    return "\n".join(("tier          outcome     time  tests", *rows, f"total {total:>24}"))


def minutes(seconds: float) -> str:
    """Return a time as minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def main() -> int:
    """Run all tiers, and return the exit status."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    results = [run(tier) for tier in TIERS]
    print(f"\n{table(results)}", flush=True)
    bad = {"failed", "skipped"} if os.environ.get(TESTS_ALL) == "1" else {"failed"}
    return int(any(each.outcome in bad for each in results))


if __name__ == "__main__":
    sys.exit(main())
