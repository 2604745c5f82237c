"""Rows that no generation can use: which are found, and by a process of its own."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hetrl_core.job.spec import DataSpec, ModelFiles
from hetrl_core.launch import Launch
from hetrl_runtime.data.left_out import LeftOutReason
from hetrl_runtime.pod_commands.row_check import left_out_prompts
from hetrl_runtime.rollout.prompt_checks import left_out_of
from hetrl_runtime.tiny.tokenizer import make_tokenizer
from tests.runtime.launches import a_launch

ROWS = (
    ("3+4?", "7"),
    ("3+4? " * 20, "7"),
    ("5+5?", "#### "),
    ("5+1? <x>", "6"),
    ("1+1?", "2"),
)


def a_job(directory: Path) -> Launch:
    """A job whose tokenizer has one token more than its model."""
    tokenizer = make_tokenizer(max_tokens=2048)
    vocab_size = len(tokenizer)
    tokenizer.add_tokens(["<x>"])
    tokenizer.save_pretrained(directory / "model")
    path = directory / "rows.jsonl"
    path.write_text("".join(json.dumps({"question": q, "answer": a}) + "\n" for q, a in ROWS))
    data = DataSpec(prompts=str(path), max_prompt_tokens=64)
    return a_launch(directory, data=data, vocab_size=vocab_size)


def test_rows_that_cannot_be_used_are_found_with_their_reason(tmp_path: Path) -> None:
    launch = a_job(tmp_path)

    found = {each.line: (each.reason, each.detail) for each in left_out_of(launch)}

    rows = launch.vocab_size
    assert found == {
        2: (
            LeftOutReason.PROMPT_TOO_LONG,
            "the prompt has 100 tokens, data.maxPromptTokens is 64",
        ),
        3: (
            LeftOutReason.REFERENCE_UNREADABLE,
            "the reference answer has no value that math can read: '#### '",
        ),
        4: (
            LeftOutReason.TOKEN_UNKNOWN,
            f"the tokenizer makes token {rows} ('<x>') of it, the model's embedding has {rows} "
            "rows",
        ),
    }


def test_references_are_checked_where_the_model_is_elsewhere(tmp_path: Path) -> None:
    launch = replace(a_job(tmp_path), model=ModelFiles(source=str(tmp_path / "nowhere")))

    assert [each.line for each in left_out_of(launch)] == [3]


@pytest.mark.slow
async def test_check_in_its_own_process_finds_the_same(tmp_path: Path) -> None:
    launch = a_job(tmp_path)

    assert [each async for each in left_out_prompts(launch)] == list(left_out_of(launch))
