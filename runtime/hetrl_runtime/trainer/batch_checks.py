"""Checks of a batch before training: staleness, and a learning signal.

Pure. The coordinator has checked staleness when it handed the batch out; the trainer applies the
same rule again, at the last place where it can prevent a violation.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from hetrl_core.staleness import StalenessBound, staleness
from hetrl_runtime.wire.trajectory import SampledTrajectory
from hetrl_runtime.wire.values import NO_LEARNING_SIGNAL, Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A batch after the strict check."""

    admitted: tuple[SampledTrajectory, ...]
    discarded: tuple[SampledTrajectory, ...]

    @property
    def num_tokens(self) -> int:
        """Response tokens of what is trained on."""
        return sum(each.num_response_tokens for each in self.admitted)


def check(
    trajectories: Sequence[SampledTrajectory], *, bound: StalenessBound, version: int
) -> Checked:
    """Split a batch into what ``version`` may train on, and what it must not.

    Raises:
        ValueError: a token comes from a version that does not exist yet.
    """
    admitted = tuple(each for each in trajectories if _is_fresh(each, bound, version))
    kept = {each.id for each in admitted}
    return Checked(
        admitted=admitted,
        discarded=tuple(each for each in trajectories if each.id not in kept),
    )


def shuffled(rewards: Sequence[float], *, seed: int, version: int) -> list[float]:
    """Shuffle a batch's rewards: a control experiment without the information of rewards."""
    dealt = list(rewards)
    random.Random(f"rewards/{seed}/{version}").shuffle(dealt)  # noqa: S311  # not a secret
    return dealt


class SignalWatch:
    """A count of steps in a row in which no group's rewards differed."""

    def __init__(self, *, max_steps: int = 10) -> None:
        """Give up after ``max_steps``: one step may have easy or hopeless prompts only."""
        self._max_steps = max_steps
        self._silent_steps = 0
        self._rewards: set[float] = set()

    def see(self, *, groups: Sequence[int], rewards: Sequence[float]) -> Ending | None:
        """Take a step's rewards in; return how the run ends when there is nothing to learn."""
        by_group: dict[int, set[float]] = {}
        for group, reward in zip(groups, rewards, strict=True):
            by_group.setdefault(group, set()).add(reward)
        if any(len(each) > 1 for each in by_group.values()):
            self._silent_steps, self._rewards = 0, set()
            return None
        self._silent_steps += 1
        self._rewards.update(rewards)
        if self._silent_steps < self._max_steps:
            return None
        return Ending(reason=NO_LEARNING_SIGNAL, message=self._message())

    def _message(self) -> str:
        if len(self._rewards) == 1:
            what = f"every reward of the last {self._silent_steps} steps was {min(self._rewards):g}"
        else:
            what = f"rewards did not vary within any group for {self._silent_steps} steps"
        return f"{what}: check data.reward, the prompts and data.maxResponseTokens"


def _is_fresh(trajectory: SampledTrajectory, bound: StalenessBound, version: int) -> bool:
    # A response without sampled tokens has no staleness, and nothing to train on.
    versions = trajectory.sampled_versions.tolist()
    return bool(versions) and bound.admits(staleness(versions, version=version))
