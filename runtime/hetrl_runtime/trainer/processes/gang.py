"""The models that are trained in lockstep, each by processes of its own; frozen, pure.

The policy is the first. ``place`` has the place of a process among those of one model.
"""

from dataclasses import dataclass
from itertools import accumulate
from typing import Self

from hetrl_core.launch import Launch
from hetrl_core.plan.training_split import TrainingSplit

_POLICY, _CRITIC = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """All processes that start, train and end together, those of each model in a row."""

    splits: tuple[TrainingSplit, ...]
    """Of each model."""

    number: int = _POLICY
    """Which of the models this process has a part of."""

    @classmethod
    def of(cls, launch: Launch, *, trains_critic_apart: bool) -> Self:
        """Return the gang that a launch contract tells of, as one of its processes sees it.

        Raises:
            ValueError: the contract knows of no critic apart.
        """
        if launch.critic_split is None:
            if trains_critic_apart:
                raise ValueError(f"pod set {launch.pod_set} trains a critic; critic_split is none")
            return cls(splits=(launch.training_split,))
        return cls(
            splits=(launch.training_split, launch.critic_split),
            number=_CRITIC if trains_critic_apart else _POLICY,
        )

    @property
    def split(self) -> TrainingSplit:
        """How this process's model is split."""
        return self.splits[self.number]

    @property
    def num_ranks(self) -> int:
        """Processes of all models."""
        return sum(each.num_ranks for each in self.splits)

    @property
    def first_ranks(self) -> tuple[int, ...]:
        """Of each model, the rank among all processes of the one that leads it."""
        return (0, *accumulate(each.num_ranks for each in self.splits[:-1]))

    @property
    def first_rank(self) -> int:
        """The rank among all processes of the one that leads this process's model."""
        return self.first_ranks[self.number]

    @property
    def is_apart(self) -> bool:
        """Whether models have processes of their own."""
        return len(self.splits) > 1
