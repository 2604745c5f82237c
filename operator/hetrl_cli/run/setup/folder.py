"""The folder of a run: its files, how a run claims it, and how a run resumes.

``OUT/run.json`` identifies the run. A run never writes into the folder of another: the state
inside would make it skip work that it has not done.
"""

import json
import uuid
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from hetrl_core.launch import JobIdentity
from hetrl_ownership.owned_folder import OWNER_FOLDER, OwnedFolder


class _Inside:
    """A file or folder of a run."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: "RunFolder", _owner: type["RunFolder"]) -> Path:
        return folder.path / self._name


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """The folders and files of one run."""

    path: Path

    identity_file = _Inside("run.json")
    """Which run this is."""

    job_file = _Inside("job.yaml")
    """The job as it was given, for later reference."""

    plan_file = _Inside("plan.json")
    """The plan, for the report and for people."""

    picture_file = _Inside("plan.svg")
    """The plan as a picture, where it could be drawn."""

    end_file = _Inside("end.json")
    """How long the run took, and what had to be restarted."""

    targets_file = _Inside("targets.json")
    """Where the processes show what they measure, as Prometheus' `file_sd_configs` read it."""

    metrics_file = _Inside("metrics.jsonl")
    """What they measured, for `hetrl dashboard`."""

    contracts = _Inside("launch")
    """Launch contracts, one a process."""

    logs = _Inside("logs")
    """What the processes say, one file a process."""

    tls = _Inside("tls")
    """The run's own authority and certificates."""

    checkpoints = _Inside("checkpoints")
    """Weights and optimizer state, where the job names no other place."""

    def state(self, process: str) -> Path:
        """Return the directory that a process may write."""
        return self.path / "state" / process

    def identity(self) -> JobIdentity:
        """Read which run this is.

        Raises:
            OSError: there is none.
            ValueError: the file is not one of ours.
            TypeError: it lacks something.
        """
        return JobIdentity(**json.loads(self.identity_file.read_text()))

    def make(self) -> None:
        """Make the folders that are missing."""
        for each in (self.contracts, self.logs, self.tls, self.checkpoints):
            each.mkdir(parents=True, exist_ok=True)
        self.tls.chmod(0o700)


def next_folder(root: Path, job: str) -> RunFolder:
    """Return the first folder ``<job>-<n>`` that no run has used."""
    return next(
        RunFolder(path=path) for n in count(1) if not (path := root / f"{job}-{n}").exists()
    )


def newest_folder(root: Path, job: str) -> RunFolder | None:
    """Return the last folder that a run of the job has used; None where there is none."""
    numbers = [
        int(number)
        for path in root.glob(f"{job}-*")
        if (number := path.name.removeprefix(f"{job}-")).isdecimal()
        and (path / "run.json").exists()
    ]
    return RunFolder(path=root / f"{job}-{max(numbers)}") if numbers else None


def take(folder: RunFolder, *, resumed: bool) -> OwnedFolder:
    """Own a folder, for a run that is resumed or one that starts from nothing.

    Raises:
        InUseError: another process runs there; nothing has changed.
        ValueError: there is no run to resume, or the folder holds something already.
    """
    if resumed:
        _identified(folder)
    else:
        _expect_empty(folder)
    return OwnedFolder.take(folder.path)


def begin(folder: RunFolder, *, namespace: str, name: str) -> JobIdentity:
    """Claim a folder for a run that starts from nothing.

    Raises:
        ValueError: the folder holds something already.
    """
    _expect_empty(folder)
    identity = JobIdentity(namespace=namespace, name=name, uid=str(uuid.uuid4()))
    folder.make()
    _write_identity(folder, identity)
    return identity


def record_of(root: Path, job: JobIdentity) -> RunFolder:
    """Return the folder in which a job of a cluster is recorded: the same one every time."""
    folder = RunFolder(path=root / f"{job.name}-of-{job.namespace}-{job.uid[:8]}")
    folder.path.mkdir(parents=True, exist_ok=True)
    _write_identity(folder, job)
    return folder


def resume(folder: RunFolder, *, namespace: str, name: str) -> JobIdentity:
    """Resume the run of a folder.

    Raises:
        ValueError: the folder holds no run, or one of another job.
    """
    identity = _identified(folder)
    if (identity.namespace, identity.name) != (namespace, name):
        raise ValueError(
            f"{folder.path} holds a run of {identity.namespace}/{identity.name}, "
            f"not of {namespace}/{name}"
        )
    folder.make()
    return identity


def _identified(folder: RunFolder) -> JobIdentity:
    try:
        return folder.identity()
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{folder.path} holds no run that could be resumed") from error


def _expect_empty(folder: RunFolder) -> None:
    if folder.path.exists() and {each.name for each in folder.path.iterdir()} - {OWNER_FOLDER}:
        raise ValueError(
            f"{folder.path} is not empty: continue its run with --resume, or choose another --out"
        )


def _write_identity(folder: RunFolder, job: JobIdentity) -> None:
    folder.identity_file.write_text(json.dumps(asdict(job), indent=1))
