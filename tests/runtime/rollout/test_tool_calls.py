"""Calls and results in tokens, without a chat template and with one like Qwen's."""

import json
from pathlib import Path

import pytest

from hetrl_core.job.spec import Tool
from hetrl_runtime.rollout.prompts import PromptFormat
from hetrl_runtime.tiny.tokenizer import make_tokenizer
from tests.runtime.rollout.models import EOS

TEMPLATE = (
    "{% if tools %}You have {{ tools[0].function.name }}.\n{% endif %}"
    "{% for m in messages %}"
    "{% if m.role == 'tool' %}[user]<tool_response>{{ m.content }}</tool_response>\n"
    "{% else %}[{{ m.role }}]{{ m.content }}\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)


def prompts_of(path: Path, *, chat_template: str | None = None) -> PromptFormat:
    tokenizer = make_tokenizer(max_tokens=2048)
    tokenizer.chat_template = chat_template
    tokenizer.save_pretrained(path)
    (path / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
    return PromptFormat(path, [Tool.CALCULATOR])


def result_text(prompts: PromptFormat, turn: str) -> str:
    """Return the text that follows ``turn``."""
    assert prompts.calls
    tokens = make_tokenizer(max_tokens=2048).encode(turn)
    return prompts.decode(prompts.calls.result_of(tokens))


def test_engine_stops_at_the_end_of_response_and_call(tmp_path):
    prompts = prompts_of(tmp_path)

    assert prompts.calls
    assert prompts.decode([prompts.calls.end_token]) == "</tool_call>"
    assert prompts.stop_tokens == (EOS, prompts.calls.end_token)
    assert prompts.end_tokens == (EOS,)


@pytest.mark.parametrize(
    ("turn", "result"),
    [
        pytest.param("<tool_call>12*12</tool_call>", "144", id="just the argument"),
        pytest.param(
            'Well. <tool_call>\n{"name": "calculator", "arguments": {"expression": "12*12"}}\n'
            "</tool_call>",
            "144",
            id="as Qwen writes it",
        ),
        pytest.param("<tool_call>1/0</tool_call>", "error: division by zero", id="no value"),
        pytest.param("12</tool_call>", "error: </tool_call> without <tool_call>", id="no begin"),
        pytest.param(
            '<tool_call>{"name": "shell", "arguments": {}}</tool_call>',
            'error: a call is {"name": ..., "arguments": {...}}, with one of '
            "calculator(expression)",
            id="no such tool",
        ),
        pytest.param(
            '<tool_call>{"name": ["calculator"]}</tool_call>',
            'error: a call is {"name": ..., "arguments": {...}}, with one of '
            "calculator(expression)",
            id="no name",
        ),
    ],
)
def test_call_is_answered_with_its_result_or_what_is_wrong(turn, result, tmp_path):
    assert result_text(prompts_of(tmp_path), turn) == f"<tool_response>{result}</tool_response>"


def test_chat_template_closes_the_turn_and_opens_the_next(tmp_path):
    prompts = prompts_of(tmp_path, chat_template=TEMPLATE)

    first = prompts.encode("12*12=", max_prompt_tokens=500)

    assert isinstance(first, tuple)
    assert prompts.decode(first) == "You have calculator.\n[user]12*12=\n[assistant]"
    assert result_text(prompts, "<tool_call>12*12</tool_call>") == (
        "\n[user]<tool_response>144</tool_response>\n[assistant]"
    )


def test_tokenizer_that_cannot_tell_where_a_call_ends_is_refused(tmp_path):
    prompts_of(tmp_path)
    file = tmp_path / "tokenizer.json"
    plain = json.loads(file.read_text())
    plain["added_tokens"] = [
        each for each in plain["added_tokens"] if "tool" not in each["content"]
    ]
    file.write_text(json.dumps(plain))

    with pytest.raises(ValueError, match="has </tool_call> as one token"):
        PromptFormat(tmp_path, [Tool.CALCULATOR])
