"""The process in which a job's own reward code runs.

It is started as ``python -m hetrl_runtime.reward.confinement.runner``.

It confines itself, loads the file, and then answers one JSON line with another, until its
input ends. What the code prints goes nowhere near the answers.
"""

import importlib.util
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hetrl_runtime.reward.confinement.restrictions import Bounds, confine
from hetrl_runtime.reward.one_line import described


def main(file: str, function: str, bounds: Bounds) -> None:
    """Serve: the first line out says whether the code could be loaded."""
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)

        def reply(**fields: Any) -> None:
            print(json.dumps(fields), file=replies, flush=True)

        try:
            confine(Path(file), bounds)
            score = _loaded(Path(file), function)
        except BaseException as error:  # The code may raise anything.
            reply(error=described(error))
            return
        reply(ready=True)
        for line in sys.stdin:
            try:
                fields = json.loads(line)
                reply(reward=_finite(score(fields["response"], fields["answer"])))
            except Exception as error:  # likewise
                reply(error=described(error))


def _loaded(file: Path, function: str) -> Callable[[str, str], object]:
    spec = importlib.util.spec_from_file_location("reward_code", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a file of Python")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, function, None)
    if not callable(found):
        raise TypeError(f"{file} has no function {function}")
    chosen: Callable[[str, str], object] = found
    return chosen


def _finite(value: object) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"a reward must be a finite number, got {value!r:.80}")
    return float(value)


if __name__ == "__main__":
    main(
        sys.argv[1],
        sys.argv[2],
        Bounds(
            memory_bytes=int(sys.argv[3]),
            life_cpu_seconds=int(sys.argv[4]),
            parent=int(sys.argv[5]),
            private=Path(sys.argv[6]) if sys.argv[6] else None,
        ),
    )
