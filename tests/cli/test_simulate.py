"""``hetrl simulate``, asked as a person and as a program would."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from hetrl_cli.main import hetrl

PIPELINE: dict[str, Any] = {
    "concurrency": 64,
    "replicas": 4,
    "globalBatchSize": 32,
    "groupSize": 4,
    "maxStaleness": 2,
    "rateRatio": 1.5,
    "trainStepSeconds": 10,
    "responseTokens": {"lognormal": {"mean": 200, "p95": 500, "max": 800}},
    "steps": 30,
}

FLEET = """
apiVersion: hetrl.dev/v1alpha1
kind: HetRLTopology
metadata: {name: small}
spec:
  pools:
    - {name: a100, gpuKind: A100-80GB, machines: 1, gpusPerMachine: 3}
"""

JOB: dict[str, Any] = {
    "apiVersion": "hetrl.dev/v1alpha1",
    "kind": "HetRLJob",
    "metadata": {"name": "math"},
    "spec": {
        "model": {
            "source": {"hub": "Qwen/Qwen3-0.6B"},
            "architecture": {
                "hiddenSize": 1024,
                "layers": 28,
                "queryHeads": 16,
                "kvHeads": 8,
                "headDim": 128,
                "ffnSize": 3072,
                "vocabSize": 151936,
                "tiedEmbeddings": True,
                "queryKeyNorm": True,
            },
        },
        "data": {"prompts": {"path": "train.jsonl"}},
        "algorithm": {"globalBatchSize": 64},
        "training": {"steps": 12},
        "planning": {"timeBudgetSeconds": 600},
    },
}


def ask(*arguments: object) -> Result:
    return CliRunner().invoke(hetrl, ["simulate", *map(str, arguments)])


def written(folder: Path, name: str, document: object) -> Path:
    path = folder / name
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return path


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    return written(tmp_path, "pipeline.yaml", PIPELINE)


def test_person_reads_pace_waits_staleness_and_losses(pipeline: Path) -> None:
    result = ask("-p", pipeline)
    assert result.exit_code == 0, result.output
    for said in ("samples/s", "trainer", "rollouts", "idle", "bound 2", "granted", "too old"):
        assert said in result.output, said
    assert "\x1b" not in result.output


def test_program_reads_the_same_figures_for_the_same_seed(pipeline: Path) -> None:
    first, second, other = (
        ask("-p", pipeline, "-o", "json", "--seed", seed).stdout for seed in (3, 3, 4)
    )
    assert first == second != other
    found = json.loads(first)
    assert found["endedBy"] == "steps"
    assert found["steps"] == 30
    assert sum(found["staleness"]["histogram"]) == found["measuredSteps"] * 32
    assert len(found["timeline"]) == 30
    work = found["work"]
    assert work["granted"] == (
        work["consumed"] + work["discarded"] + work["buffered"] + work["running"]
    )


def test_steps_and_warm_up_can_be_given(pipeline: Path) -> None:
    found = json.loads(ask("-p", pipeline, "-o", "json", "--steps", 9, "--warmup-steps", 2).stdout)
    assert (found["steps"], found["measuredSteps"]) == (9, 7)


@pytest.mark.slow
def test_job_and_its_plan_file_are_simulated(tmp_path: Path) -> None:
    fleet, job = written(tmp_path, "fleet.yaml", FLEET), written(tmp_path, "job.yaml", JOB)
    planned = CliRunner().invoke(hetrl, ["plan", "-f", str(job), "-t", str(fleet), "-o", "json"])
    plan = written(tmp_path, "plan.json", planned.stdout)

    made = ask("-f", job, "-t", fleet, "-o", "json")
    read = ask("-f", job, "-t", fleet, "--plan", plan, "-o", "json")

    assert made.exit_code == read.exit_code == 0, made.output + read.output
    found = json.loads(made.stdout)
    # A plan's object has fewer digits of what was predicted; all that was played is the same.
    predicted = found["predictedStepSeconds"]
    assert json.loads(read.stdout) == {
        **found,
        "predictedStepSeconds": pytest.approx(predicted, rel=1e-4),
    }
    assert found["steps"] == 12
    assert predicted == pytest.approx(
        json.loads(planned.stdout)["spec"]["prediction"]["stepSeconds"], rel=1e-4
    )
    assert found["dollars"]["gpus"] > 0


@pytest.mark.slow
def test_fleet_that_ships_can_be_named(tmp_path: Path) -> None:
    quickly = {**JOB["spec"], "planning": {"strategy": "Homogeneous"}}
    job = written(tmp_path, "job.yaml", {**JOB, "spec": quickly})
    named = ask("-f", job, "-t", "preset:single-region", "-o", "json", "--steps", 3)
    assert named.exit_code == 0, named.output
    unknown = ask("-f", job, "-t", "preset:moon")
    assert unknown.exit_code == 1
    assert "unknown preset 'moon'; there are single-region" in unknown.output


def test_job_without_a_plan_says_why(tmp_path: Path) -> None:
    fleet = written(tmp_path, "fleet.yaml", FLEET)
    job = {**JOB, "spec": {**JOB["spec"], "resources": {"budgetPerHour": 0.5}}}
    result = ask("-f", written(tmp_path, "job.yaml", job), "-t", fleet)
    assert result.exit_code == 2
    assert "no plan" in result.stderr


def test_picture_is_drawn(pipeline: Path, tmp_path: Path) -> None:
    picture = tmp_path / "run.png"
    result = ask("-p", pipeline, "--plot", picture)
    assert result.exit_code == 0, result.output
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_picture_without_matplotlib_names_the_extra(
    pipeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "hetrl_cli.simulate.plot", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = ask("-p", pipeline, "--plot", tmp_path / "run.png")
    assert result.exit_code == 1
    assert "report extra" in result.stderr


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"maxStaleness": -1}, "maxStaleness must be >= 0, got -1", id="bound"),
        pytest.param({"rateRatio": 0}, "rateRatio must be > 0.0, got 0", id="ratio"),
        pytest.param({"rateRatio": -3}, "rateRatio must be > 0.0, got -3", id="negative rate"),
        pytest.param(
            {"globalBatchSize": 30},
            "globalBatchSize (30) must be a multiple of groupSize (4)",
            id="broken groups",
        ),
        pytest.param(
            {"concurrency": 63},
            "concurrency (63) must be a multiple of replicas (4)",
            id="uneven replicas",
        ),
        pytest.param(
            {"responseTokens": {"constant": 0}},
            "responseTokens.constant must be >= 1, got 0",
            id="zero length",
        ),
        pytest.param(
            {"responseTokens": {"constant": 5, "uniform": {"min": 1, "max": 2}}},
            "responseTokens must set exactly one of",
            id="two distributions",
        ),
        pytest.param({"responseTokens": {}}, "must set exactly one of", id="no distribution"),
        pytest.param(
            {"responseTokens": {"uniform": {"min": 9, "max": 2}}},
            "uniform.max must be >= min (9), got 2",
            id="range upside down",
        ),
        pytest.param(
            {"responseTokens": {"lognormal": {"mean": 100, "max": 50}}},
            "max must be >= the mean (100.0), got 50",
            id="cut below the mean",
        ),
        pytest.param(
            {"responseTokens": {"lognormal": {"mean": 10, "p95": 20, "cv": 1, "max": 50}}},
            "must set p95 or cv, not both",
            id="two spreads",
        ),
        pytest.param({"rateRation": 1}, "did you mean rateRatio?", id="misspelt"),
        pytest.param({"concurrency": None}, "concurrency must be a whole number", id="nothing"),
        pytest.param(
            {"failures": {"replicas": [{"replica": 9, "atSeconds": 1}]}},
            "replica must be one of the 4 of group 'rollouts', got 9",
            id="unknown replica",
        ),
        pytest.param({"warmupSteps": 30}, "warmupSteps must be < steps (30), got 30", id="warm-up"),
    ],
)
def test_wrong_pipeline_is_refused_in_one_line(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    result = ask("-p", written(tmp_path, "pipeline.yaml", PIPELINE | changes))
    assert result.exit_code == 1
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param([], "either --file with a job or --pipeline", id="neither"),
        pytest.param(["-p", "a", "-f", "b"], "either --file with a job or --pipeline", id="both"),
        pytest.param(["-p", "a", "-t", "b"], "--topology belongs to --file", id="fleet"),
        pytest.param(["-p", "a", "--plan", "b"], "--plan belongs to --file", id="plan"),
        pytest.param(["-p", "a", "--steps", "0"], "--steps", id="no steps"),
        pytest.param(["-p", "nowhere.yaml"], "cannot read nowhere.yaml", id="no file"),
    ],
)
def test_wrong_question_is_refused(arguments: list[str], said: str) -> None:
    result = ask(*arguments)
    assert result.exit_code != 0
    assert said in result.stderr


def test_example_is_simulated() -> None:
    example = Path(__file__).parents[2] / "examples/pipeline.yaml"
    found = json.loads(ask("-p", example, "-o", "json", "--steps", 12).stdout)
    assert found["endedBy"] == "steps"
    assert 0 < found["staleness"]["mean"] <= 4
