"""Warmed-up models that tests share: each is made once for all workers of a test run.

A warm-up of 200 steps takes ten seconds of a processor, and a module whose tests go to several
workers would pay for one in each of them.
"""

import os
import shutil
from hashlib import sha256
from pathlib import Path

import pytest
from filelock import FileLock

from hetrl_runtime.tiny.model import make_model
from hetrl_runtime.tiny.task import Task
from hetrl_runtime.tiny.warm_up import WarmUp


def copy_warm_model(
    to: Path,
    factory: pytest.TempPathFactory,
    *,
    schedule: WarmUp,
    seed: int = 1,
    task: Task = Task.ARITHMETIC,
) -> Path:
    """Copy a model that a test of this run may have made already; return its folder."""
    digest = sha256(f"{seed} {task} {schedule}".encode()).hexdigest()[:16]
    made = _shared_folder(factory) / "warm-models" / digest
    made.parent.mkdir(exist_ok=True)
    with FileLock(made.with_suffix(".lock")):
        if not made.exists():
            make_model(made, seed=seed, task=task, schedule=schedule)
    shutil.copytree(made, to)
    return to


def _shared_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all workers of this test run see."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
