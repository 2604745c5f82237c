"""The steps of a run as TensorBoard's event files, where a job asks for them.

The figures are those of the report's step records. A trainer that goes back to its checkpoint
takes what follows that step out of the curves.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FLUSH_SECONDS = 1
"""Within which a step can be read."""

_FIGURES = ("reward_mean", "step_seconds", "wait_seconds", "samples_per_second", "discarded")


class Curves:
    """A writer of event files in one folder."""

    def __init__(self, folder: Path) -> None:
        """Make the folder.

        Raises:
            OSError: nothing can be written there.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._writer: Any = None
        self._step = 0

    def add_step(self, record: Mapping[str, Any]) -> None:
        """Add a step record of the report."""
        step = int(record["step"])
        if self._writer is None or step <= self._step:
            self._begin(step)
        self._step = step
        for name, value in _scalars(record).items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()

    def _begin(self, step: int) -> None:
        """Open a file that takes the place of all there is from a step on."""
        # Imported at the first use: most runs ask for no curves.
        from tensorboardX import SummaryWriter  # noqa: PLC0415

        self.close()
        self._writer = SummaryWriter(
            str(self._folder),
            purge_step=step,
            # Files are named by the second, and one of the same name would be overwritten.
            filename_suffix=f".{time.time_ns()}",
            # Its own ``flush`` leaves out what its thread has not taken up yet.
            flush_secs=FLUSH_SECONDS,
        )


def _scalars(record: Mapping[str, Any]) -> dict[str, float]:
    ages = {int(age): count for age, count in record["staleness"].items()}
    consumed = max(1, int(record["consumed"]))
    return {
        **{f"run/{name}": float(record[name]) for name in _FIGURES},
        **{f"reward/{name}": float(mean) for name, mean in record["reward_parts"].items()},
        "run/response_tokens_mean": record["response_tokens"] / consumed,
        "run/called_tools_share": record["called_tools"] / consumed,
        "staleness/mean": sum(age * count for age, count in ages.items()) / consumed,
        "staleness/max": max(ages, default=0),
        **{f"trainer/{name}": float(value) for name, value in record["metrics"].items()},
    }
