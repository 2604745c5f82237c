import errno
import math
import os
from pathlib import Path

import pytest
import safetensors.torch
import torch

from hetrl_runtime.trainer.checkpoints.checkpoint import CheckpointError, CheckpointFolder
from hetrl_runtime.wire.values import ResumePoint

OPTIMIZER = {"weight:exp_avg": torch.tensor([0.5]), "weight:step": torch.tensor(3.0)}


def save_model(folder: Path) -> None:
    safetensors.torch.save_file({"weight": torch.tensor([1.0, 2.0])}, folder / "model.safetensors")
    (folder / "config.json").write_text("{}")


def write(root: Path, *versions: int, keep_last: int = 3) -> CheckpointFolder:
    folder = CheckpointFolder(root, keep_last=keep_last)
    folder.prepare()
    for version in versions:
        resume = ResumePoint(version=version, next_group=10 * version, open_groups=(version,))
        folder.write(resume, save_model=save_model, optimizer=OPTIMIZER)
    return folder


def test_newest_checkpoint_comes_back_as_it_was_written(tmp_path):
    checkpoint = write(tmp_path, 9, 10).newest()

    assert checkpoint.resume == ResumePoint(version=10, next_group=100, open_groups=(10,))
    assert checkpoint.weights["weight"].tolist() == [1.0, 2.0]
    assert checkpoint.optimizer.keys() == OPTIMIZER.keys()
    assert checkpoint.optimizer["weight:step"] == 3.0


def test_checkpoint_is_missing_before_the_first(tmp_path):
    assert CheckpointFolder(tmp_path / "later", keep_last=3).newest() is None


def test_last_checkpoints_alone_are_kept(tmp_path):
    write(tmp_path, 1, 2, 3, 4, keep_last=2)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000003", "step-00000004"]


def test_writing_a_version_twice_leaves_the_first(tmp_path):
    folder = write(tmp_path, 5)
    before = (tmp_path / "step-00000005" / "manifest.json").stat().st_mtime_ns

    folder.write(ResumePoint(version=5), save_model=save_model, optimizer={})

    assert (tmp_path / "step-00000005" / "manifest.json").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: (path / "model.safetensors").unlink(), id="weights missing"),
        pytest.param(
            lambda path: (path / "optimizer.safetensors").write_bytes(b"\x00"), id="cut short"
        ),
        pytest.param(lambda path: flip_a_bit(path / "model.safetensors"), id="one bit flipped"),
        pytest.param(lambda path: (path / "manifest.json").unlink(), id="manifest missing"),
        pytest.param(lambda path: (path / "manifest.json").write_text("{"), id="manifest torn"),
    ],
)
def test_damaged_checkpoint_is_refused_by_its_path(tmp_path, damage):
    folder = write(tmp_path, 1, 2)
    damage(tmp_path / "step-00000002")

    with pytest.raises(CheckpointError, match=r"checkpoint .*step-00000002 is damaged"):
        folder.newest()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_checkpoint_with_weights_that_are_not_finite_is_refused(tmp_path, bad):
    folder = write(tmp_path, 1)

    def save_bad(path: Path) -> None:
        tensors = {"fine": torch.ones(2), "head": torch.tensor([1.0, bad])}
        safetensors.torch.save_file(tensors, path / "model.safetensors")

    folder.write(ResumePoint(version=2), save_model=save_bad, optimizer=OPTIMIZER)

    with pytest.raises(
        CheckpointError,
        match=r"step-00000002 holds values .* not finite: tensor head of model.safetensors; remove",
    ):
        folder.newest()


def test_state_that_is_not_finite_is_not_written(tmp_path):
    folder = write(tmp_path, 1, keep_last=1)
    bad = {**OPTIMIZER, "weight:exp_avg": torch.tensor([math.nan])}

    with pytest.raises(CheckpointError, match=r"is not written: weight:exp_avg is not finite"):
        folder.write(ResumePoint(version=2), save_model=save_model, optimizer=bad)

    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_crash_while_writing_leaves_the_one_before(tmp_path):
    folder = write(tmp_path, 1)

    def die(folder: Path) -> None:
        save_model(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        folder.write(ResumePoint(version=2), save_model=die, optimizer=OPTIMIZER)

    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_leftovers_of_a_killed_process_are_cleared_away(tmp_path):
    (tmp_path / ".unfinished-abc").mkdir(parents=True)
    (tmp_path / ".unfinished-abc" / "model.safetensors").write_bytes(b"half")

    folder = write(tmp_path)

    assert folder.newest() is None
    assert not any(tmp_path.iterdir())


def test_full_disk_names_the_path_and_leaves_no_litter(tmp_path):
    folder = write(tmp_path, 1)

    def fill(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(
        CheckpointError,
        match=r"cannot write checkpoints to .*step-00000002: No space left on device",
    ):
        folder.write(ResumePoint(version=2), save_model=fill, optimizer=OPTIMIZER)

    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(CheckpointError, match=r"cannot write checkpoints to .*file/here"):
        CheckpointFolder(tmp_path / "file" / "here", keep_last=1).prepare()


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
