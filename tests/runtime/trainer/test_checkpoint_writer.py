"""Checkpoints beside training: copied, one at a time, waited for no longer than a deadline."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import safetensors.torch
import torch
from prometheus_client import CollectorRegistry

from hetrl_runtime.metrics.trainer import TrainerMetrics
from hetrl_runtime.trainer.checkpoints.checkpoint import CheckpointError, CheckpointFolder
from hetrl_runtime.trainer.checkpoints.writer import CheckpointWriter
from hetrl_runtime.wire.values import ResumePoint

TIMEOUT_SECONDS = 30.0


class SlowDisk:
    """Writes the model once it is let."""

    def __init__(self) -> None:
        self.may_write = threading.Event()
        self.begun = threading.Event()

    def save_model(self, folder: Path) -> None:
        self.begun.set()
        assert self.may_write.wait(TIMEOUT_SECONDS)
        weights = {"weight": torch.tensor([1.0])}
        safetensors.torch.save_file(weights, folder / "model.safetensors")


@pytest.fixture
def disk() -> Iterator[SlowDisk]:
    disk = SlowDisk()
    yield disk
    disk.may_write.set()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def writer_to(
    tmp_path: Path, registry: CollectorRegistry
) -> Callable[..., tuple[CheckpointWriter, CheckpointFolder]]:
    def make(
        deadline_seconds: float = TIMEOUT_SECONDS,
    ) -> tuple[CheckpointWriter, CheckpointFolder]:
        folder = CheckpointFolder(tmp_path / "checkpoints", keep_last=3)
        folder.prepare()
        metrics = TrainerMetrics(registry)
        return CheckpointWriter(folder, metrics, deadline_seconds=deadline_seconds), folder

    return make


def begin(writer: CheckpointWriter, version: int, save_model, moment=None) -> None:
    state = {"weight:exp_avg": torch.zeros(1) if moment is None else moment}
    writer.begin(ResumePoint(version=version), save_model=save_model, state=lambda: state)


def test_training_continues_while_a_checkpoint_is_written_unchanged(writer_to, disk, registry):
    writer, folder = writer_to()
    moment = torch.tensor([0.5])

    begin(writer, 1, disk.save_model, moment)
    moment.fill_(9.0)  # The next step, of which the checkpoint must know nothing.
    assert folder.newest() is None
    disk.may_write.set()
    writer.finish()

    assert folder.newest().resume.version == 1
    assert folder.newest().optimizer["weight:exp_avg"].tolist() == [0.5]
    assert registry.get_sample_value("hetrl_trainer_checkpoint_seconds_count") == 1
    assert registry.get_sample_value("hetrl_trainer_checkpoint_stall_seconds_count") == 1


def test_second_checkpoint_waits_for_the_first(writer_to, disk):
    writer, folder = writer_to()
    begin(writer, 1, disk.save_model)
    second = threading.Thread(target=begin, args=(writer, 2, disk.save_model))

    second.start()
    assert disk.begun.wait(TIMEOUT_SECONDS)
    second.join(timeout=0.2)
    assert second.is_alive()
    disk.may_write.set()
    second.join(TIMEOUT_SECONDS)
    writer.finish()

    assert folder.newest().resume.version == 2


@pytest.mark.parametrize("wait", ["begin", "finish", "check"])
def test_disk_that_hangs_fails_at_the_deadline_by_name(writer_to, disk, wait):
    writer, folder = writer_to(deadline_seconds=0.05)
    begin(writer, 1, disk.save_model)
    assert disk.begun.wait(TIMEOUT_SECONDS)
    threading.Event().wait(0.1)  # The deadline, and nothing that could be waited for.

    with pytest.raises(CheckpointError, match=rf"{folder.root} was not written within 0.05 s"):
        begin(writer, 2, disk.save_model) if wait == "begin" else getattr(writer, wait)()


@pytest.mark.parametrize("wait", ["begin", "finish", "check"])
def test_error_of_the_writer_is_raised_in_training(writer_to, wait):
    writer, folder = writer_to()

    def fail(_: Path) -> None:
        raise OSError(28, "No space left on device")

    begin(writer, 1, fail)
    while wait == "check" and writer.is_writing:
        threading.Event().wait(0.01)

    with pytest.raises(CheckpointError, match="step-00000001: No space left on device"):
        begin(writer, 2, fail) if wait == "begin" else getattr(writer, wait)()
    assert folder.newest() is None


def test_looking_after_a_checkpoint_does_not_wait_for_it(writer_to, disk):
    writer, folder = writer_to()
    begin(writer, 1, disk.save_model)

    writer.check()

    assert folder.newest() is None
