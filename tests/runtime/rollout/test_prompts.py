"""Questions to tokens and back."""

import json
from pathlib import Path

import pytest

from hetrl_core.job.spec import DataSpec
from hetrl_runtime.rollout.prompts import PromptFormat, PromptTooLong
from hetrl_runtime.tiny.tokenizer import make_tokenizer
from tests.runtime.rollout.models import EOS


def a_folder(path: Path, *, chat_template: str | None = None, **config: object) -> Path:
    tokenizer = make_tokenizer(max_tokens=2048)
    tokenizer.chat_template = chat_template
    tokenizer.save_pretrained(path)
    (path / "config.json").write_text(json.dumps({"model_type": "qwen3", **config}))
    return path


def test_question_is_plain_text_without_a_chat_template(tmp_path: Path) -> None:
    prompts = PromptFormat(a_folder(tmp_path))

    tokens = prompts.encode("12+3=", max_prompt_tokens=5)

    assert isinstance(tokens, tuple)
    assert prompts.decode(tokens) == "12+3="


def test_question_is_a_first_turn_with_a_chat_template(tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    )
    prompts = PromptFormat(a_folder(tmp_path, chat_template=template))

    tokens = prompts.encode("12+3=", max_prompt_tokens=100)

    assert isinstance(tokens, tuple)
    assert prompts.decode(tokens) == "user:12+3=\nassistant:"


CHAT = [{"role": "system", "content": "Add."}, {"role": "user", "content": "12+3="}]


def test_chat_is_rendered_whole_by_the_template(tmp_path: Path) -> None:
    template = "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}"
    prompts = PromptFormat(a_folder(tmp_path, chat_template=template))

    tokens = prompts.encode("12+3=", max_prompt_tokens=100, messages=CHAT)

    assert isinstance(tokens, tuple)
    assert prompts.decode(tokens) == "system:Add.\nuser:12+3=\n"


def test_chat_is_plain_text_without_a_template(tmp_path: Path) -> None:
    prompts = PromptFormat(a_folder(tmp_path))

    tokens = prompts.encode("12+3=", max_prompt_tokens=100, messages=CHAT)

    assert isinstance(tokens, tuple)
    assert prompts.decode(tokens) == "Add.\n\n12+3="


def test_prompt_beyond_the_limit_is_refused_with_both_numbers(tmp_path: Path) -> None:
    prompts = PromptFormat(a_folder(tmp_path))

    refusal = prompts.encode("12+3=", max_prompt_tokens=4)

    assert refusal == PromptTooLong(num_tokens=5, max_prompt_tokens=4)
    assert str(refusal) == "the prompt has 5 tokens, data.maxPromptTokens is 4"


def test_model_files_may_each_name_end_tokens(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, eos_token_id=7)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 9]}))

    assert PromptFormat(folder).stop_tokens == (EOS, 7, 9)


def test_special_tokens_are_not_part_of_a_response(tmp_path: Path) -> None:
    prompts = PromptFormat(a_folder(tmp_path))
    tokens = prompts.encode("15", max_prompt_tokens=9)
    assert isinstance(tokens, tuple)

    assert prompts.decode((*tokens, EOS)) == "15"


def test_folder_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")

    with pytest.raises(ValueError, match=f"the tokenizer of {tmp_path} cannot be loaded: "):
        PromptFormat(tmp_path)


def test_chat_template_gets_the_arguments_of_the_job(tmp_path: Path) -> None:
    template = "{% for m in messages %}{{ m.content }}{% endfor %}{{ '' if thinks else '()' }}"
    folder = a_folder(tmp_path, chat_template=template)

    for thinks, expected in ((True, "1+1="), (False, "1+1=()")):
        data = DataSpec(prompts="", chat_template_arguments=(("thinks", thinks),))
        prompts = PromptFormat.of(folder, data)
        tokens = prompts.encode("1+1=", max_prompt_tokens=100)
        assert isinstance(tokens, tuple)
        assert prompts.decode(tokens) == expected
