"""A reward model says of each response what the library says of it alone."""

import math
from pathlib import Path

import pytest
import safetensors.torch
import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen3ForSequenceClassification

from hetrl_core.job.spec import ModelFiles
from hetrl_runtime.inference.reward_model import RewardModel
from hetrl_runtime.model_files.errors import ModelError
from hetrl_runtime.tiny.tokenizer import make_tokenizer
from tests.runtime.inference.models import save_reward_model

CPU = torch.device("cpu")
TEMPLATE = "{% for each in messages %}({{ each.content }}){% endfor %}"


def a_reward_model(folder: Path) -> RewardModel:
    return RewardModel(ModelFiles(source=str(folder)), device=CPU)


def alone(folder: Path, tokens: tuple[int, ...]) -> float:
    """Say as the library does, without neighbours or padding."""
    model = Qwen3ForSequenceClassification.from_pretrained(folder).eval()
    # Else it would look for the last token that is not padding.
    model.config.pad_token_id = None
    with torch.inference_mode():
        return float(model(torch.tensor([tokens])).logits[0, 0])


QUESTIONS = [("1+1=", "2"), ("12+30=", "42, or 41, or what else"), ("9", "9"), ("2+2=", "")]


@pytest.mark.parametrize("template", ["", TEMPLATE], ids=["plain", "template"])
def test_neighbours_change_nothing(tmp_path: Path, template: str) -> None:
    folder = save_reward_model(tmp_path / "model", template=template)
    model = a_reward_model(folder)
    judged = [model.reads(*each) for each in QUESTIONS]

    found = model.look(judged)

    expected = [alone(folder, each.tokens) for each in judged]
    assert found == pytest.approx(expected, abs=1e-5)
    assert len({round(each, 3) for each in found}) == len(found)


def test_end_token_is_read_though_it_also_pads(tmp_path: Path) -> None:
    folder = save_reward_model(tmp_path / "model", pads_with_end=True)
    model, end = a_reward_model(folder), make_tokenizer(max_tokens=512).eos_token
    judged = [model.reads("1+1=", f"2{end}"), model.reads("12+30=", f"4{end}{end}")]

    found = model.look(judged)

    assert found == pytest.approx([alone(folder, each.tokens) for each in judged], abs=1e-5)


def test_template_is_the_models_own(tmp_path: Path) -> None:
    model = a_reward_model(save_reward_model(tmp_path / "model", template=TEMPLATE))
    tokenizer = make_tokenizer(max_tokens=512)

    assert model.reads("1+1=", "2").tokens == tuple(tokenizer("(1+1=)(2)")["input_ids"])


def test_model_with_several_outputs_is_refused(tmp_path: Path) -> None:
    folder = save_reward_model(tmp_path / "model", num_labels=3)
    with pytest.raises(ModelError, match=r"has 3 labels: a reward model has one output"):
        a_reward_model(folder)


def test_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"model path .*nowhere is not a directory"):
        a_reward_model(tmp_path / "nowhere")


def test_model_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    folder = save_reward_model(tmp_path / "model")
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    tensors["score.weight"][0, 3] = math.inf
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    with pytest.raises(ModelError, match=r"not finite: tensor score.weight of model.safetensors;"):
        a_reward_model(folder)


def test_weights_that_are_missing_or_left_over_are_refused(tmp_path: Path) -> None:
    folder = save_reward_model(tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    weights["head.weight"] = weights.pop("score.weight")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    with pytest.raises(ModelError, match=r"config.json differ in head.weight, score.weight"):
        a_reward_model(folder)
