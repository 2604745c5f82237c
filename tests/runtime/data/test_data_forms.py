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

    assert open_prompts(path, Fields(answer="a.b")) == Unusable(message=f"{path}:1: has no 'a.b'")


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

    assert open_prompts(tmp_path / "train-*.jsonl") == Unusable(
        message=f"{tmp_path}/train-1.jsonl:2: has no 'answer'"
    )


def test_pattern_without_files_is_named(tmp_path: Path) -> None:
    found = open_prompts(tmp_path / "train-*.jsonl")

    assert isinstance(found, Unusable)
    assert "train-*.jsonl: no file is named like that" in found.message


@pytest.mark.parametrize(
    ("packed", "name"), [(gzip.compress, "gzip"), (bz2.compress, "bzip2"), (lzma.compress, "xz")]
)
def test_compressed_file_is_named_as_such(
    tmp_path: Path, packed: Callable[[bytes], bytes], name: str
) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(packed(LINE.encode()))

    assert open_prompts(path) == Unusable(
        message=f"{path} is compressed with {name}: decompress it"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LINE.replace("2+7", "Caf\xe9").encode("latin-1"), ":1: not UTF-8: byte 0xe9 at 17"),
        (json.dumps([ROW, ROW]).encode(), "must be a JSON object, got list; expected JSON lines"),
        (json.dumps([ROW], indent=1).encode(), "not JSON: .*; expected JSON lines"),
        (b"question,answer\n2+7?,9\n", "not JSON: .*; expected JSON lines"),
    ],
    ids=["latin-1", "array", "array on lines", "commas"],
)
def test_formats_not_read_are_refused_with_what_is_expected(
    tmp_path: Path, text: bytes, said: str
) -> None:
    path = tmp_path / "train.json"
    path.write_bytes(text)

    found = open_prompts(path)

    assert isinstance(found, Unusable)
    assert re.search(said, found.message)
