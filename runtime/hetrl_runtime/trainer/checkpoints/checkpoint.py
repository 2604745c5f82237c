"""Checkpoints on disk: whole or not there, newest last, as folders that any engine loads.

``<root>/step-00000040/`` is a Hugging Face folder of the policy, with the optimizer's
state, the run's position in the data, and a manifest of sizes and digests. It is written under
another name, flushed, and renamed, so a crash leaves no half of it. The loop decides when to write
one; ``writer`` writes it in the background.
"""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from torch import Tensor

from hetrl_core.job.identity import Identity
from hetrl_ownership.owned_folder import InUseError, OwnedFolder, owner_of
from hetrl_runtime.compute.finite import first_not_finite
from hetrl_runtime.process.faults import Point, passing
from hetrl_runtime.trainer.checkpoints import identity
from hetrl_runtime.wire.values import ResumePoint

_NAME = re.compile(r"step-(\d{8,})")
_UNFINISHED = ".unfinished-"
_MANIFEST, _OPTIMIZER, _RESUME = "manifest.json", "optimizer.safetensors", "resume.json"
IDENTITY = "identity.json"
WEIGHTS = "model.safetensors"

TAKEOVER_SECONDS = 120.0
"""How long an earlier process of the same run may hold a folder: its last checkpoint is on its way,
or an NFS server does not know yet that its machine is gone (90 s)."""


class CheckpointError(Exception):
    """A checkpoint cannot be written, or must not be used; the message names it and says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """What a whole checkpoint's file looks like."""

    size_bytes: int
    sha256: str


_FILES = TypeAdapter(dict[str, File])


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One that was read and found whole."""

    path: Path
    resume: ResumePoint
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]


class CheckpointFolder:
    """The checkpoints of one run. Only the process that has taken the folder may write here."""

    def __init__(self, root: Path, *, keep_last: int) -> None:
        self.root = root
        self.identity: Identity = {}
        """What the checkpoints that are written are of."""

        self._keep_last = keep_last
        self._owned: OwnedFolder | None = None

    def take(self, run: str) -> None:
        """Own the folder from now on; wait for an earlier process of this run to end.

        Raises:
            CheckpointError: another run uses it, or it cannot be written.
            InUseError: an earlier process of this run did not end in time; a later one may have.
        """
        try:
            self._owned = OwnedFolder.take(self.root, run=run, wait_seconds=TAKEOVER_SECONDS)
        except InUseError as error:
            owner = owner_of(self.root)
            if owner and owner.run == run:
                raise
            raise CheckpointError(str(error)) from error
        except OSError as error:
            reason = error.strerror or error
            raise CheckpointError(f"cannot write checkpoints to {self.root}: {reason}") from error

    def close(self) -> None:
        """Leave the folder to others."""
        if self._owned:
            self._owned.close()

    def prepare(self) -> None:
        """Make the folder, and clear away what a crash left unfinished.

        Raises:
            CheckpointError: nothing can be written there.
        """
        with _naming(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            for leftover in self.root.glob(f"{_UNFINISHED}*"):
                shutil.rmtree(leftover)
            with tempfile.TemporaryFile(dir=self.root):
                pass

    def write(
        self,
        resume: ResumePoint,
        *,
        save_model: Callable[[Path], None],
        optimizer: dict[str, Tensor],
    ) -> Path:
        """Write the checkpoint of a version, then remove the oldest beyond ``keep_last``.

        A checkpoint that is there already is left as it is.

        Raises:
            CheckpointError: it cannot be written, as the disk is full or not ours, or it holds
                values that are not finite.
        """
        path = self.root / f"step-{resume.version:08d}"
        if path.exists():
            return path
        if name := first_not_finite(optimizer):
            raise CheckpointError(f"checkpoint {path} is not written: {name} is not finite")
        with _naming(path):
            if self._owned:
                self._owned.check()
            unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self.root))
            try:
                passing(Point.CHECKPOINT_BEGUN)
                save_model(unfinished)
                passing(Point.CHECKPOINT_MODEL_WRITTEN)
                safetensors.torch.save_file(optimizer, unfinished / _OPTIMIZER)
                (unfinished / _RESUME).write_text(resume.to_json())
                if self.identity:
                    (unfinished / IDENTITY).write_bytes(identity.to_json(self.identity))
                (unfinished / _MANIFEST).write_bytes(_FILES.dump_json(_described(unfinished)))
                passing(Point.CHECKPOINT_WRITTEN)
                _flush(unfinished)
                passing(Point.CHECKPOINT_FLUSHED)
                unfinished.rename(path)
                passing(Point.CHECKPOINT_RENAMED)
                _flush_folder(self.root)
            except BaseException:
                shutil.rmtree(unfinished, ignore_errors=True)
                raise
            for old in self._steps()[: -self._keep_last or None]:
                shutil.rmtree(old)
        return path

    def newest_path(self) -> Path | None:
        """Return where the newest checkpoint is; None where there is none yet."""
        steps = self._steps()
        return steps[-1] if steps else None

    def newest(self) -> Checkpoint | None:
        """Read the newest checkpoint; None where there is none yet.

        Raises:
            CheckpointError: it is damaged. An older one is not taken in its place: that
                would undo work behind the user's back. Removing the folder says so.
        """
        path = self.newest_path()
        return read(path) if path else None

    def _steps(self) -> list[Path]:
        if not self.root.is_dir():
            return []
        found = [path for path in self.root.iterdir() if _NAME.fullmatch(path.name)]
        return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def read(path: Path) -> Checkpoint:
    """Read one checkpoint after checking every file of it.

    Raises:
        CheckpointError: a file is missing, its content is not what was written, or is not finite.
    """
    try:
        described = _FILES.validate_json((path / _MANIFEST).read_bytes())
        for name, file in described.items():
            if _describe(path / name) != file:
                raise CheckpointError(f"checkpoint {path} is damaged: {name} has changed")
        return Checkpoint(
            path=path,
            resume=ResumePoint.from_json((path / _RESUME).read_text()),
            weights=_finite_tensors(path / WEIGHTS),
            optimizer=_finite_tensors(path / _OPTIMIZER),
        )
    except (OSError, ValidationError, SafetensorError) as error:
        raise CheckpointError(
            f"checkpoint {path} is damaged: {error}; remove it to go on from the one before"
        ) from error


def _finite_tensors(file: Path) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = safetensors.torch.load_file(file)
    if name := first_not_finite(tensors):
        raise CheckpointError(
            f"checkpoint {file.parent} holds values that are not finite: tensor {name} of "
            f"{file.name}; remove it to go on from the one before"
        )
    return tensors


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn an error of the disk, safetensors' own included, into one that names ``path``."""
    try:
        yield
    except InUseError as error:
        raise CheckpointError(str(error)) from error
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise CheckpointError(f"cannot write checkpoints to {path}: {reason}") from error


def _described(folder: Path) -> dict[str, File]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): _describe(path) for path in files}


def _describe(path: Path) -> File:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    return File(size_bytes=path.stat().st_size, sha256=digest.hexdigest())


def _flush(folder: Path) -> None:
    # Else a power loss after the rename could leave a folder of empty files. Temporary
    # folders and safetensors files begin as their owner's alone; others may evaluate them.
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    folder.chmod(0o755)
    _flush_folder(folder)


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
