"""Several data sets as one: shares, passes, sources, and the order on resume."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hetrl_core.job.spec import DataSpec, PromptSet
from hetrl_runtime.data.mixture import MixtureOrder, shares
from hetrl_runtime.data.open_data import open_data, order_of
from hetrl_runtime.data.order import PassOrder
from hetrl_runtime.data.prompt import PromptSource, Unusable


def written(path: Path, count: int, **more: Any) -> str:
    rows = ({"question": f"{n}?", "answer": n, **more} for n in range(count))
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return str(path)


def opened(*sets: PromptSet, **changes: Any) -> PromptSource:
    found = open_data(DataSpec(prompts="", sets=sets), **changes)
    assert not isinstance(found, Unusable), found
    return found


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ((1.0,), [1000]),
        ((1.0, 1.0), [500, 500]),
        ((3.0, 1.0), [750, 250]),
        ((1.0, 1.0, 1.0), [334, 333, 333]),
        ((1e9, 1.0), [999, 1]),
    ],
)
def test_shares_add_up_and_are_at_least_one(
    weights: tuple[float, ...], expected: list[int]
) -> None:
    assert shares(weights).tolist() == expected


def test_mixture_gives_each_set_its_share_in_whole_passes() -> None:
    order = MixtureOrder(sizes=(10, 300), weights=(3.0, 1.0), seed=7)

    indices = [order.index(number) for number in range(4000)]

    small = [each for each in indices if each < 10]
    large = [each for each in indices if each >= 10]
    assert (len(small), len(large)) == (3000, 1000)
    # No prompt comes again before all of its set have come.
    assert set(Counter(small).values()) == {300}
    assert Counter(Counter(large).values()) == {3: 200, 4: 100}
    for start in range(0, 3000, 10):
        assert sorted(small[start : start + 10]) == list(range(10))


def test_mixture_has_the_same_order_from_any_place() -> None:
    def fresh() -> MixtureOrder:
        return MixtureOrder(sizes=(10, 300), weights=(3.0, 1.0), seed=7)

    whole = [fresh().index(number) for number in (0, 999, 1000, 5555)]
    order = fresh()
    walked = {number: order.index(number) for number in range(5556)}

    assert [walked[number] for number in (0, 999, 1000, 5555)] == whole
    assert whole != [
        MixtureOrder(sizes=(10, 300), weights=(3.0, 1.0), seed=8).index(number)
        for number in (0, 999, 1000, 5555)
    ]


def test_order_of_one_set_is_that_of_earlier_releases(tmp_path: Path) -> None:
    data = DataSpec(prompts=written(tmp_path / "a.jsonl", 50))
    prompts = open_data(data)
    assert not isinstance(prompts, Unusable)

    order = order_of(prompts, seed=3)
    prompts.close()

    assert order == PassOrder(num_prompts=50, seed=3)
    assert [order.index(number) for number in range(5)] == [2, 11, 17, 28, 32]


def test_prompts_of_a_mixture_name_their_set(tmp_path: Path) -> None:
    sets = (
        PromptSet(name="sums", prompts=written(tmp_path / "a.jsonl", 3)),
        PromptSet(name="own", prompts=written(tmp_path / "b.jsonl", 2, data_source="theirs")),
        PromptSet(name="more", prompts=written(tmp_path / "c.jsonl", 4), answer_field="question"),
    )

    prompts = opened(*sets, keeps_others=True)
    found = [prompts[index] for index in range(len(prompts))]
    prompts.close()

    assert [each.set_name for each in found] == ["sums"] * 3 + ["own"] * 2 + ["more"] * 4
    assert [each.columns["data_source"] for each in found] == (
        ["sums"] * 3 + ["theirs"] * 2 + ["more"] * 4
    )
    assert (found[8].answer, found[8].line) == ("3?", 4)


def test_set_that_cannot_be_used_is_named_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text("[]\n")
    sets = (
        PromptSet(name="sums", prompts=written(tmp_path / "a.jsonl", 3)),
        PromptSet(name="bad", prompts=str(tmp_path / "b.jsonl")),
    )

    found = open_data(DataSpec(prompts="", sets=sets))

    assert found == Unusable(message=f"{tmp_path}/b.jsonl has no prompts: the file is empty")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prompts": "a.jsonl"}, "data.sets takes the place of data.prompts"),
        ({"sets": (PromptSet(name="a", prompts="x"),) * 2}, "must not have a name twice, got a, a"),
        (
            {"sets": (PromptSet(name="a", prompts="x", weight=0.0),)},
            r"data.sets\[a\].weight must be > 0",
        ),
    ],
)
def test_sets_that_contradict_each_other_are_refused(changes: Any, said: str) -> None:
    given = {"prompts": "", "sets": (PromptSet(name="a", prompts="x"),), **changes}
    with pytest.raises(ValueError, match=said):
        DataSpec(**given)
