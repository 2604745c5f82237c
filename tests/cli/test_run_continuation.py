"""`hetrl run` where another run has been: its folder, its data, its checkpoints."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hetrl_runtime.tiny.dataset import write_dataset
from hetrl_runtime.tiny.model import make_model
from hetrl_runtime.tiny.task import Split
from hetrl_runtime.tiny.warm_up import WarmUp
from tests.cli.running import TIMEOUT_SECONDS, Run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

SMALL: dict[str, Any] = {
    "data": {"reward": "regex", "regex": {"pattern": "[4-7]"}},
    "rollouts": 1,
    "gpus": 2,
    "every": 1,
    "globalBatchSize": 16,
    "rate": 1e-6,
}


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    """A folder with two models that are as good as random, and two files of problems."""
    folder = tmp_path / "claim"
    for name, seed in (("model", 1), ("other-model", 5)):
        make_model(folder / name, seed=seed, schedule=WarmUp(steps=2, batch_size=4))
    write_dataset(folder / "train.jsonl", count=50, seed=1, split=Split.TRAIN)
    write_dataset(folder / "other.jsonl", count=40, seed=2, split=Split.TRAIN)
    return folder


@pytest.fixture
def start(tmp_path: Path, claim: Path) -> Iterator[Callable[..., Run]]:
    """Start runs, each folder one of its own; none of them outlives the test."""
    runs: list[Run] = []

    def begin(folder: str, *options: str, **changes: Any) -> Run:
        (tmp_path / folder).mkdir(exist_ok=True)
        runs.append(Run(tmp_path / folder, claim, "--no-tls", *options, **(SMALL | changes)))
        return runs[-1]

    yield begin
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
            run.process.communicate(timeout=TIMEOUT_SECONDS)


def test_resumed_run_is_of_the_same_data_and_alone(start: Callable[..., Run], claim: Path) -> None:
    first = start("run", steps=1000)
    first.wait_for_step(3)
    code, said = start("run", "--resume", steps=1000).finish()

    assert code == 1
    assert f"{first.out} is in use by process {first.process.pid} of " in said

    first.process.send_signal(signal.SIGKILL)
    first.process.communicate(timeout=TIMEOUT_SECONDS)
    resumed = start("run", "--resume", steps=1000)
    resumed.wait_for_step(resumed.steps[-1]["step"] + 3)
    resumed.process.send_signal(signal.SIGINT)
    code, said = resumed.finish()

    assert code == 128 + signal.SIGINT, said
    assert resumed.pids() == []
    done = resumed.steps[-1]["step"]

    (claim / "train.jsonl").write_text((claim / "other.jsonl").read_text())
    code, said = start("run", "--resume", steps=done + 2).finish()

    assert code == 1
    assert f"spec.data.prompts has changed: recorded {claim}/train.jsonl (sha256 " in said
    assert "--allow-change data" in said
    assert resumed.steps[-1]["step"] == done

    code, said = start("run", "--resume", "--allow-change", "data", steps=done + 2).finish()

    assert code == 0, said
    assert resumed.steps[-1]["step"] == done + 2

    code, said = start("run", "--resume", steps=done + 2).finish()

    assert code == 0, said
    assert f"{first.out} is finished: {done + 2} steps are done" in said

    code, said = start("run", "--resume", steps=done + 4).finish()

    assert code == 0, said
    assert resumed.steps[-1]["step"] == done + 4
    assert len({each["step"] for each in resumed.steps}) == done + 4


def test_job_of_the_same_name_is_of_the_same_model(
    start: Callable[..., Run], claim: Path, tmp_path: Path
) -> None:
    (tmp_path / "kept").mkdir()
    kept = ("--claim", f"kept={tmp_path / 'kept'}")
    storage = {"checkpoints": {"persistentVolumeClaim": "kept"}}
    first = start("first", *kept, storage=storage, steps=1000)
    first.wait_for_step(2)
    root = tmp_path / "kept/sums"
    other = {"model": "other-model", "prompts": "other.jsonl", "rate": 1e-3, "storage": storage}

    code, said = start("second", *kept, **other, steps=6).finish()

    assert code == 1
    assert f"{root} is in use by process " in said

    first.process.send_signal(signal.SIGINT)
    first.finish()
    before = sorted(path.name for path in root.glob("step-*"))
    code, said = start("third", *kept, **other, steps=2).finish()

    assert code == 1
    assert f"checkpoint {root / before[-1]} is of another run: " in said
    assert f"spec.model.source has changed: recorded {claim}/model (sha256 " in said
    assert f"now {claim}/other-model (sha256 " in said
    assert sorted(path.name for path in root.glob("step-*")) == before

    steps = int(before[-1].removeprefix("step-")) + 1
    allowed = ("--allow-change", "model", "--allow-change", "data")
    code, said = start("fourth", *kept, *allowed, **other, steps=steps).finish()

    assert code == 0, said
    recorded = json.loads((root / f"step-{steps:08d}" / "identity.json").read_text())
    assert recorded["Model"]["name"] == f"{claim}/other-model"
    assert recorded["Data"]["name"] == f"{claim}/other.jsonl"
