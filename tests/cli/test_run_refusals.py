"""Refusals of `hetrl run` before it starts or writes anything: one line, and no traceback."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from hetrl_cli.run.command import command
from tests.model_folders import TINY_QWEN3, write_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model without a tokenizer, and a problem: enough to be planned for, too little to run."""
    write_model(tmp_path / "model")
    (tmp_path / "train.jsonl").write_text('{"question": "1+1=", "answer": "2"}\n')
    return tmp_path


def a_job(**changes: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "model": {"source": {"path": "model"}},
        "data": {"prompts": {"path": "train.jsonl"}},
        "training": {"steps": 1},
        "runtime": {"engine": "transformers"},
    }
    return {
        "apiVersion": "hetrl.dev/v1alpha1",
        "kind": "HetRLJob",
        "metadata": {"name": "sums"},
        "spec": spec | changes,
    }


def refused(folder: Path, text: str, *options: str) -> str:
    """Return the one line with which a job is refused."""
    (folder / "job.yaml").write_text(text)
    out = folder / "out"

    result = CliRunner().invoke(command, [str(folder / "job.yaml"), "--out", str(out), *options])

    assert result.exit_code not in {0, None}
    assert not isinstance(result.exception, (ValueError, OSError)), result.exception
    assert not out.exists(), "something was written"
    return result.output.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"model": {"source": {"path": "absent"}}},
            r"spec.model.source: there is no .*/absent/config.json",
        ),
        (
            {"data": {"prompts": {"path": "absent.jsonl"}}},
            r"spec.data.prompts: there is no file .*/absent.jsonl",
        ),
        (
            {"data": {"prompts": {"path": "absent-*.parquet"}}},
            r"spec.data.prompts: there is no file .*/absent-\*.parquet",
        ),
        (
            {
                "data": {
                    "prompts": {"path": "train.jsonl"},
                    "reward": "python",
                    "python": {"source": {"path": "absent.py"}},
                }
            },
            r"spec.data.python.source: there is no file .*/absent.py",
        ),
        (
            {"data": {"prompts": {"claim": {"name": "gsm8k", "path": "train.jsonl"}}}},
            r"spec.data.prompts.claim: no folder stands for claim gsm8k here: give one with "
            r"--claim gsm8k=FOLDER",
        ),
        ({"training": {"steps": 0}}, r"spec.training.steps must be >= 1, got 0"),
        (
            {"algorithm": {"globalBatchSize": 100, "groupSize": 8}},
            r"spec.algorithm.globalBatchSize \(100\) must be a multiple of groupSize \(8\)",
        ),
        ({"trainning": {}}, r"spec.trainning is not a field: did you mean training\?"),
        (
            {"resources": {"maxGPUs": 1}, "rollout": {"replicas": 2}},
            r"the job fits nowhere: resources.maxGPUs is 1; the smallest plan found takes \d GPUs",
        ),
        ({"model": {"source": {"hub": "owner/name"}}}, r"the dimensions of model owner/name"),
        (
            {"failurePolicy": {"rules": [{"role": "trainer", "action": "Fail"}]}},
            r"spec.failurePolicy.rules are followed on a cluster only",
        ),
    ],
    ids=[
        "no model",
        "no data",
        "no shards",
        "no code",
        "no folder for a claim",
        "value below its limit",
        "values that do not fit together",
        "misspelt field",
        "fits nowhere",
        "unknown dimensions",
        "failure rules",
    ],
)
@pytest.mark.slow
def test_bad_job_is_refused_in_one_line_with_its_field(
    folder: Path, changes: dict[str, Any], said: str
) -> None:
    line = refused(folder, yaml.safe_dump(a_job(**changes)))

    assert line.startswith("Error: ")
    assert re.search(said, line), line


@pytest.mark.parametrize("text", ["", "{", "kind: Pod"], ids=["empty", "not YAML", "another kind"])
def test_file_that_is_no_job_is_refused(folder: Path, text: str) -> None:
    assert refused(folder, text).startswith("Error: ")


ARCHITECTURE = {
    "hiddenSize": 64,
    "layers": 2,
    "queryHeads": 4,
    "kvHeads": 2,
    "headDim": 16,
    "ffnSize": 128,
    "vocabSize": 128,
}


@pytest.mark.parametrize("has_dimensions", [False, True], ids=["none given", "dimensions given"])
def test_model_of_another_family_is_refused_by_its_path(folder: Path, has_dimensions: bool) -> None:
    write_model(folder / "model", TINY_QWEN3 | {"model_type": "bert"}, {})
    given = {"architecture": ARCHITECTURE} if has_dimensions else {}

    line = refused(folder, yaml.safe_dump(a_job(model={"source": {"path": "model"}, **given})))

    assert re.search(r"model /.*/model cannot be used: model_type must be .* got 'bert'", line)


def test_dimensions_that_contradict_the_models_config_are_refused(folder: Path) -> None:
    given = {"architecture": ARCHITECTURE | {"layers": 3, "tiedEmbeddings": True}}

    line = refused(folder, yaml.safe_dump(a_job(model={"source": {"path": "model"}, **given})))

    assert line.endswith(
        "/model (qwen3) is not what the job says: spec.model.architecture.layers is 3, and 2 by "
        "config.json; spec.model.architecture.tiedEmbeddings is true, and false by config.json"
    )


def test_model_without_weights_is_refused(folder: Path) -> None:
    (folder / "model/model.safetensors").unlink()

    assert "there are no weights" in refused(folder, yaml.safe_dump(a_job()))


def test_sequences_longer_than_the_context_are_refused(folder: Path) -> None:
    write_model(folder / "model", TINY_QWEN3 | {"max_position_embeddings": 16})
    data = {"prompts": {"path": "train.jsonl"}, "maxPromptTokens": 60, "maxResponseTokens": 40}

    line = refused(folder, yaml.safe_dump(a_job(data=data)))

    assert "data.maxPromptTokens (60) and data.maxResponseTokens (40) are 100 tokens" in line
    assert "16 positions (max_position_embeddings in config.json)" in line


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--claim", "gsm8k"), "'gsm8k' is not NAME=FOLDER"),
        (("--claim", "gsm8k=/absent"), "no folder /absent, to stand for claim gsm8k"),
        (("--resume",), "holds no run that could be resumed"),
        (("--seed", "-1"), "-1 is not in the range x>=0"),
    ],
    ids=["claim without a folder", "folder that is not there", "nothing to resume", "bad seed"],
)
@pytest.mark.slow
def test_bad_option_is_refused_by_its_value(
    folder: Path, options: tuple[str, ...], said: str
) -> None:
    assert said in refused(folder, yaml.safe_dump(a_job()), *options)
