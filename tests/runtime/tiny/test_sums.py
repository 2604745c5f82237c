import json

import pytest

from hetrl_runtime.tiny.dataset import write_dataset
from hetrl_runtime.tiny.sums import Sum, sums
from hetrl_runtime.tiny.task import Split


def test_problems_are_in_one_split_with_enough_held_out():
    train, held_out = sums(Split.TRAIN), sums(Split.HELD_OUT)

    assert not set(train) & set(held_out)
    assert len(train) + len(held_out) == 900 * 6
    assert len(held_out) == 2043


@pytest.mark.parametrize(
    ("first", "second", "answer", "careless"),
    [
        pytest.param(341, 8, "349", "349", id="no carry, no mistake"),
        pytest.param(347, 8, "355", "345", id="a carry forgotten"),
        pytest.param(999, 9, "1008", "998", id="a longer answer"),
    ],
)
def test_careless_answer_is_wrong_only_where_there_is_a_carry(first, second, answer, careless):
    problem = Sum(first=first, second=second)

    assert problem.answer == answer
    assert problem.answer_without_carry == careless


def test_problems_mostly_have_a_carry():
    with_carry = [each for each in sums(Split.HELD_OUT) if each.answer != each.answer_without_carry]

    assert 0.6 < len(with_carry) / len(sums(Split.HELD_OUT)) < 0.8


def test_dataset_has_the_form_of_gsm8k_and_follows_its_seed(tmp_path):
    paths = [tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl")]
    for path, seed in zip(paths, (1, 1, 2), strict=True):
        write_dataset(path, count=50, seed=seed, split=Split.TRAIN)

    first, same, other = (path.read_text() for path in paths)

    assert first == same != other
    lines = [json.loads(line) for line in first.splitlines()]
    assert len({line["question"] for line in lines}) == 50
    for line in lines:
        left, right = line["question"].removesuffix("=").split("+")
        assert line["answer"] == f"#### {int(left) + int(right)}"


@pytest.mark.parametrize("count", [0, 5000])
def test_dataset_larger_than_its_split_is_refused_with_the_limit(tmp_path, count):
    with pytest.raises(ValueError, match=rf"count must be between 1 and 3357.*got {count}"):
        write_dataset(tmp_path / "data.jsonl", count=count, seed=1, split=Split.TRAIN)
