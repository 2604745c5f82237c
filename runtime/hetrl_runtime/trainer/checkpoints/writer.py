"""Background writing of checkpoints: one at a time, from a copy, by a thread of its own.

Training waits while the state is copied, and while the checkpoint before is being written.
``checkpoint`` defines the files and when they are whole; the loop decides when to write one.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path

from torch import Tensor

from hetrl_runtime.metrics.trainer import TrainerMetrics
from hetrl_runtime.process.faults import Point, passing
from hetrl_runtime.tracing.span import UNTRACED, Span
from hetrl_runtime.trainer.checkpoints.checkpoint import CheckpointError, CheckpointFolder
from hetrl_runtime.wire.values import ResumePoint

log = logging.getLogger(__name__)

DEADLINE_SECONDS = 1800.0
"""For one checkpoint: a disk that takes longer has hung, and work would be lost unnoticed."""


class CheckpointWriter:
    """At most one checkpoint on its way to a folder."""

    def __init__(
        self,
        folder: CheckpointFolder,
        metrics: TrainerMetrics,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._folder = folder
        self._metrics = metrics
        self._deadline_seconds = deadline_seconds
        self._begun_at = 0.0
        self._writing: Future[Path] | None = None

    @property
    def is_writing(self) -> bool:
        """Whether a checkpoint is on its way."""
        return self._writing is not None and not self._writing.done()

    def begin(
        self,
        resume: ResumePoint,
        *,
        save_model: Callable[[Path], None],
        state: Callable[[], Mapping[str, Tensor]],
        span: Span = UNTRACED,
    ) -> None:
        """Take a copy of what ``state`` returns and begin to write it; return before it is written.

        Waits for the checkpoint before. Writing is a child of ``span``, and outlives it. What
        ``save_model`` writes must not change any more.

        Raises:
            CheckpointError: the one before could not be written, or not within the deadline.
        """
        asked_at = time.monotonic()
        self.finish()
        # The optimizer goes on changing these while they are written.
        optimizer = {name: each.clone() for name, each in state().items()}
        passing(Point.CHECKPOINT_COPIED)
        self._begun_at = time.monotonic()
        self._metrics.checkpoint_stall_seconds.observe(self._begun_at - asked_at)
        writing: Future[Path] = Future()
        self._writing = writing

        def write() -> None:
            try:
                with span.child("write checkpoint"):
                    path = self._folder.write(resume, save_model=save_model, optimizer=optimizer)
                seconds = time.monotonic() - self._begun_at
                self._metrics.checkpoint_seconds.observe(seconds)
                log.info("checkpoint: path=%s seconds=%.3f", path, seconds)
                writing.set_result(path)
            except BaseException as error:  # it is raised where it is waited for
                writing.set_exception(error)

        # Not an executor's: the interpreter would wait at its end for a disk that hangs.
        threading.Thread(target=write, name="checkpoint", daemon=True).start()

    def check(self) -> None:
        """Look after the checkpoint on its way, without waiting for it.

        Raises:
            CheckpointError: it could not be written, or its time is up.
        """
        if not self.is_writing or time.monotonic() - self._begun_at > self._deadline_seconds:
            self.finish()

    def finish(self) -> None:
        """Wait until nothing is on its way.

        Raises:
            CheckpointError: it could not be written, or not within the deadline.
        """
        writing, self._writing = self._writing, None
        if writing is None:
            return
        left_seconds = self._begun_at + self._deadline_seconds - time.monotonic()
        try:
            writing.result(timeout=max(0.0, left_seconds))
        except TimeoutError:
            raise CheckpointError(
                f"a checkpoint in {self._folder.root} was not written within "
                f"{self._deadline_seconds:g} s"
            ) from None
