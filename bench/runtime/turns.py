"""Turns of two sides: each is a process that does one step on request and reports its cost.

A step here, a step there: what else runs on the machine falls on both alike. A turn is one line
each way; output of libraries is ignored.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Self

_MARK = "@turn "
_DEADLINE_SECONDS = 1800
"""Of one turn, start included; a side that takes longer is ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One whole step of one side."""

    seconds: float
    cpu_seconds: float
    """Of all its threads; of what competes for the cores, nothing is in it."""

    num_samples: int
    num_tokens: int
    reward: float
    """The mean of what was sampled."""


def await_turn() -> None:
    """Wait for the request of a turn; end when the parent ends."""
    if not sys.stdin.readline():
        sys.exit(0)


def say(turn: Turn) -> None:
    """Report the cost of one step."""
    print(_MARK + json.dumps(asdict(turn)), flush=True)


class Side:
    """A process that takes turns; use it as a context manager."""

    def __init__(
        self, python: Path, module: tuple[str, ...], settings: dict[str, object], cores: set[int]
    ) -> None:
        threads = str(settings["threads"])
        self._process = subprocess.Popen(
            [
                "taskset",
                "-c",
                ",".join(map(str, cores)),
                python,
                "-m",
                *module,
                json.dumps(settings),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": threads},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()

    def take_turn(self) -> Turn:
        """Let it do one step.

        Raises:
            RuntimeError: it ended, or was ended for being late.
        """
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        deadline = Timer(_DEADLINE_SECONDS, self._process.kill)
        deadline.start()
        try:
            for line in self._process.stdout:
                if line.startswith(_MARK):
                    return Turn(**json.loads(line.removeprefix(_MARK)))
        finally:
            deadline.cancel()
        raise RuntimeError(f"{self._process.args!r} ended with {self._process.wait()}")
