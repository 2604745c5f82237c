"""``hetrl demo`` from an earlier one's model; from nothing, `make demo` and the walk run it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hetrl_cli.demo import CLAIM
from hetrl_runtime.tiny.dataset import write_dataset
from hetrl_runtime.tiny.model import make_model
from hetrl_runtime.tiny.task import Split
from hetrl_runtime.tiny.warm_up import WarmUp
from tests.repo.documented_commands import ROOT

HETRL = Path(sys.executable).with_name("hetrl")


def demo(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [HETRL, "demo", *arguments], check=False, capture_output=True, text=True, timeout=300
    )


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    claim = tmp_path / "earlier" / CLAIM
    make_model(claim / "model", seed=1, schedule=WarmUp(steps=5))
    write_dataset(claim / "train.jsonl", count=50, seed=1, split=Split.TRAIN)
    write_dataset(claim / "held-out.jsonl", count=20, seed=1, split=Split.HELD_OUT)
    return claim.parent


@pytest.mark.slow
def test_demos_begin_at_the_same_model_on_request(earlier: Path, tmp_path: Path) -> None:
    job = yaml.safe_load((ROOT / "examples" / "arithmetic.yaml").read_text())
    job["spec"]["training"] |= {"steps": 2, "checkpointEverySteps": 2}
    job["spec"]["algorithm"] |= {"globalBatchSize": 16, "groupSize": 2}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))

    done = demo("--job", tmp_path / "job.yaml", "--from", earlier, "--out", tmp_path / "later")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "warmed up" not in done.stdout
    begun = (earlier / CLAIM / "model" / "model.safetensors").read_bytes()
    assert (tmp_path / "later" / CLAIM / "model" / "model.safetensors").read_bytes() == begun
    result = json.loads((tmp_path / "later" / "result.json").read_text())
    assert result["outcome"] == "Succeeded"


@pytest.mark.slow
def test_folder_without_a_demo_is_not_begun_at(earlier: Path, tmp_path: Path) -> None:
    no_demo = demo("--from", tmp_path, "--out", tmp_path / "later")
    itself = demo("--from", earlier, "--out", earlier)

    assert no_demo.returncode == itself.returncode == 2
    assert f"no demo is there, it has no folder {CLAIM}" in no_demo.stderr
    assert "is what --out replaces" in itself.stderr
    assert (earlier / CLAIM / "train.jsonl").exists()
