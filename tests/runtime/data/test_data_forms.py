"""Data in the forms that others publish them in."""

import bz2
import gzip
import json
import lzma
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hetrl_core.job.layout import LAYOUTS, Layout
from hetrl_runtime.data.open_prompts import open_prompts
from hetrl_runtime.data.prompt import Fields, Prompt, Unusable

ROW = {"question": "2+7?", "answer": "#### 9"}
LINE = json.dumps(ROW) + "\n"
USER = {"role": "user", "content": "2+7?"}
SYSTEM = {"role": "system", "content": "Be brief."}
VERL = {"prompt": [USER], "reward_model": {"ground_truth": "9", "style": "rule"}}


def opened(path: Path, fields: Fields = Fields()) -> list[Prompt]:  # noqa: B008  # frozen
    found = open_prompts(path, fields)
    assert not isinstance(found, Unusable), found
    prompts = [found[index] for index in range(len(found))]
    found.close()
    return prompts


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return path


@pytest.mark.parametrize(
    ("answer", "text"), [(9, "9"), (-3, "-3"), (0.5, "0.5"), (10**30, "1" + "0" * 30)]
)
def test_answer_that_is_a_number_is_its_text(tmp_path: Path, answer: float, text: str) -> None:
    (prompt,) = opened(lines(tmp_path / "a.jsonl", {"question": "?", "answer": answer}))

    assert prompt.answer == text


@pytest.mark.parametrize("answer", [True, None, [], ["9"], {}, float("nan"), float("inf"), ""])
def test_answer_that_is_neither_text_nor_number_is_refused(tmp_path: Path, answer: Any) -> None:
    path = lines(tmp_path / "a.jsonl", {"question": "?", "answer": answer})

    found = open_prompts(path)

    assert isinstance(found, Unusable)
    assert f"{path}:1: 'answer' must be text that is not blank, got " in found.message


def test_parquet_of_verl_is_read_by_dotted_fields(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([VERL, VERL]), tmp_path / "TRAIN.PARQUET")
    fields = Fields(question="prompt", answer="reward_model.ground_truth")

    first, _ = opened(tmp_path / "TRAIN.PARQUET", fields)

    assert (first.question, first.answer, first.messages) == ("2+7?", "9", ())


def test_field_named_with_a_dot_comes_before_a_nested_one(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"question": "?", "a.b": "dotted", "a": {"b": "nested"}})

    assert opened(path, Fields(answer="a.b"))[0].answer == "dotted"


@pytest.mark.parametrize("record", [{"a": {}}, {"a": "text"}, {"a": [{"b": "1"}]}, {}])
def test_nested_field_that_is_missing_is_named_whole(tmp_path: Path, record: Any) -> None:
    path = lines(tmp_path / "a.jsonl", {"question": "?", **record})

    found = open_prompts(path, Fields(answer="a.b"))

    assert isinstance(found, Unusable)
    assert found.message.startswith(f"{path}:1: has no 'a.b'; its fields are question")


def test_chat_keeps_its_messages_and_ends_in_the_question(tmp_path: Path) -> None:
    (prompt,) = opened(lines(tmp_path / "a.jsonl", {**ROW, "question": [SYSTEM, USER]}))

    assert prompt.question == "2+7?"
    assert prompt.messages == (SYSTEM, USER)


@pytest.mark.parametrize(
    "chat",
    [
        [],
        ["2+7?"],
        [USER, {"role": "assistant", "content": "9"}],
        [{"role": "user"}],
        [{"role": "user", "content": " "}],
        [{"role": "user", "content": [{"type": "image"}]}],
        [{"role": "narrator", "content": "Once"}, USER],
    ],
)
def test_chat_that_cannot_be_answered_is_refused(tmp_path: Path, chat: Any) -> None:
    found = open_prompts(lines(tmp_path / "a.jsonl", {**ROW, "question": chat}))

    assert isinstance(found, Unusable)
    assert "'question' must be text that is not blank, or messages of a chat" in found.message


def test_shards_of_json_lines_are_read_in_order(tmp_path: Path) -> None:
    for number in (1, 0):
        rows = [{**ROW, "answer": f"{number}.{row}"} for row in range(2)]
        lines(tmp_path / f"train-{number}.jsonl", *rows)

    found = opened(tmp_path / "train-*.jsonl")

    assert [each.answer for each in found] == ["0.0", "0.1", "1.0", "1.1"]


def test_bad_shard_of_json_lines_is_named(tmp_path: Path) -> None:
    lines(tmp_path / "train-0.jsonl", ROW)
    lines(tmp_path / "train-1.jsonl", ROW, {"question": "?"})

    found = open_prompts(tmp_path / "train-*.jsonl")

    assert isinstance(found, Unusable)
    assert found.message.startswith(f"{tmp_path}/train-1.jsonl:2: has no 'answer'; its fields are")


def test_pattern_without_files_is_named(tmp_path: Path) -> None:
    found = open_prompts(tmp_path / "train-*.jsonl")

    assert isinstance(found, Unusable)
    assert "train-*.jsonl: no file is named like that" in found.message


def gz(data: bytes) -> bytes:
    """Compress without a time: names of tests are the same in every process."""
    return gzip.compress(data, mtime=0)


def zstd(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


TABLE = 'question,answer,source\n"2+7, or so?","a\nb #### 9",gsm8k\n\n3?,4,math\n'
ARRAY = json.dumps([ROW, ROW | {"question": "3?"}], indent=1)


@pytest.mark.parametrize("pack", [bytes, gz, bz2.compress, lzma.compress, zstd])
@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("train.jsonl", LINE + "\n" + LINE, [("2+7?", "#### 9", 1), ("2+7?", "#### 9", 3)]),
        ("train.json", ARRAY, [("2+7?", "#### 9", 1), ("3?", "#### 9", 2)]),
        ("train.json", f"\ufeff \n{ARRAY}\n", [("2+7?", "#### 9", 1), ("3?", "#### 9", 2)]),
        ("train.CSV", TABLE, [("2+7, or so?", "a\nb #### 9", 3), ("3?", "4", 5)]),
        ("train.tsv", "answer\tquestion\r\n9\t2+7?\r\n", [("2+7?", "9", 2)]),
    ],
    ids=["lines", "array", "array after a mark", "commas", "tabs"],
)
def test_files_without_places_are_read_in_any_order(
    tmp_path: Path,
    name: str,
    text: str,
    expected: list[tuple[str, str, int]],
    pack: Callable[[bytes], bytes],
) -> None:
    path = tmp_path / (name if pack is bytes else f"{name}.gz")
    path.write_bytes(pack(text.encode()))
    found = open_prompts(path)
    assert not isinstance(found, Unusable), found

    read = [found[index] for index in reversed(range(len(found)))]
    found.close()

    assert [(each.question, each.answer, each.line) for each in reversed(read)] == expected


def test_array_larger_than_a_chunk_is_read_whole(tmp_path: Path) -> None:
    rows = [{"question": f"{number}?" + " " * 5000, "answer": number} for number in range(700)]
    (tmp_path / "train.json").write_text(json.dumps(rows))

    assert [each.answer for each in opened(tmp_path / "train.json")] == [
        str(number) for number in range(700)
    ]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        (
            "train.json",
            LINE.replace("2+7", "Caf\xe9").encode("latin-1"),
            ":1: not UTF-8: byte 0xe9 at 17",
        ),
        ("train.csv", b"question,answer\nCaf\xe9?,9\n", ": not UTF-8: byte 0xe9 at "),
        ("train.json", b'"2+7?"\n', "must be a JSON object, got str; expected JSON lines, one"),
        ("train.json", b"[1, 2]", ":1: must be a JSON object, got int; expected JSON lines"),
        ("train.json", ARRAY.encode()[:-1], "the array is cut off after element 2"),
        ("train.json", ARRAY.encode()[:-20], "element 2 is not JSON: "),
        ("train.json", b'[{"question": "?"} {"question": "?"}]', "cut off after element 1"),
        ("train.txt", b"question,answer\n2+7?,9\n", "not JSON: .*; expected JSON lines"),
        ("train.csv", b"question,answer\n2, or 3?,9\n", ":2: has 3 fields, the header has 2: a"),
        ("train.csv", b'question,answer\n"2"x,9\n', ":2: not CSV: "),
        ("train.csv", b"question,answer,answer\n", ":1: the header names a column twice"),
        (
            "train.csv",
            b"problem,answer\n2?,9\n",
            ":2: has no 'question'; its fields are problem, answer: set spec.data.questionField "
            "and answerField, or spec.data.format openr1",
        ),
        ("train.json", b"[{}]", ":1: has no 'question': it has no fields"),
        ("train.jsonl.gz", gz(LINE.encode())[:-9], "its gzip data are damaged or cut"),
        ("train.jsonl.zst", zstd(LINE.encode())[:-9], "its zstd data are damaged or cut"),
        ("train.jsonl.xz", lzma.compress(LINE.encode())[:-9], "its xz data are damaged or cut"),
        ("train.pq", b"PAR1 and more", "is Parquet: its name must end in .parquet"),
        ("train.parquet.gz", gz(b"PAR1 and more"), "is Parquet: its name must end in"),
    ],
)
def test_file_not_read_is_refused_with_its_fault(
    tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)

    found = open_prompts(path)

    assert isinstance(found, Unusable)
    assert re.search(said, found.message), found.message


@pytest.mark.parametrize(
    ("pattern", "num_found"),
    [("train-*.jsonl", 2), ("**/train-*.jsonl", 3), ("*/train-0.jsonl", 1), ("[a]/x*.jsonl", 1)],
)
def test_pattern_names_files_of_folders(tmp_path: Path, pattern: str, num_found: int) -> None:
    for name in ("train-0.jsonl", "train-1.jsonl", "more/train-0.jsonl", "[a]/x.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        lines(tmp_path / name, ROW)

    assert len(opened(tmp_path / pattern)) == num_found


@pytest.mark.parametrize(
    ("fields", "record", "expected"),
    [
        (Fields(), ROW, ()),
        (Fields(template="{question}"), ROW, ()),
        (
            Fields(template=r"{question} Put it in \boxed{}, {question}"),
            ROW,
            ({"role": "user", "content": r"2+7? Put it in \boxed{}, 2+7?"},),
        ),
        (Fields(system_prompt="Add."), ROW, ({"role": "system", "content": "Add."}, USER)),
        (
            Fields(system_prompt="Add.", template="Q: {question}"),
            ROW | {"question": [SYSTEM, USER, {"role": "assistant", "content": "?"}, USER]},
            (
                {"role": "system", "content": "Add."},
                USER,
                {"role": "assistant", "content": "?"},
                {"role": "user", "content": "Q: 2+7?"},
            ),
        ),
        (Fields(), ROW | {"question": [SYSTEM, USER]}, (SYSTEM, USER)),
    ],
)
def test_prompt_is_worded_as_the_job_says(
    tmp_path: Path, fields: Fields, record: Any, expected: tuple[Any, ...]
) -> None:
    (prompt,) = opened(lines(tmp_path / "a.jsonl", record), fields)

    assert (prompt.messages, prompt.question) == (expected, "2+7?")


MESSAGES = {
    Layout.VERL: VERL | {"data_source": "openai/gsm8k", "extra_info": {"index": 0}},
    Layout.DAPO: VERL | {"data_source": "math_dapo"},
    Layout.OPENR1: {"problem": "2+7?", "solution": "So 9.", "answer": "9", "messages": [USER]},
    Layout.TRL: {"prompt": [USER], "solution": "9"},
    Layout.OPENRLHF: {"prompt": "2+7?", "label": "9"},
}


@pytest.mark.parametrize("layout", list(Layout))
def test_layout_names_question_and_answer(tmp_path: Path, layout: Layout) -> None:
    question, answer = LAYOUTS[layout]
    pq.write_table(pa.Table.from_pylist([MESSAGES[layout]]), tmp_path / "a.parquet")
    path = lines(tmp_path / "a.jsonl", MESSAGES[layout])

    for file in (path, tmp_path / "a.parquet"):
        (prompt,) = opened(file, Fields(question=question, answer=answer))
        assert (prompt.question, prompt.answer, prompt.messages) == ("2+7?", "9", ())
    refused = open_prompts(path)
    assert isinstance(refused, Unusable)
    assert f"format {Layout.VERL if layout is Layout.DAPO else layout}" in refused.message
