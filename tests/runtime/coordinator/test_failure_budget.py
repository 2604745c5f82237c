"""The end of a run in which no prompt works, with the last one's own error."""

from pathlib import Path

from hetrl_runtime.coordinator.rules.failure_budget import FailureBudget
from hetrl_runtime.coordinator.rules.prompts import Prompts
from hetrl_runtime.data.open_prompts import open_prompts
from hetrl_runtime.data.prompt import Unusable
from hetrl_runtime.wire.trajectory import FailedTrajectory


def test_run_ends_with_the_error_of_the_last_prompt(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"question": "3+4?", "answer": "7"}\n' * 2)
    prompts = open_prompts(path)
    assert not isinstance(prompts, Unusable)
    budget = FailureBudget(Prompts(prompts, seed=1))

    endings = [
        budget.given_up(
            FailedTrajectory(
                group=group, member=0, epoch=1, process="rollout-0", error="out of memory"
            )
        )
        for group in range(2)
    ]
    prompts.close()
    ending = endings.pop()
    assert endings == [None]

    assert ending is not None
    assert ending.reason == "RolloutFailed"
    assert ending.message.startswith("2 prompts in a row could not be generated, the last (")
    assert ending.message.endswith("because: out of memory")
