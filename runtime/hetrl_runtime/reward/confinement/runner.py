"""The process in which a job's own reward code runs.

It is started as ``python -m hetrl_runtime.reward.confinement.runner``.

It confines itself, loads the file, and then answers one JSON line with another, until its
input ends. What the code prints goes nowhere near the answers.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

from hetrl_runtime.reward.confinement.restrictions import Bounds, confine
from hetrl_runtime.reward.error_text import described
from hetrl_runtime.reward.verdict import Response, Unjudged
from hetrl_runtime.reward.verifiers import Verifier, judge_by


def main(file: str, function: str, bounds: Bounds) -> None:
    """Serve: the first line out says whether the code could be loaded."""
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)

        def reply(**fields: Any) -> None:
            print(json.dumps(fields), file=replies, flush=True)

        try:
            confine(Path(file), bounds)
            judge = judge_by(_loaded(Path(file), function))
        except BaseException as error:  # The code may raise anything.
            reply(error=described(error))
            return
        reply(ready=True)
        for line in sys.stdin:
            verdict = judge(Response(**json.loads(line)))
            if isinstance(verdict, Unjudged):
                reply(unjudged=verdict.reason, detail=verdict.detail)
            else:
                reply(reward=verdict)


def _loaded(file: Path, function: str) -> Verifier:
    spec = importlib.util.spec_from_file_location("reward_code", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a file of Python")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, function, None)
    if not callable(found):
        raise TypeError(f"{file} has no function {function}")
    chosen: Verifier = found
    return chosen


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
