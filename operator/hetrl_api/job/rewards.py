"""`spec.data.reward` and its settings, and those of each of `spec.data.rewards`."""

import re
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints, field_validator
from pydantic_core import PydanticCustomError

from hetrl_api.job.source import SOURCE_MEMBERS, Source
from hetrl_api.validation.rules import ApiModel, Rule, exactly_one, not_yet
from hetrl_core.job.reward import AnswerForm, Reward

Tokens = Annotated[int, Field(ge=1, le=10_000_000)]

RewardName = Annotated[
    str, StringConstraints(max_length=63, pattern=r"^[a-z0-9]([-_.a-z0-9]*[a-z0-9])?$")
]


class Math(ApiModel):
    """In which forms a response may state its answer."""

    answer_forms: Annotated[tuple[AnswerForm, ...], Field(max_length=3)] = ()
    r"""The only forms that count; the last one in a response is its answer, and a response without
    one is worth 0. Boxed: `\boxed{42}`; HashLine: a line `#### 42`; AnswerTag:
    `<answer>42</answer>`. Unset: all of these, and without any what a sentence says."""


class Regex(ApiModel):
    """What a response must contain to be worth 1."""

    pattern: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    """A regular expression of Python, found anywhere in the response. Where it has a group named
    `answer`, what that found last must be the reference answer as well."""

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError, MemoryError) as error:
            raise PydanticCustomError(
                "regex", "is not a regular expression of Python ({reason})", {"reason": str(error)}
            ) from error
        return pattern


def _file_rules(field: str) -> tuple[Rule, ...]:
    instead = "use path or claim"
    return (
        exactly_one(field, SOURCE_MEMBERS, of="self.source"),
        not_yet(f"{field}.hub", path="self.source.hub", instead=instead),
        not_yet(f"{field}.uri", path="self.source.uri", instead=instead),
    )


class Python(ApiModel):
    """A function of your own, `(response: str, answer: str) -> float`, in processes of its own.

    They have no network, start no other and change no file. They read Python, its libraries and the
    folder of the file, and see no environment. The function may ask for prompt, reference and
    columns by name, or have verl's or TRL's parameters. A response that it fails on is not judged.
    """

    source: Source
    """The file."""

    function: Annotated[
        str, StringConstraints(max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    ] = "score"
    """Its name in the file."""

    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 60.0
    """For one response, by the clock: a guard against a function that waits for ever."""

    cpu_seconds: Annotated[int, Field(ge=1, le=600)] = 2
    """For one response, of a processor's time."""

    memory_mib: Annotated[int, Field(alias="memoryMiB", ge=64, le=1_048_576)] = 1024
    """Of address space, Python and libraries included."""

    rules: ClassVar[tuple[Rule, ...]] = _file_rules("spec.data.python.source")


class RewardModel(ApiModel):
    """A model that says how good a response is.

    Of an architecture of Hugging Face for sequence classification, with one output, as reward
    models are published. Inference workers have it, on GPUs of the plan, and planning takes it to
    be as large as the policy.
    """

    source: Source
    """A folder in Hugging Face format (config.json, safetensors, tokenizer), or a hub id. Its own
    chat template, where it has one, is put around a question and a response."""

    revision: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """Branch, tag or commit of the hub model."""

    rules: ClassVar[tuple[Rule, ...]] = (
        exactly_one("spec.data.model.source", SOURCE_MEMBERS, of="self.source"),
        not_yet(
            "spec.data.model.source.uri", path="self.source.uri", instead="use path, hub or claim"
        ),
        Rule(
            condition="!has(self.revision) || has(self.source.hub)",
            message="spec.data.model.revision needs spec.data.model.source.hub",
            field=".revision",
        ),
    )


class LengthPenalty(ApiModel):
    """What long responses lose (DAPO's soft overlong punishment).

    Nothing before the buffer, `weight` at maxResponseTokens, and in between the more the longer.
    """

    buffer_tokens: Tokens
    """The last tokens before maxResponseTokens, over which it grows."""

    weight: Annotated[float, Field(gt=0, le=1000)] = 1.0
    """The most that a response loses."""


class NamedPython(Python):
    """A function of your own, as in `spec.data.python`."""

    rules: ClassVar[tuple[Rule, ...]] = _file_rules("spec.data.rewards[].python.source")


class NamedReward(ApiModel):
    """One of several rewards of a response."""

    name: Annotated[str, StringConstraints(max_length=32, pattern=r"^[a-z]([-_a-z0-9]*[a-z0-9])?$")]
    """Its name in metrics, step records, samples and messages."""

    weight: Annotated[float, Field(ge=-1e6, le=1e6)] = 1.0
    """What it is multiplied by before all are added up. 0: it is logged, and nothing is learned of
    it; below 0: it is a penalty."""

    sources: Annotated[
        tuple[Annotated[str, StringConstraints(min_length=1, max_length=256)], ...],
        Field(max_length=32),
    ] = ()
    """The rows that it is for, by the value of their `sourceField`; unset: all rows. A row that
    none of the rewards is for is left out."""

    reward: RewardName = Reward.MATH.value
    """math, exact, regex, python, model, or an entry point, as in `spec.data.reward`."""

    math: Math | None = None
    """With reward math: in which forms an answer counts."""

    regex: Regex | None = None
    """With reward regex: the pattern."""

    python: NamedPython | None = None
    """With reward python: the function."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *(
            Rule(
                condition=f"(self.reward == '{name}') == has(self.{name})",
                message=(
                    f"spec.data.rewards[{{}}].{name} must be set if and only if the reward there "
                    f"is {name}, got reward {{}}"
                ),
                values=("self.name", "self.reward"),
                field=f".{name}",
            )
            for name in (Reward.REGEX, Reward.PYTHON)
        ),
        Rule(
            condition="!has(self.math) || self.reward == 'math'",
            message="spec.data.rewards[{}].math needs reward math there, got reward {}",
            values=("self.name", "self.reward"),
            field=".math",
        ),
        Rule(
            condition=(
                "!has(self.sources) || "
                "self.sources.all(each, self.sources.exists_one(other, other == each))"
            ),
            message="spec.data.rewards[{}].sources must not name a source twice",
            values=("self.name",),
            field=".sources",
        ),
    )
