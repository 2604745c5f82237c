"""Prompt files: what is read, what is refused with its place, and the order of the walk."""

import json
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetrl_runtime.coordinator.rules.prompts import Prompts
from hetrl_runtime.data.left_out import LeftOutPrompt, LeftOutReason
from hetrl_runtime.data.open_prompts import open_prompts
from hetrl_runtime.data.order import PassOrder
from hetrl_runtime.data.prompt import Fields, Prompt, PromptSource, Unusable
from hetrl_runtime.data.reference_answer import target
from tests.runtime.launches import a_prompt_file

GSM8K = Fields()


def opened(path: Path, fields: Fields = GSM8K) -> PromptSource:
    found = open_prompts(path, fields)
    assert not isinstance(found, Unusable)
    return found


def test_prompts_are_read_by_index_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    lines = [
        {"question": "Wie groß?", "answer": "#### 3", "extra": 1},
        {"question": "?", "answer": "4"},
    ]
    path.write_text(f"{json.dumps(lines[0], ensure_ascii=False)}\n\n{json.dumps(lines[1])}")

    file = opened(path)

    assert len(file) == 2
    assert file[1] == Prompt(question="?", answer="4", line=3)
    assert file[0] == Prompt(question="Wie groß?", answer="#### 3", line=1)
    file.close()

    with_others = opened(path, Fields(keeps_others=True))
    assert with_others[0].columns == lines[0]
    with_others.close()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("3", "must be a JSON object, got int"),
        ('{"answer": "1"}', "has no 'question'"),
        ('{"question": "?"}', "has no 'answer'"),
        (
            '{"question": 7, "answer": "1"}',
            "'question' must be text that is not blank, or messages of a chat, got 7",
        ),
        ('{"question": "?", "answer": " "}', "'answer' must be text that is not blank"),
        ("\udcff", "not UTF-8: byte 0xff at 0"),
    ],
    ids=[
        "cut off",
        "too deep",
        "a number",
        "no question",
        "no answer",
        "a number's question",
        "a blank answer",
        "not UTF-8",
    ],
)
def test_bad_line_is_named_by_file_and_number(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "prompts.jsonl"
    good = json.dumps({"question": "?", "answer": "1"})
    path.write_bytes(f"{good}\n{line}\n{good}\n".encode(errors="surrogateescape"))

    found = open_prompts(path)

    assert isinstance(found, Unusable)
    assert found.message.startswith(f"{path}:2: ")
    assert complaint in found.message


HALF = "\\ud83c"  # the first half of an emoji, as a text that was cut has it


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (f'{{"question": "2+7? {HALF}", "answer": "9"}}', "'question' has half a character"),
        ('{"question": "\\udf89 2+7?", "answer": "9"}', "'question' has half a character"),
        (f'{{"question": "2+7?", "answer": "{HALF}9"}}', "'answer' has half a character (U+D83C, "),
        (f'{{"question": "?", "answer": "9", "id": "{HALF}"}}', "'id' has half a character"),
        (f'{{"question": "?", "answer": "9", "x": [{{"y": "{HALF}"}}]}}', "'x' has half a char"),
        (f'{{"question": "?", "answer": "9", "x": {{"{HALF}": 1}}}}', "'x' has half a character"),
        (f'{{"question": "?", "answer": "9", "{HALF}": 1}}', "has half a character"),
        ('{"question": "?", "answer": "\udced\udca0\udcbc"}', "'answer' has half a character"),
    ],
    ids=["question", "second half", "answer", "column", "nested", "key", "name", "raw bytes"],
)
def test_half_a_character_is_refused_with_its_field(tmp_path: Path, line: str, field: str) -> None:
    path = tmp_path / "prompts.jsonl"
    good = json.dumps({"question": "🎉?", "answer": "1"})
    path.write_bytes(f"{good}\n{line}\n".encode(errors="surrogateescape"))

    found = open_prompts(path, Fields(keeps_others=True))

    assert isinstance(found, Unusable)
    assert found.message.startswith(f"{path}:2: ")
    assert field in found.message


def test_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.jsonl"

    assert open_prompts(path) == Unusable(
        message=f"cannot read prompts from {path}: No such file or directory"
    )


@pytest.mark.parametrize("content", ["", "\n\n  \n"])
def test_empty_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(content)

    assert open_prompts(path) == Unusable(message=f"{path} has no prompts: the file is empty")


@given(num_prompts=st.integers(1, 50), seed=st.integers(0, 1000), passes=st.integers(1, 3))
def test_pass_has_every_prompt_once(num_prompts: int, seed: int, passes: int) -> None:
    order = PassOrder(num_prompts=num_prompts, seed=seed)

    for number in range(passes):
        walk = [order.index(number * num_prompts + place) for place in range(num_prompts)]
        assert sorted(walk) == list(range(num_prompts))


def test_passes_and_seeds_differ_and_repeat() -> None:
    def walk(seed: int, pass_number: int) -> list[int]:
        order = PassOrder(num_prompts=100, seed=seed)
        return [order.index(pass_number * 100 + place) for place in range(100)]

    assert walk(1, 0) != walk(1, 1)
    assert walk(1, 0) != walk(2, 0)
    assert walk(1, 1) == walk(1, 1)


def test_walk_goes_back_and_forth_between_passes() -> None:
    order = PassOrder(num_prompts=10, seed=1)
    forward = [order.index(number) for number in range(40)]

    backward = [order.index(number) for number in reversed(range(40))]

    assert backward == forward[::-1]


def test_group_has_one_prompt_in_every_process(tmp_path: Path) -> None:
    path = a_prompt_file(tmp_path / "prompts.jsonl")
    with closing(opened(path)) as here, closing(opened(path)) as there:
        first, second = Prompts(here, seed=3), Prompts(there, seed=3)

        assert [first.of_group(each) for each in range(40)] == [
            second.of_group(each) for each in range(40)
        ]
        assert len({first.of_group(each).question for each in range(16)}) == 16


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("9 * 2 = 18\n#### 18", "18"), ("18", "18"), ("a #### 1\n#### 2 ", "2"), ("####", "")],
)
def test_reference_stands_after_the_last_marker(answer: str, expected: str) -> None:
    assert target(answer) == expected


def left_out(index: int, reason: LeftOutReason) -> LeftOutPrompt:
    return LeftOutPrompt(index=index, line=index + 1, reason=reason, detail=f"detail\x1b{index}")


def test_prompt_that_is_left_out_is_so_in_every_pass(tmp_path: Path) -> None:
    file = opened(a_prompt_file(tmp_path / "prompts.jsonl", num_prompts=4))
    prompts = Prompts(file, seed=1)
    assert prompts.leave_out(left_out(2, LeftOutReason.PROMPT_TOO_LONG))
    assert not prompts.leave_out(left_out(2, LeftOutReason.TOKEN_UNKNOWN))

    groups = [group for group in range(12) if prompts.is_left_out(group)]

    assert [prompts.index(group) for group in groups] == [2, 2, 2]
    assert prompts.num_usable == 3
    assert prompts.ending is None
    file.close()


def test_run_without_usable_prompts_ends_with_counts(tmp_path: Path) -> None:
    file = opened(a_prompt_file(tmp_path / "prompts.jsonl", num_prompts=3))
    prompts = Prompts(file, seed=1)
    for index in (2, 1):
        prompts.leave_out(left_out(index, LeftOutReason.PROMPT_TOO_LONG))
    prompts.leave_out(left_out(0, LeftOutReason.REFERENCE_UNREADABLE))

    assert prompts.notices == (
        "2 of 3 prompts are longer than data.maxPromptTokens and are left out, the first on line "
        "2: detail 1",
        "1 of 3 answers hold no value that data.reward can read and are left out, the first on "
        "line 1: detail 0",
    )
    assert prompts.ending
    assert prompts.ending.reason == "DataInvalid"
    assert prompts.notices[0] in prompts.ending.message
    assert not any(prompts.is_left_out(group) for group in range(6))
    file.close()
