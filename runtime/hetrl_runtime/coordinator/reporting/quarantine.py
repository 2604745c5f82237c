"""Trajectories with which trainers ended, kept in a file of their own for a person to read.

``rules.state`` says which. The run goes on without them.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from hetrl_runtime.wire import codec
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.trajectory import SampledTrajectory

FILE = "quarantine.jsonl"


class Quarantine:
    """The file in a run's state folder; those of earlier starts stay in it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self._count = len(lines)
        self._first = _named(json.loads(lines[0])) if lines else ""

    def add(
        self, trajectories: Iterable[DeliveredTrajectory], *, line_of: Callable[[int], int]
    ) -> None:
        """Add trajectories, with the line of each one's prompt in the data."""
        with self.path.open("a") as file:
            for record in _records(trajectories, line_of):
                file.write(json.dumps(record) + "\n")
                self._count += 1
                self._first = self._first or _named(record)

    @property
    def notice(self) -> str:
        """What a user should know of it; empty where nothing is in it."""
        if not self._count:
            return ""
        return (
            f"{self._count} trajectories ended the trainer twice and are not trained on; "
            f"{self.path} has them, the first is {self._first}"
        )


def _named(record: dict[str, Any]) -> str:
    return f"{record['id']} on line {record['line']}"


def _records(
    trajectories: Iterable[DeliveredTrajectory], line_of: Callable[[int], int]
) -> Iterator[dict[str, Any]]:
    for each in trajectories:
        found = codec.decode_trajectory(each.data)
        assert isinstance(found, SampledTrajectory), "it was checked on arrival"
        yield {
            "id": str(each.id),
            "line": line_of(each.group),
            "process": found.process,
            "reward": found.reward,
            "reward_parts": dict(found.reward_parts),
            "finish_reason": found.finish_reason,
            "question": found.question,
            "response": found.response_text,
            "prompt_tokens": found.prompt_tokens.tolist(),
            "response_tokens": found.response_tokens.tolist(),
            "behaviour_log_probs": found.behaviour_log_probs.tolist(),
            "token_versions": found.token_versions.tolist(),
        }
