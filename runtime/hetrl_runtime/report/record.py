"""Records that a run has written, as values.

Read from the run's folder: contract and plan as they were given out, the coordinator's step
records and samples, and what evaluations found. ``plots`` and ``page`` draw them.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, TypeAdapter

from hetrl_core.launch import Launch, from_json
from hetrl_core.plan.plan import Plan
from hetrl_core.plan.pod_sets import COORDINATOR
from hetrl_core.task import Role
from hetrl_runtime.report.spans import Span, Splitter

_COORDINATOR = f"{COORDINATOR}-0"
_PLAN = TypeAdapter(Plan)
_NUM_SAMPLES = 6


class NoRunError(ValueError):
    """The folder holds no run that could be reported on; the message says what is missing."""


def _idle_of_rollouts(processes: list[dict[str, Any]]) -> dict[str, float]:
    return {
        each["process"]: each["idle_ratio"] for each in processes if each["role"] == Role.ROLLOUT
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One policy version: what it was trained on, and how long that took."""

    step: int
    time_seconds: Annotated[float, Field(alias="time")]
    """Of its commit, since the Unix epoch."""

    reward_mean: float
    samples_per_second: float
    step_seconds: float
    wait_seconds: float
    """Of them, waiting for the batch."""

    staleness: Mapping[int, int]
    """Staleness to trajectories trained on."""

    discarded: int
    reward_parts: Mapping[str, float] = field(default_factory=dict)
    """Mean of each of the job's rewards, before weights; empty where it has one."""

    called_tools: int = 0
    """Trajectories trained on in which a tool was called."""

    idle: Annotated[
        Mapping[str, float], Field(alias="processes"), BeforeValidator(_idle_of_rollouts)
    ]
    """Process to the share of the time that it had nothing to do."""

    @property
    def num_trained(self) -> int:
        """Trajectories trained on."""
        return sum(self.staleness.values())

    @property
    def tool_share(self) -> float:
        """Of those trained on, the share in which a tool was called."""
        return self.called_tools / self.num_trained if self.num_trained else 0.0

    @property
    def trainer_idle(self) -> float:
        """Share of the step that the trainer waited for its batch."""
        return self.wait_seconds / self.step_seconds if self.step_seconds else 0.0


_STEP = TypeAdapter(Step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One trajectory that was trained on."""

    step: int
    question: str
    answer: str
    reward: float
    reward_parts: Mapping[str, float]
    """What it is made of, by name; empty where the job has one reward."""

    staleness: int
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The result of one evaluation."""

    correct: int
    problems: int

    @property
    def share(self) -> float:
        """Solved problems, as a share of all."""
        return self.correct / self.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A run, as far as it came."""

    launch: Launch
    plan: Plan
    picture: bytes | None
    """The plan as SVG, if the run was started with one."""

    outcome: str
    """``Succeeded``, ``Failed`` or, where the run did not come to its end, ``Unfinished``."""

    message: str
    steps: tuple[Step, ...]
    samples: tuple[Sample, ...]
    events: tuple[str, ...]
    """What had to be restarted, in words."""

    wall_seconds: float | None
    before: Accuracy | None
    after: Accuracy | None

    @property
    def staleness(self) -> Counter[int]:
        """Staleness to trajectories trained on, over all steps."""
        total: Counter[int] = Counter()
        for step in self.steps:
            total.update(step.staleness)
        return total

    @property
    def mean_staleness(self) -> float:
        """Mean over all trajectories trained on."""
        counts = self.staleness
        return sum(value * count for value, count in counts.items()) / max(1, counts.total())

    @property
    def median_step_seconds(self) -> float:
        """Of all steps but the first, which waits for every process to start."""
        times = [step.step_seconds for step in self.steps[1:] or self.steps]
        return median(times) if times else 0.0


def read(folder: Path) -> Record:
    """Read a run's folder.

    Raises:
        NoRunError: it is not the folder of a run.
    """
    try:
        launch = from_json((folder / "launch" / f"{_COORDINATOR}.json").read_text())
        plan = _PLAN.validate_json((folder / "plan.json").read_bytes())
    except (OSError, ValueError) as error:
        raise NoRunError(f"{folder} holds no run: {error}") from error
    state = folder / "state" / _COORDINATOR
    result = _read_json(state / "result.json")
    end = _read_json(folder / "end.json")
    return Record(
        launch=launch,
        plan=plan,
        picture=_bytes(folder / "plan.svg"),
        outcome=result.get("outcome", "Unfinished"),
        message=result.get("message", ""),
        steps=_surviving(_STEP.validate_python(each) for each in _lines(state / "steps.jsonl")),
        samples=_chosen(_lines(state / "samples.jsonl"), Splitter.of_model(launch.model)),
        events=tuple(end.get("events", ())),
        wall_seconds=end.get("wall_seconds"),
        before=_accuracy(folder / "evaluation" / "before.json"),
        after=_accuracy(folder / "evaluation" / "after.json"),
    )


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _read_json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        # A process that was killed may have left half a line at the end.
        whole = path.read_text().rpartition("\n")[0]
        yield from (json.loads(line) for line in whole.splitlines())


def _surviving(steps: Iterator[Step]) -> tuple[Step, ...]:
    """Return the steps of the history that counts: a trainer may go back to its checkpoint."""
    found: list[Step] = []
    for step in steps:
        while found and found[-1].step >= step.step:
            found.pop()
        found.append(step)
    return tuple(found)


def _chosen(lines: Iterator[Mapping[str, Any]], splitter: Splitter) -> tuple[Sample, ...]:
    """Return the first sample of steps that are spread over the run."""
    first: dict[int, Mapping[str, Any]] = {}
    for line in lines:
        first.setdefault(line["step"], line)
    steps = sorted(first)
    places = {index * (len(steps) - 1) // (_NUM_SAMPLES - 1) for index in range(_NUM_SAMPLES)}
    return tuple(_sample(first[steps[place]], splitter) for place in sorted(places) if steps)


def _sample(found: Mapping[str, Any], splitter: Splitter) -> Sample:
    return Sample(
        step=found["step"],
        question=found["question"],
        answer=found["answer"],
        reward=found["reward"],
        reward_parts=found.get("reward_parts", {}),
        staleness=found["staleness"],
        spans=splitter.split(found["response"], found["version_tokens"]),
    )


def _accuracy(path: Path) -> Accuracy | None:
    found = _read_json(path)
    return Accuracy(correct=found["correct"], problems=found["count"]) if found else None
