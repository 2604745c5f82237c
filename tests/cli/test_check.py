"""``hetrl check``: the preflight of a job on this machine, in a process as a pod runs it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from hetrl_cli.preflight.check import command
from hetrl_cli.preflight.prompt import command as prompt
from hetrl_runtime.tiny.tokenizer import make_tokenizer
from tests.model_folders import write_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A claim with a model and a problem."""
    make_tokenizer(max_tokens=2048).save_pretrained(write_model(tmp_path / "model"))
    (tmp_path / "train.jsonl").write_text('{"question": "1+1=", "answer": "2"}\n')
    return tmp_path


def a_job(**data: Any) -> dict[str, Any]:
    def source(path: str) -> dict[str, Any]:
        return {"claim": {"name": "sums", "path": path}}

    lengths = {"maxPromptTokens": 64, "maxResponseTokens": 64}
    return {
        "apiVersion": "hetrl.dev/v1alpha1",
        "kind": "HetRLJob",
        "metadata": {"name": "sums"},
        "spec": {
            "model": {"source": source("model")},
            "data": {"prompts": source("train.jsonl"), **lengths, **data},
            "training": {"steps": 1},
        },
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "code", "said"),
    [
        pytest.param({}, 0, "sums: models, data and reward are as they must be", id="passes"),
        pytest.param({"reward": "maths"}, 1, "RewardInvalid: data.reward must be", id="fails"),
    ],
)
def test_check_prints_the_result_of_a_preflight(
    folder: Path, data: dict[str, Any], code: int, said: str
) -> None:
    (folder / "job.yaml").write_text(yaml.safe_dump(a_job(**data)))

    result = CliRunner().invoke(
        command, ["-f", str(folder / "job.yaml"), "--claim", f"sums={folder}"]
    )

    assert result.exit_code == code, result.output
    assert said in result.output


@pytest.mark.slow
def test_prompt_prints_text_tokens_and_reference(folder: Path) -> None:
    rows = [{"question": "1+1=", "answer": "2"}, {"question": "2+2=", "answer": "#### 4"}]
    (folder / "train.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    job = folder / "job.yaml"
    job.write_text(yaml.safe_dump(a_job(promptTemplate="Q: {question}", maxPromptTokens=6)))
    asked = ["-f", str(job), "--claim", f"sums={folder}"]

    second = CliRunner().invoke(prompt, [*asked, "--row", "2"])
    both = CliRunner().invoke(prompt, [*asked, "--count", "5", "--json"])
    third = CliRunner().invoke(prompt, [*asked, "--row", "3"])

    assert second.output == (
        "--- line 2: 7 tokens, which cannot be used: the prompt has 7 tokens, data.maxPromptTokens "
        "is 6\nQ: 2+2=\n--- reference\n#### 4\n"
    )
    assert [json.loads(line)["text"] for line in both.output.splitlines()] == ["Q: 1+1=", "Q: 2+2="]
    assert (third.exit_code, "the data have 2 prompts, and no prompt 3" in third.output) == (
        1,
        True,
    )
