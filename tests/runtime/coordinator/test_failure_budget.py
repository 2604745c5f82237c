"""The end of a run in which no prompt works, with the last one's own error."""

from pathlib import Path

import pytest

from hetrl_runtime.coordinator.rules.failure_budget import FailureBudget
from hetrl_runtime.coordinator.rules.prompts import Prompts
from hetrl_runtime.data.open_prompts import open_prompts
from hetrl_runtime.data.prompt import Unusable
from hetrl_runtime.wire.trajectory import FailedTrajectory

UNJUDGED = "the reward was not judged: FunctionRaised: KeyError: 'x'"


@pytest.mark.parametrize(
    ("error", "unjudged", "what"),
    [
        ("the prompt has 548 tokens", "", "could not be generated"),
        (UNJUDGED, "FunctionRaised", "could not be judged"),
    ],
)
def test_run_ends_with_the_error_of_the_last_prompt(
    tmp_path: Path, error: str, unjudged: str, what: str
) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"question": "3+4?", "answer": "7"}\n' * 2)
    prompts = open_prompts(path)
    assert not isinstance(prompts, Unusable)
    budget = FailureBudget(Prompts(prompts, seed=1))
    failed = FailedTrajectory(
        group=0, member=0, epoch=1, process="rollout-0", error=error, unjudged=unjudged
    )

    assert budget.given_up(failed) is None
    ending = budget.given_up(failed)
    prompts.close()

    assert ending is not None
    assert ending.reason == "RolloutFailed"
    assert ending.message.startswith(f"2 prompts in a row {what}, the last (line ")
    assert ending.message.endswith(f"because: {error}")
