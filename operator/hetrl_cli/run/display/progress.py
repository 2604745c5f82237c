"""Progress of a run, read from the files in the coordinator's state directory.

``progress.json`` is the wire's ``Progress`` message, replaced about every second;
``steps.jsonl`` gets a line at every policy version.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessProgress:
    """One process as the coordinator last heard of it."""

    process: str
    pod_set: str
    version: int
    running: int
    """Trajectories that it generates at the moment."""

    tokens_per_second: float
    idle_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The run at one moment."""

    step: int
    total_steps: int
    version: int
    samples_per_second: float
    reward_mean: float
    staleness_mean: float
    staleness_max: float
    eta_seconds: float
    buffered: int
    running: int
    outcome: str = ""
    """``Succeeded`` or ``Failed`` at the end."""

    message: str = ""
    waiting_for: str = ""
    reward_parts: Mapping[str, float] = field(default_factory=dict)
    """Mean of each of the job's rewards over the last batch; empty where it has one."""

    notices: tuple[str, ...] = ()
    """What a user should know of the run's data, such as how many prompts are left out."""

    processes: tuple[ProcessProgress, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one policy version was trained on."""

    step: int
    reward_mean: float
    samples_per_second: float


# These also read 64-bit numbers, which are strings in protobuf's JSON.
_PROGRESS, _STEP = TypeAdapter(Progress), TypeAdapter(Step)


class Progresses:
    """Follows the coordinator's files as they grow."""

    def __init__(self, state: Path) -> None:
        self._progress = state / "progress.json"
        self._steps = state / "steps.jsonl"
        self._offset_bytes = 0
        self._found: dict[int, Step] = {}

    def newest(self) -> Progress | None:
        """Return the newest progress; None before there is any."""
        try:
            return _PROGRESS.validate_json(self._progress.read_bytes())
        except FileNotFoundError:
            return None

    def steps(self) -> tuple[Step, ...]:
        """Return every step so far; one repeated after a rewind counts as it was last."""
        if self._steps.exists():
            with self._steps.open("rb") as file:
                file.seek(self._offset_bytes)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._offset_bytes += len(line)
                    self._add(_STEP.validate_json(line))
        return tuple(self._found[number] for number in sorted(self._found))

    def _add(self, step: Step) -> None:
        # A trainer that lost its last steps takes the run back to its checkpoint.
        self._found = {number: each for number, each in self._found.items() if number < step.step}
        self._found[step.step] = step
