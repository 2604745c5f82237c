"""``hetrl evaluate`` against a plain greedy ``generate`` of the library, problem by problem."""

import json
import math
import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch
from click.testing import CliRunner
from transformers import AutoModelForCausalLM, AutoTokenizer

from hetrl_runtime.evaluate.command import command
from hetrl_runtime.reward.mathematics import score
from hetrl_runtime.tiny.dataset import write_dataset
from hetrl_runtime.tiny.model import make_model
from hetrl_runtime.tiny.task import Split
from hetrl_runtime.tiny.warm_up import WarmUp

pytestmark = pytest.mark.slow

NUM_PROBLEMS = 60


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("models") / "tiny"
    make_model(folder, seed=1, schedule=WarmUp(steps=150, careless_share=0.3))
    return folder


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file: Path = tmp_path_factory.mktemp("data") / "held-out.jsonl"
    write_dataset(file, count=NUM_PROBLEMS, seed=1, split=Split.HELD_OUT)
    return file


def evaluate(*arguments: object) -> dict[str, float]:
    result = CliRunner().invoke(command, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    measured: dict[str, float] = json.loads(result.stdout)
    return measured


def rewards_of_the_library(model: Path, problems: Path) -> list[float]:
    tokenizer = AutoTokenizer.from_pretrained(model)
    policy = AutoModelForCausalLM.from_pretrained(model).eval()
    rewards = []
    for line in problems.read_text().splitlines():
        problem = json.loads(line)
        prompt = torch.tensor([tokenizer.encode(problem["question"])])
        output = policy.generate(
            prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=8
        )
        response = tokenizer.decode(output[0, prompt.shape[1] :], skip_special_tokens=True)
        rewards.append(score(response, problem["answer"]))
    return rewards


def test_accuracy_is_that_of_greedy_decoding_one_by_one(model: Path, problems: Path) -> None:
    expected = rewards_of_the_library(model, problems)

    measured = evaluate(
        "--model", model, "--data", problems, "--batch-size", 7, "--max-response-tokens", 8
    )

    assert measured["correct"] == sum(expected)
    assert measured["accuracy"] == sum(expected) / NUM_PROBLEMS
    assert measured["count"] == NUM_PROBLEMS


def test_limit_takes_the_first_problems(model: Path, problems: Path) -> None:
    measured = evaluate(
        "--model", model, "--data", problems, "--limit", 10, "--max-response-tokens", 8
    )

    assert measured["count"] == 10
    assert measured["correct"] == sum(rewards_of_the_library(model, problems)[:10])


def test_problems_that_are_too_long_count_as_not_solved(model: Path, problems: Path) -> None:
    measured = evaluate("--model", model, "--data", problems, "--max-prompt-tokens", 3)

    assert (measured["accuracy"], measured["too_long"]) == (0.0, NUM_PROBLEMS)


def test_problem_with_an_unknown_token_counts_as_not_solved(model: Path, tmp_path: Path) -> None:
    longer = shutil.copytree(model, tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(longer)
    tokenizer.add_tokens([f"<x{number}>" for number in range(128)])
    tokenizer.save_pretrained(longer)
    problems = tmp_path / "problems.jsonl"
    rows = [{"question": f"1+1{end}?", "answer": "2"} for end in ("", "<x127>")]
    problems.write_text("\n".join(map(json.dumps, rows)))

    measured = evaluate("--model", longer, "--data", problems, "--max-response-tokens", 8)

    assert (measured["count"], measured["unknown_token"], measured["too_long"]) == (2, 1, 0)


def test_checkpoint_that_is_not_finite_is_refused(
    model: Path, problems: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "step-00000005"
    shutil.copytree(model, bad)
    tensors = safetensors.torch.load_file(bad / "model.safetensors")
    name = sorted(tensors)[2]
    tensors[name].view(-1)[0] = math.nan
    safetensors.torch.save_file(tensors, bad / "model.safetensors", metadata={"format": "pt"})

    result = CliRunner().invoke(command, ["--model", str(bad), "--data", str(problems)])

    assert result.exit_code == 1
    said = f"model {bad} holds values that are not finite: tensor {name} of model.safetensors;"
    assert said in result.stderr


def test_malformed_line_is_named(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text('{"question": "1+5=", "answer": "#### 6"}\n{"question": "1+6="}\n')

    result = CliRunner().invoke(command, ["--model", str(model), "--data", str(file)])

    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {file}:2: has no 'answer'; its fields are question:")


def test_unknown_verifier_is_named(model: Path, problems: Path) -> None:
    arguments = ["--model", str(model), "--data", str(problems), "--reward", "vibes"]

    result = CliRunner().invoke(command, arguments)

    assert result.exit_code == 1
    known = "exact, math, model, python, regex"
    assert f"data.reward must be one of {known}, got 'vibes'" in result.stderr
