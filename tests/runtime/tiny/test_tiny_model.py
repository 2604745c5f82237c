import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from hetrl_runtime.tiny.model import make_model
from hetrl_runtime.tiny.sums import sums
from hetrl_runtime.tiny.task import Split
from hetrl_runtime.tiny.tokenizer import make_tokenizer
from hetrl_runtime.tiny.warm_up import WarmUp

BRIEF = WarmUp(steps=2, batch_size=4)


def test_text_survives_the_tokenizer():
    tokenizer = make_tokenizer(max_tokens=64)
    text = "347+8=355 \n  What? {x}"

    tokens = tokenizer(text)["input_ids"]

    assert len(tokens) == len(text)
    assert tokenizer.decode(tokens) == text
    assert tokenizer("é")["input_ids"] == [tokenizer.unk_token_id]


@pytest.mark.slow
def test_model_is_an_ordinary_hugging_face_folder(tmp_path):
    result = make_model(tmp_path / "tiny", seed=1, schedule=BRIEF)

    model = AutoModelForCausalLM.from_pretrained(tmp_path / "tiny")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "tiny")

    assert model.config.model_type == "qwen3"
    assert sum(each.numel() for each in model.parameters()) == result.num_parameters
    assert tokenizer.decode(tokenizer("12+5=")["input_ids"]) == "12+5="
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


@pytest.mark.slow
def test_seed_fixes_the_weights(tmp_path):
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
        make_model(tmp_path / name, seed=seed, schedule=BRIEF)

    a, b, c = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abc")

    assert a == b != c


def test_existing_model_is_not_overwritten(tmp_path):
    with pytest.raises(FileExistsError, match="is there already"):
        make_model(tmp_path, seed=1, schedule=BRIEF)


@pytest.mark.slow
def test_model_starts_out_able_and_bad(tmp_path):
    make_model(tmp_path / "tiny", seed=1)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "tiny")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "tiny")
    problems = sums(Split.HELD_OUT)

    prompts = tokenizer([each.question for each in problems], return_tensors="pt")
    with torch.inference_mode():
        tokens = model.generate(**prompts, max_new_tokens=6, do_sample=False)
    responses = tokenizer.batch_decode(tokens[:, 6:], skip_special_tokens=True)
    correct = sum(
        response == each.answer for response, each in zip(responses, problems, strict=True)
    )

    assert 0.1 < correct / len(problems) <= 0.4
