"""A model that cannot be used: the same words from everything that loads it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

from hetrl_core.job.spec import ModelFiles
from hetrl_core.model.context import Lengths
from hetrl_runtime.evaluate.command import command
from hetrl_runtime.model_files.errors import ModelError
from hetrl_runtime.rollout.engine import EngineSettings
from hetrl_runtime.rollout.engines.transformers import TransformersEngine
from hetrl_runtime.trainer.critic import ValueModel
from hetrl_runtime.trainer.model.model import Policy
from tests.runtime.rollout.models import EOS, save_tiny_qwen3

CPU = torch.device("cpu")
LENGTHS = Lengths(1000, 1000)


def policy(folder: Path) -> str:
    with pytest.raises(ModelError) as caught:
        Policy(ModelFiles(source=str(folder)), device=CPU, temperature=1.0, lengths=LENGTHS)
    return str(caught.value)


def critic(folder: Path) -> str:
    with pytest.raises(ModelError) as caught:
        ValueModel(ModelFiles(source=str(folder)), device=CPU, lengths=LENGTHS)
    return str(caught.value)


async def engine(folder: Path) -> str:
    settings = EngineSettings(
        model=str(folder),
        concurrency=1,
        max_sequence_tokens=2000,
        lengths=LENGTHS,
        stop_tokens=(EOS,),
    )
    with pytest.raises(ModelError) as caught:
        await TransformersEngine(settings).start()
    return str(caught.value)


def configured(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | changes))

    return change


def untied(folder: Path) -> None:
    """Write a head of its own beside the embedding that is to be both."""
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"] + 1
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        pytest.param(
            configured(tie_word_embeddings=False), "the weights lack lm_head.weight", id="no head"
        ),
        pytest.param(configured(model_type="olmoe"), "got 'olmoe'", id="another family"),
        pytest.param(
            configured(quantization_config={"quant_method": "awq"}), "(awq)", id="quantised"
        ),
        pytest.param(
            configured(max_position_embeddings=1999),
            "are 2000 tokens together, and the model has 1999 positions",
            id="short context",
        ),
        pytest.param(untied, "not model.embed_tokens.weight", id="two matrices where one is said"),
    ],
)
@pytest.mark.slow
async def test_broken_model_is_refused_in_the_same_words(
    tmp_path: Path, harm: Callable[[Path], None], reason: str
) -> None:
    harm(folder := save_tiny_qwen3(tmp_path / "model"))

    words = policy(folder)

    assert str(folder) in words
    assert reason in words
    assert critic(folder) == await engine(folder) == words


@pytest.mark.slow
def test_evaluation_of_a_broken_model_ends_with_its_words(tmp_path: Path) -> None:
    configured(num_hidden_layers=3, layer_types=["full_attention"] * 3)(
        folder := save_tiny_qwen3(tmp_path / "model")
    )
    problems = tmp_path / "problems.jsonl"
    problems.write_text('{"question": "1+1=", "answer": "2"}\n')

    result = CliRunner().invoke(command, ["--model", str(folder), "--data", str(problems)])

    assert result.exit_code == 1
    assert result.output.startswith(
        f"Error: model {folder} cannot be used: the weights lack model."
    )
