"""One sampled response, as every process of a run sees it.

The staleness rule decides whether it may be trained on; the coordinator, who may deliver it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.int32]
LogProbs = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

TOOL_VERSION = -1
"""In the place of a policy version: a tool wrote the token, and no policy sampled it."""

EQUAL_REWARDS = 1e-6
"""Rewards closer together than this are equal: what is left is rounding."""


class TrajectoryId(NamedTuple):
    """The identity of a trajectory: its prompt's group, and its member number.

    ``group`` counts prompts from the first of the first pass over the data, so that an id
    never comes twice in a run.
    """

    group: int
    member: int

    def __str__(self) -> str:
        return f"{self.group}/{self.member}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampledTrajectory:
    """A response with all that training on it needs.

    All arrays but the prompt's have one entry per response token. They are read-only.
    """

    group: int
    member: int
    epoch: int
    """The fencing epoch of the lease that asked for it."""

    process: str
    """The rollout worker that sampled it."""

    prompt_tokens: Tokens
    response_tokens: Tokens
    behaviour_log_probs: LogProbs
    """Log-probability of each response token under the version that sampled it."""

    token_versions: Tokens
    """The policy version that sampled each response token, or ``TOOL_VERSION``; those of a policy
    never fall along the way."""

    reward: float
    finish_reason: str
    """``stop`` or ``length``."""

    generation_seconds: float = 0.0
    response_text: str = ""
    question: str = ""
    answer: str = ""
    traceparent: str = ""
    """Name of its span; empty where it is not traced."""

    reward_parts: Mapping[str, float] = field(default_factory=dict)
    """What the reward is made of, by name and before weights; empty where a job has one reward."""

    reference_log_probs: LogProbs | None = None
    """Log-probability of each response token under the frozen reference, at the policy's
    temperature; None where the trainer has the reference itself."""

    oldest_version: int = field(init=False)
    """Of the tokens' versions: what staleness is counted from."""

    newest_version: int = field(init=False)

    def __post_init__(self) -> None:
        sampled = self.sampled_versions
        oldest, newest = (
            # An array's own methods take twice as long.
            (int(np.minimum.reduce(sampled)), int(np.maximum.reduce(sampled)))
            if sampled.size
            else (-1, -1)
        )
        object.__setattr__(self, "oldest_version", oldest)
        object.__setattr__(self, "newest_version", newest)

    @property
    def id(self) -> TrajectoryId:
        """Which trajectory this is."""
        return TrajectoryId(self.group, self.member)

    @property
    def num_response_tokens(self) -> int:
        """Tokens of the response, those that tools wrote included."""
        return int(self.response_tokens.size)

    @property
    def response_mask(self) -> Mask:
        """True at the response tokens that a policy sampled, False at those that a tool wrote."""
        found: Mask = self.token_versions != TOOL_VERSION
        return found

    @property
    def sampled_versions(self) -> Tokens:
        """The versions of the tokens that a policy sampled, in order."""
        versions = self.token_versions
        if not versions.size or np.minimum.reduce(versions) > TOOL_VERSION:
            return versions
        return versions[self.response_mask]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTrajectory:
    """A response that the engine could not make or the reward did not judge, and why in words.

    Where the engine failed, the prompt is tried again, and given up after a few failures. A group
    does without a member that was not judged. A prompt that can never be used is left out.
    """

    group: int
    member: int
    epoch: int
    process: str
    error: str
    unjudged: str = ""
    """Why there is no reward, in one word; empty where there is no response."""

    left_out: str = ""
    """Why the prompt can never be used, in one word; empty where it can."""

    @property
    def id(self) -> TrajectoryId:
        """Which trajectory this would have been."""
        return TrajectoryId(self.group, self.member)


def num_tool_calls(token_versions: Tokens) -> int:
    """Count the results of tools in a response: each begins where a sampled token ends."""
    by_tool = token_versions == TOOL_VERSION
    return int(np.count_nonzero(by_tool[1:] & ~by_tool[:-1]))
