"""Problems as the JSONL that every run reads: ``question`` and ``answer`` a line.

The answer ends in ``#### <number>``, as GSM8K's do, so the same verifier scores both.
"""

import json
import random
from collections.abc import Sequence
from pathlib import Path

from hetrl_runtime.tiny.products import products
from hetrl_runtime.tiny.sums import sums
from hetrl_runtime.tiny.task import Problem, Split, Task


def write_dataset(
    path: Path, *, count: int, seed: int, split: Split, task: Task = Task.ARITHMETIC
) -> None:
    """Write ``count`` different problems of a split, in an order that ``seed`` decides.

    Raises:
        ValueError: the split has fewer problems.
    """
    problems: Sequence[Problem] = problems_of(task, split)
    if not 1 <= count <= len(problems):
        raise ValueError(
            f"count must be between 1 and {len(problems)}, the problems of split {split}, "
            f"got {count}"
        )
    chosen = random.Random(seed).sample(problems, count)  # noqa: S311  # an order, not a secret
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(_line(problem) for problem in chosen), encoding="utf-8")


def problems_of(task: Task, split: Split) -> Sequence[Problem]:
    """Return every problem of a task on one side of the fence."""
    return sums(split) if task is Task.ARITHMETIC else products(split)


def _line(problem: Problem) -> str:
    return json.dumps({"question": problem.question, "answer": f"#### {problem.answer}"}) + "\n"
