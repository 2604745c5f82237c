"""One shell, typed into as by a user: what a command sets is there for the next."""

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_DONE = "-- done --"


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A command as it went."""

    command: str
    code: int
    seconds: float
    lines: tuple[str, ...]


class Shell:
    """bash, for as long as the context lives; what runs in its background is ended with it."""

    def __init__(self) -> None:
        """Start it."""
        self._bash = subprocess.Popen(
            ["bash", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def enter(self, command: str) -> Typed:
        """Run a command, showing what it prints.

        Raises:
            RuntimeError: it failed.
        """
        assert self._bash.stdin
        assert self._bash.stdout
        started, lines = time.monotonic(), []
        print(f"$ {command}", flush=True)
        # Some programs leave their standard input in a state in which bash cannot go on reading.
        typed = f"{{ {command}\n}} </dev/null\necho '{_DONE}' $?"
        print(typed, file=self._bash.stdin, flush=True)
        for line in self._bash.stdout:
            if ended := re.match(rf"{_DONE} (\d+)$", line):
                code, seconds = int(ended[1]), time.monotonic() - started
                break
            sys.stdout.write(line)
            lines.append(line.rstrip("\n"))
        else:
            raise RuntimeError(f"the shell ended at {command!r}")
        if code:
            raise RuntimeError(f"{command!r} ended with {code}")
        return Typed(command=command, code=code, seconds=seconds, lines=tuple(lines))

    def __enter__(self) -> Self:
        """Return the shell."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End what runs in the background, and the shell."""
        assert self._bash.stdin
        assert self._bash.stdout
        self._bash.stdin.write("kill $(jobs -p)\nwait\nexit\n")
        self._bash.stdin.close()
        self._bash.wait(timeout=60)
        self._bash.stdout.close()
