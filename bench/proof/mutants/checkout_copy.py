"""Runs of tests in a copy of the checkout, one of whose files is changed."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from bench.proof.mutants.mutant import DrawnMutant
from bench.proof.mutants.quick_tests import QUICK, source_path, stages

TEST_SECONDS = 60
"""Time limit of one test: each takes less than half a second of a processor."""

MUTANT_SECONDS = 900
"""Time limit of one run of tests, for a mutant that hangs while modules are imported."""

_PASSED, _NO_TESTS = 0, 5
"""Exit codes of pytest."""


class Outcome(StrEnum):
    """The end of a mutant's tests."""

    KILLED = "killed"
    TIMEOUT = "timeout"
    SURVIVED = "survived"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The result of a mutant's tests."""

    outcome: Outcome
    killer: str = ""
    """The test that failed; empty where the process ended or no test could begin."""

    seconds: float = 0.0


class CheckoutCopy:
    """A copy of the checkout's files, in which mutants are tried one after another."""

    def __init__(self, root: Path) -> None:
        """Fill a folder with the files that git tracks, and with those that it would add."""
        self.root = root
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for name in filter(os.path.isfile, listed.split("\0")):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(name, root / name)

    def check(self, tests: Sequence[str]) -> None:
        """Run tests without a mutant, which compiles all modules for later runs.

        Raises:
            RuntimeError: tests fail, so that they would fail for every mutant.
        """
        code, output = self._pytest(tests, keeps_bytecode=True)
        if code not in {_PASSED, _NO_TESTS}:
            raise RuntimeError(f"tests fail without a mutant:\n{output[-4000:]}")

    def attempt(self, drawn: DrawnMutant) -> Trial:
        """Apply a mutant, run its tests until one fails, and take the change back.

        Raises:
            RuntimeError: pytest failed otherwise than by a test or by the mutant.
        """
        started = time.monotonic()
        with self._changed(drawn):
            for stage in stages(drawn.mutant.path, self.root):
                trial = self._try([str(test.relative_to(self.root)) for test in stage])
                if trial.outcome is not Outcome.SURVIVED:
                    break
        return replace(trial, seconds=time.monotonic() - started)

    def _try(self, tests: Sequence[str]) -> Trial:
        try:
            code, output = self._pytest(tests)
        except subprocess.TimeoutExpired:
            return Trial(outcome=Outcome.TIMEOUT)
        if code in {_PASSED, _NO_TESTS}:
            return Trial(outcome=Outcome.SURVIVED)
        if "Failed: Timeout" in output:
            return Trial(outcome=Outcome.TIMEOUT, killer=_first_failure(output))
        killer = _first_failure(output)
        if not killer and code >= 0 and "while loading conftest" not in output:
            raise RuntimeError(f"pytest ended with {code}:\n{output[-4000:]}")
        return Trial(outcome=Outcome.KILLED, killer=killer)

    @contextlib.contextmanager
    def _changed(self, drawn: DrawnMutant) -> Iterator[None]:
        path = self.root / drawn.mutant.path
        original, stat = path.read_text(), path.stat()
        path.write_text(drawn.source)
        try:
            yield
        finally:
            path.write_text(original)
            # The compiled module, which is of the original, names the time of its source.
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    def _pytest(self, tests: Sequence[str], *, keeps_bytecode: bool = False) -> tuple[int, str]:
        environment = {**os.environ, "PYTHONPATH": source_path(self.root)}
        # The compiled form of a mutant must not stay for the next.
        environment["PYTHONDONTWRITEBYTECODE"] = "" if keeps_bytecode else "1"
        options = ["-q", "-x", "-rfE", "--tb=line", f"--timeout={TEST_SECONDS}", "-m", QUICK]
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, *tests],
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=MUTANT_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return process.returncode, output


@contextlib.contextmanager
def checkout_copy() -> Iterator[CheckoutCopy]:
    """Hold a copy of the checkout in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        yield CheckoutCopy(Path(folder))


def _first_failure(output: str) -> str:
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    return found[1] if found else ""
