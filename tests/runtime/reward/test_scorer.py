"""The sum of a job's rewards: weights, sources, and rewards that are not judged."""

from collections.abc import Mapping
from typing import Any

import pytest

from hetrl_core.job.reward import PythonReward, RegexReward, RewardPart
from hetrl_core.job.spec import DataSpec, ModelFiles
from hetrl_runtime.reward.scorer import Scorer, combined
from hetrl_runtime.reward.sources import parts_for, source_of, unknown_source
from hetrl_runtime.reward.verdict import (
    Response,
    Score,
    Unjudged,
    UnjudgedReason,
    Verdict,
)

CORRECT = RewardPart(name="correct", sources=("gsm8k", "math"))
FORM = RewardPart(name="form", weight=0.5, reward="regex", regex=RegexReward(pattern="^Answer"))
CODE = RewardPart(
    name="code", weight=2.0, sources=("code",), reward="python", python=PythonReward(file="x.py")
)
DATA = DataSpec(prompts="", rewards=(CORRECT, FORM, CODE))
ONLY = DataSpec(prompts="", rewards=(CORRECT, CODE))
LATE = Unjudged(reason=UnjudgedReason.TIME_LIMIT, detail="too long")


@pytest.mark.parametrize(
    ("verdicts", "score"),
    [
        ({"correct": 1.0, "form": 1.0}, 1.5),
        ({"form": 1.0, "code": -1.0}, -1.5),
        ({"form": 0.0}, 0.0),
    ],
)
def test_rewards_are_added_up_by_weight(verdicts: dict[str, float], score: float) -> None:
    assert combined(DATA, verdicts) == Score(reward=score, parts=verdicts)


def test_reward_without_others_has_no_parts() -> None:
    assert combined(DataSpec(prompts=""), {"math": 1.0}) == Score(reward=1.0)


@pytest.mark.parametrize(
    ("data", "verdicts", "said"),
    [
        (DATA, {"form": 1.0, "code": LATE}, "TimeLimit: data.rewards[code]: too long"),
        (DataSpec(prompts=""), {"math": LATE}, "TimeLimit: too long"),
        (DATA, {"form": 1.0, "code": 3e38}, "NotFinite: the reward function returned 6e+38"),
    ],
    ids=["one of several", "the only one", "the sum"],
)
def test_response_without_one_reward_is_unjudged_and_names_it(
    data: DataSpec, verdicts: Mapping[str, Verdict], said: str
) -> None:
    found = combined(data, verdicts)

    assert isinstance(found, Unjudged)
    assert said in str(found)


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ({"data_source": "math"}, ["correct", "form"]),
        ({"data_source": "code"}, ["form", "code"]),
        ({"data_source": None}, ["form"]),
        ({}, ["form"]),
    ],
)
def test_rewards_of_a_row_follow_from_its_source(columns: dict[str, Any], names: list[str]) -> None:
    assert [each.name for each in parts_for(DATA, columns)] == names


@pytest.mark.parametrize(
    ("field", "columns", "source"),
    [
        ("data_source", {"data_source": "math"}, "math"),
        ("extra.level", {"extra": {"level": 3}}, "3"),
        ("extra.level", {"extra": "text"}, ""),
    ],
)
def test_source_is_read_from_its_field(field: str, columns: dict[str, Any], source: str) -> None:
    assert source_of(DataSpec(prompts="", source_field=field), columns) == source


def test_unknown_source_is_named_with_the_closest_one() -> None:
    assert "'gsm8' (they are for code, gsm8k, math): is 'gsm8k' meant?" in unknown_source(
        ONLY, "gsm8"
    )
    assert "it has no 'data_source'" in unknown_source(ONLY, "")


async def test_row_of_another_source_is_unjudged_by_all() -> None:
    found = await Scorer(ONLY).score(
        Response(text="", reference="", columns={"data_source": "chat"})
    )

    assert isinstance(found, Unjudged)
    assert found.reason is UnjudgedReason.SOURCE_UNKNOWN


@pytest.mark.parametrize(
    ("reward", "score"), [(0.5, Score(reward=1.0, parts={"liked": 0.5})), (None, None)]
)
async def test_reward_model_is_one_of_several(reward: float | None, score: Score | None) -> None:
    liked = RewardPart(name="liked", weight=2.0, reward="model")
    data = DataSpec(prompts="", rewards=(liked,), model=ModelFiles(source="m"))

    async def ask_model() -> float | None:
        return reward

    async with Scorer(data) as scorer:
        assert await scorer.score(Response(text="", reference=""), ask_model=ask_model) == score


@pytest.mark.slow
async def test_rewards_of_all_kinds_judge_one_response(tmp_path: Any) -> None:
    (tmp_path / "reward.py").write_text("def score(response, answer, level):\n    return level\n")
    code = RewardPart(
        name="level",
        weight=0.25,
        reward="python",
        python=PythonReward(file=str(tmp_path / "reward.py")),
    )
    data = DataSpec(prompts="", rewards=(CORRECT, FORM, code))
    columns = {"data_source": "gsm8k", "level": 4}

    async with Scorer(data) as scorer:
        right = Response(text="Answer: 7", reference="7", columns=columns)
        wrong = Response(text="8", reference="7", columns=columns)
        found = [await scorer.score(each) for each in (right, wrong)]

    assert found == [
        Score(reward=2.5, parts={"correct": 1.0, "form": 1.0, "level": 4.0}),
        Score(reward=1.0, parts={"correct": 0.0, "form": 0.0, "level": 4.0}),
    ]
