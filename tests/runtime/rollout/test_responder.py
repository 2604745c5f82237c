"""Scores of one response: rewards, their penalty, and responses that are not judged."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from hetrl_core.job.reward import LengthPenalty, PythonReward
from hetrl_core.job.spec import DataSpec, ModelFiles
from hetrl_runtime.metrics.rollout import RolloutMetrics
from hetrl_runtime.reward.scorer import Scorer
from hetrl_runtime.reward.verdict import Response, Score, Unjudged, UnjudgedReason
from hetrl_runtime.rollout.errors import UnknownTokenError
from hetrl_runtime.rollout.observer import RolloutObserver
from hetrl_runtime.rollout.prompts import PromptTooLong
from hetrl_runtime.rollout.responder import Equipment, Responder
from hetrl_runtime.wire.trajectory import FailedTrajectory, SampledTrajectory, TrajectoryId
from hetrl_runtime.wire.values import PromptLease
from tests.runtime.launches import a_launch
from tests.runtime.trajectories import a_trajectory

LEASE = PromptLease(
    epoch=1, group=0, members=(0,), question="3+4?", answer="7", columns=json.dumps({"level": 2})
)


@dataclass
class FixedScorer:
    """A scorer that gives one score, and keeps what it was asked."""

    given: Score | Unjudged
    asked: list[Response] = field(default_factory=list)

    async def score(self, response: Response, **_: Any) -> Score | Unjudged:
        self.asked.append(response)
        return self.given


@dataclass
class FixedInference:
    """An inference worker's reward model that gives one reward."""

    value: float

    async def reward(self, *_: Any, **__: Any) -> float:
        return self.value


async def scored(
    scorer: FixedScorer | Scorer, registry: CollectorRegistry, *, directory: Path, **others: Any
) -> SampledTrajectory | FailedTrajectory | None:
    data = DataSpec(
        prompts="",
        reward="python",
        python=PythonReward(file="score.py"),
        length_penalty=others.pop("penalty", None),
    )
    metrics = RolloutMetrics(registry)
    equipment = SimpleNamespace(
        engine=None,
        prompts=SimpleNamespace(decode=lambda tokens: f"{len(tokens)} tokens"),
        scorer=scorer,
        client=SimpleNamespace(wants=lambda _: True),
        inference=others.pop("inference", None),
    )
    responder = Responder(
        replace(a_launch(directory), data=data),
        process="rollout-0",
        equipment=cast("Equipment", equipment),
        observer=RolloutObserver(metrics),
    )
    return await responder.score(a_trajectory(versions=[0, 0, 0]), LEASE)


async def test_scorer_gets_all_that_is_known_of_the_response(tmp_path: Path) -> None:
    scorer = FixedScorer(Score(reward=1.0, parts={"correct": 1.0, "form": 0.5}))

    found = await scored(scorer, CollectorRegistry(), directory=tmp_path)

    assert isinstance(found, SampledTrajectory)
    assert found.reward == 1.0
    assert found.reward_parts == {"correct": 1.0, "form": 0.5}
    assert scorer.asked == [
        Response(text="3 tokens", reference="7", prompt="3+4?", columns={"level": 2})
    ]


async def test_unjudged_response_fails_with_the_rewards_error_and_counts(
    tmp_path: Path,
) -> None:
    registry = CollectorRegistry()
    unjudged = Unjudged(reason=UnjudgedReason.FUNCTION_RAISED, detail="KeyError: 'level'")

    found = await scored(
        FixedScorer(unjudged), registry, directory=tmp_path, penalty=LengthPenalty(buffer_tokens=1)
    )

    assert isinstance(found, FailedTrajectory)
    assert found.error == "the reward was not judged: FunctionRaised: KeyError: 'level'"
    assert found.unjudged == "FunctionRaised"
    labels = {"reason": "FunctionRaised"}
    assert registry.get_sample_value("hetrl_rewards_unjudged_total", labels) == 1


@pytest.mark.parametrize(
    ("value", "is_judged"), [(0.5, True), (float("inf"), False), (1e39, False)]
)
async def test_reward_of_a_model_is_bounded_too(
    tmp_path: Path, value: float, is_judged: bool
) -> None:
    by_model = Scorer(DataSpec(prompts="", reward="model", model=ModelFiles(source="model")))
    found = await scored(
        by_model, CollectorRegistry(), directory=tmp_path, inference=FixedInference(value)
    )

    assert isinstance(found, SampledTrajectory if is_judged else FailedTrajectory)


@dataclass
class RefusingEngine:
    """An engine that refuses every request."""

    error: Exception

    async def generate(self, _: Any) -> Any:
        raise self.error


@pytest.mark.parametrize(
    ("error", "left_out", "said"),
    [
        (UnknownTokenError(130, 128), "TokenUnknown", "token 130 of 128"),
        (ValueError("request 1 cannot begin"), "", "request 1 cannot begin"),
        (None, "PromptTooLong", "the prompt has 548 tokens, data.maxPromptTokens is 64"),
    ],
    ids=["unknown token", "request", "too long"],
)
async def test_prompt_that_is_refused_fails_with_its_reason(
    tmp_path: Path, error: Exception | None, left_out: str, said: str
) -> None:
    too_long = PromptTooLong(num_tokens=548, max_prompt_tokens=64)
    equipment = SimpleNamespace(
        engine=RefusingEngine(error) if error else None,
        prompts=SimpleNamespace(
            encode=lambda *_, **__: (5, 130) if error else too_long,
            no_row=lambda token, num_rows: f"token {token} of {num_rows}",
            calls=None,
        ),
        scorer=None,
        client=None,
        inference=None,
    )
    responder = Responder(
        a_launch(tmp_path),
        process="rollout-0",
        equipment=cast("Equipment", equipment),
        observer=RolloutObserver(RolloutMetrics(CollectorRegistry())),
    )

    found = await responder.sample(LEASE, TrajectoryId(0, 0))

    assert isinstance(found, FailedTrajectory)
    assert (found.left_out, found.error) == (left_out, said)


@pytest.mark.parametrize(
    "reason", [UnjudgedReason.REFERENCE_UNREADABLE, UnjudgedReason.SOURCE_UNKNOWN]
)
async def test_row_that_no_reward_can_judge_leaves_its_prompt_out(
    tmp_path: Path, reason: UnjudgedReason
) -> None:
    unjudged = Unjudged(reason=reason, detail="no value")

    found = await scored(FixedScorer(unjudged), CollectorRegistry(), directory=tmp_path)

    assert isinstance(found, FailedTrajectory)
    assert found.left_out == reason
