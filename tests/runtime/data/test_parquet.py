"""Parquet shards: the same prompts as in any other form, a few row groups in memory at a time."""

from contextlib import closing
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from hetrl_runtime.coordinator.rules.prompts import Prompts
from hetrl_runtime.data import parquet
from hetrl_runtime.data.open_prompts import open_prompts
from hetrl_runtime.data.prompt import Fields, Prompt, PromptSource, Unusable

MATH = Fields(question="problem", answer="answer")


def a_shard(path: Path, numbers: range, *, rows_per_group: int = 4, **changes: object) -> Path:
    """A file in the form of MATH-500, with columns that are not used."""
    columns = {
        "problem": [f"What is {n} + 1?" for n in numbers],
        "solution": ["By addition." for _ in numbers],
        "answer": [rf"\boxed{{{n + 1}}}" for n in numbers],
        "level": [n % 5 for n in numbers],
        **changes,
    }
    table = pyarrow.table(columns)
    pyarrow.parquet.write_table(table, path, row_group_size=rows_per_group)
    return path


def opened(path: Path, fields: Fields = MATH) -> PromptSource:
    found = open_prompts(path, fields)
    assert not isinstance(found, Unusable), found
    return found


def test_shards_form_one_list_of_prompts_in_name_order(tmp_path: Path) -> None:
    a_shard(tmp_path / "train-00001.parquet", range(10, 17))
    a_shard(tmp_path / "train-00000.parquet", range(10))
    a_shard(tmp_path / "test-00000.parquet", range(100, 110))

    with closing(opened(tmp_path / "train-*.parquet")) as prompts:
        assert len(prompts) == 17
        assert [prompts[n].question for n in range(17)] == [f"What is {n} + 1?" for n in range(17)]
        assert prompts[12] == Prompt(question="What is 12 + 1?", answer=r"\boxed{13}", line=3)


def test_columns_are_read_where_a_reward_takes_them(tmp_path: Path) -> None:
    path = a_shard(tmp_path / "math.parquet", range(10))
    fields = Fields(question="problem", answer="answer", keeps_others=True)

    with closing(opened(path, fields)) as prompts:
        assert prompts[7].columns == {
            "problem": "What is 7 + 1?",
            "solution": "By addition.",
            "answer": r"\boxed{8}",
            "level": 2,
        }
    with closing(opened(path)) as prompts:
        assert prompts[7].columns == {}


def test_group_has_one_prompt_however_the_walk_is_resumed(tmp_path: Path) -> None:
    path = a_shard(tmp_path / "math.parquet", range(23))
    with closing(opened(path)) as here, closing(opened(path)) as there:
        first, second = Prompts(here, seed=3), Prompts(there, seed=3)

        walk = [first.of_group(each) for each in range(60)]

        assert [second.of_group(each) for each in reversed(range(60))] == walk[::-1]
        assert len({each.question for each in walk[:23]}) == 23


def test_row_groups_in_memory_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_KEPT_BYTES", 500)
    path = a_shard(tmp_path / "math.parquet", range(400), rows_per_group=4)

    with closing(opened(path)) as prompts:
        assert isinstance(prompts, parquet.ParquetPrompts)
        for index in (*range(0, 400, 7), *range(399, 0, -11)):
            assert prompts[index].question == f"What is {index} + 1?"
            assert len(prompts._kept) <= 3


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"problem": ["?"] * 5 + [" "] + ["?"] * 4},
            ", row 6: 'problem' must be text that is not blank, or messages of a chat, got \" \"",
        ),
        (
            {"answer": ["1"] * 9 + [None]},
            ", row 10: 'answer' must be text that is not blank, got null",
        ),
        (
            {"answer": [True] * 10},
            ", row 1: 'answer' must be text that is not blank, got true",
        ),
    ],
    ids=["a blank problem", "no answer", "answers that are neither text nor numbers"],
)
def test_bad_row_is_named(tmp_path: Path, changes: dict[str, object], complaint: str) -> None:
    path = a_shard(tmp_path / "math.parquet", range(10), **changes)

    found = open_prompts(path, MATH)

    assert found == Unusable(message=f"{path}{complaint}")


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("nowhere.parquet", None, "No such file or directory"),
        ("none-*.parquet", None, "no file is named like that"),
        ("text.parquet", b"not parquet at all", "is not Parquet"),
    ],
)
def test_non_parquet_file_is_named(
    tmp_path: Path, name: str, content: bytes | None, complaint: str
) -> None:
    if content:
        (tmp_path / name).write_bytes(content)

    found = open_prompts(tmp_path / name, MATH)

    assert isinstance(found, Unusable)
    assert complaint in found.message
    assert str(tmp_path / name) in found.message


def test_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = a_shard(tmp_path / "math.parquet", range(3))

    assert open_prompts(path) == Unusable(
        message=f"{path}: has no column 'question'; its columns are problem, solution, answer, "
        "level: set spec.data.questionField, answerField or format"
    )


def test_file_without_rows_is_refused(tmp_path: Path) -> None:
    empty = {
        "problem": pyarrow.array([], pyarrow.string()),
        "solution": [],
        "level": [],
        "answer": pyarrow.array([], pyarrow.string()),
    }
    path = a_shard(tmp_path / "math.parquet", range(0), **empty)

    assert open_prompts(path, MATH) == Unusable(message=f"{path} has no prompts: the file is empty")
