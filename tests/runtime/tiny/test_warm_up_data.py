import json

import pytest
import torch

from hetrl_runtime.tiny.model import make_model
from hetrl_runtime.tiny.tokenizer import make_tokenizer
from hetrl_runtime.tiny.warm_up import WarmUp
from hetrl_runtime.tiny.warm_up_data import IGNORED, AnswerLessons

SHORT = {"question": "Two and two?", "answer": "2+2=4\n#### 4"}
LONGER = {"question": "A dozen and one more?", "answer": "12+1=13\n#### 13"}


@pytest.fixture
def tokenizer():
    return make_tokenizer(max_tokens=64)


def write(path, *problems):
    path.write_text("".join(json.dumps(each) + "\n" for each in problems))
    return path


def test_final_answer_and_its_end_alone_are_learned(tmp_path, tokenizer):
    lessons = AnswerLessons(write(tmp_path / "two.jsonl", SHORT, LONGER), tokenizer)

    tokens, labels = lessons.sample(16, torch.Generator().manual_seed(1))

    seen = {tokenizer.decode(row[row != tokenizer.pad_token_id]) for row in tokens}
    learned = {tokenizer.decode(row[row != IGNORED]) for row in labels}
    assert seen == {"Two and two?4<eos>", "A dozen and one more?13<eos>"}
    assert learned == {"4<eos>", "13<eos>"}
    assert ((labels == IGNORED) | (labels == tokens)).all()


def test_problems_that_are_too_long_are_left_out(tmp_path, tokenizer):
    file = write(tmp_path / "two.jsonl", SHORT, LONGER)

    tokens, _ = AnswerLessons(file, tokenizer, max_tokens=16).sample(8, torch.Generator())

    assert {tokenizer.decode(row) for row in tokens} == {"Two and two?4<eos>"}


@pytest.mark.parametrize(
    ("problems", "said"),
    [
        pytest.param([LONGER], "every problem has more than 16 tokens", id="too long"),
        pytest.param([{"question": "1+1="}], "one.jsonl:1: has no 'answer'", id="malformed"),
    ],
)
def test_file_that_teaches_nothing_is_refused(tmp_path, tokenizer, problems, said):
    file = write(tmp_path / "one.jsonl", *problems)

    with pytest.raises(ValueError, match=said):
        AnswerLessons(file, tokenizer, max_tokens=16)


def test_model_is_made_from_a_files_answers(tmp_path):
    file = write(tmp_path / "two.jsonl", SHORT, LONGER)

    result = make_model(
        tmp_path / "tiny", seed=1, answers=file, schedule=WarmUp(steps=2, batch_size=4)
    )

    assert result.loss > 0
    assert (tmp_path / "tiny/model.safetensors").is_file()
