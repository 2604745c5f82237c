"""Files of a run for people, in the launch contract's state directory.

``progress.json`` is the newest progress, ``steps.jsonl`` has a line a version, ``samples.jsonl``
a few responses of each, ``result.json`` how it ended. The report page is drawn from them.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.trajectory import SampledTrajectory
from hetrl_runtime.wire.values import Ending, StepReport

SAMPLES_PER_STEP = 4
_STEPS, _SAMPLES = "steps.jsonl", "samples.jsonl"
_MAX_LINE_BYTES = 1 << 20
_MAX_SAMPLE_CHARS = 4000


class ReportFiles:
    """A writer of the files; the next start removes half a line that a crash left."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        for name in (_STEPS, _SAMPLES):
            _end_with_a_line(directory / name)

    def newest_step(self) -> dict[str, Any]:
        """Return the step record that was added last; empty where there is none."""
        path = self._directory / _STEPS
        lines = _last_bytes(path).splitlines() if path.exists() else []
        return dict(json.loads(lines[-1])) if lines else {}

    def write_progress(self, progress: pb.Progress) -> None:
        """Replace the newest progress."""
        self._replace("progress.json", as_json(progress))

    def write_result(self, ending: Ending, *, progress: pb.Progress) -> None:
        """Write how the run ended."""
        self.write_progress(progress)
        result = {
            "outcome": ending.outcome,
            "reason": ending.reason,
            "message": ending.message,
            "step": progress.step,
            "version": progress.version,
            "total_steps": progress.total_steps,
        }
        self._replace("result.json", result)

    def add_step(self, step: Mapping[str, Any], *, consumed: Sequence[DeliveredTrajectory]) -> None:
        """Add a line about the version just committed, and a few of its responses."""
        self._add(_STEPS, [step])
        self._add(_SAMPLES, _samples(consumed, version=step["version"]))

    def _replace(self, name: str, content: Mapping[str, Any]) -> None:
        fresh = self._directory / f"{name}.new"
        fresh.write_text(json.dumps(content) + "\n")
        fresh.replace(self._directory / name)

    def _add(self, name: str, lines: Iterable[Mapping[str, Any]]) -> None:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        with (self._directory / name).open("a") as file:
            file.write(text)


def as_json(progress: pb.Progress) -> dict[str, Any]:
    """Return a progress message under the protocol's own names, zeros included."""
    found: dict[str, Any] = MessageToDict(
        progress, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return found


def step_record(
    *,
    epoch: int,
    consumed: Sequence[DeliveredTrajectory],
    num_discarded: int,
    staleness: Counter[int],
    report: StepReport,
    progress: pb.Progress,
) -> dict[str, Any]:
    """Return the step record of the version just committed."""
    return {
        "step": progress.step,
        "version": progress.version,
        "epoch": epoch,
        "time": time.time(),
        "consumed": len(consumed),
        "discarded": num_discarded,
        "response_tokens": sum(each.num_response_tokens for each in consumed),
        "called_tools": sum(each.num_tool_calls > 0 for each in consumed),
        "reward_mean": progress.reward_mean,
        "reward_parts": dict(sorted(progress.reward_parts.items())),
        "staleness": {str(age): staleness[age] for age in sorted(staleness)},
        "step_seconds": report.step_seconds,
        "wait_seconds": report.wait_seconds,
        "samples_per_second": progress.samples_per_second,
        "metrics": dict(report.metrics),
        "processes": as_json(progress)["processes"],
    }


def _last_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _MAX_LINE_BYTES))
        return file.read()


def _end_with_a_line(path: Path) -> None:
    """Take away what stands behind the last line that is whole: the next would merge with it."""
    if path.exists():
        torn_bytes = len(_last_bytes(path).rpartition(b"\n")[2])
        os.truncate(path, path.stat().st_size - torn_bytes)


def _samples(consumed: Sequence[DeliveredTrajectory], *, version: int) -> Iterator[dict[str, Any]]:
    # Those that lived through an update show most; they come first.
    chosen = sorted(consumed, key=lambda each: each.oldest_version - each.newest_version)
    for each in map(codec.decode_trajectory, (each.data for each in chosen[:SAMPLES_PER_STEP])):
        assert isinstance(each, SampledTrajectory), "it was checked on arrival"
        yield {
            "step": version,
            "id": str(each.id),
            "process": each.process,
            "question": each.question[:_MAX_SAMPLE_CHARS],
            "answer": each.answer[:_MAX_SAMPLE_CHARS],
            "response": each.response_text[:_MAX_SAMPLE_CHARS],
            "reward": each.reward,
            "reward_parts": dict(sorted(each.reward_parts.items())),
            "finish_reason": each.finish_reason,
            "staleness": version - 1 - each.oldest_version,
            # Runs of [policy version, tokens that it sampled]; -1 for what a tool wrote.
            "version_tokens": [
                [policy, len(list(tokens))]
                for policy, tokens in groupby(each.token_versions.tolist())
            ],
        }
