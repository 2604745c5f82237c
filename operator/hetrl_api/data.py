"""`spec.data`: the prompts, how answers are scored, and how long both may be."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from hetrl_api.rules import ApiModel, Rule, exactly_one, not_yet
from hetrl_api.source import SOURCE_MEMBERS, Source

Tokens = Annotated[int, Field(ge=1, le=10_000_000)]


class Reward(StrEnum):
    """How an answer is scored."""

    MATH = "math"
    EXACT = "exact"


class Data(ApiModel):
    """Prompts and rewards."""

    prompts: Source
    """A JSONL file with `question` and `answer` on each line."""

    reward: Reward = Reward.MATH
    """math: 1 where the answers are equal as mathematics; exact: 1 where they are equal as text."""

    max_prompt_tokens: Tokens = 512
    """Longer prompts are refused."""

    max_response_tokens: Tokens = 1024
    """Longer responses are cut."""

    mean_response_tokens: Tokens | None = None
    """What planning expects; unset: half of maxResponseTokens."""

    rules: ClassVar[tuple[Rule, ...]] = (
        exactly_one("spec.data.prompts", SOURCE_MEMBERS, of="self.prompts"),
        not_yet("spec.data.prompts.hub", path="self.prompts.hub", instead="use path or claim"),
        not_yet("spec.data.prompts.uri", path="self.prompts.uri", instead="use path or claim"),
        Rule(
            condition=(
                "!has(self.meanResponseTokens) || self.meanResponseTokens <= self.maxResponseTokens"
            ),
            message="spec.data.meanResponseTokens must be <= maxResponseTokens ({}), got {}",
            values=("self.maxResponseTokens", "self.meanResponseTokens"),
            field=".meanResponseTokens",
        ),
    )
