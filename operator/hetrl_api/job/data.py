"""`spec.data`: the prompts, how answers are scored, and how long both may be."""

import re
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints, field_validator
from pydantic_core import PydanticCustomError

from hetrl_api.job.source import SOURCE_MEMBERS, Source, SubPath
from hetrl_api.validation.rules import ApiModel, Rule, exactly_one, not_yet
from hetrl_core.job.spec import Reward, Tool

Tokens = Annotated[int, Field(ge=1, le=10_000_000)]


FieldName = Annotated[str, StringConstraints(min_length=1, max_length=128)]

RewardName = Annotated[
    str, StringConstraints(max_length=63, pattern=r"^[a-z0-9]([-_.a-z0-9]*[a-z0-9])?$")
]


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
        except re.error as error:
            raise PydanticCustomError(
                "regex", "is not a regular expression of Python ({reason})", {"reason": str(error)}
            ) from error
        return pattern


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

    rules: ClassVar[tuple[Rule, ...]] = (
        exactly_one("spec.data.python.source", SOURCE_MEMBERS, of="self.source"),
        not_yet("spec.data.python.source.hub", path="self.source.hub", instead="use path or claim"),
        not_yet("spec.data.python.source.uri", path="self.source.uri", instead="use path or claim"),
    )


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


class Data(ApiModel):
    """Prompts and rewards."""

    prompts: Source
    """A JSONL file; a Parquet file (`.parquet`); or a pattern for the shards of one split
    (`data/train-*.parquet`). With hub: the data set. What is not on a volume the coordinator
    fetches once."""

    files: SubPath | None = None
    """With hub: which of the data set's files, in the same forms: `main/train-*.parquet`."""

    revision: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """With hub: branch, tag or commit. A run reads one commit, whatever becomes of a branch."""

    question_field: FieldName = "question"
    """The field or column of the problem: `question` in GSM8K, `problem` in MATH-500. Text, or the
    messages of a chat that ends in a user's; `a.b` is field `b` inside field `a`."""

    answer_field: FieldName = "answer"
    """That of the reference answer: a number, or text, which may be a worked solution that ends in
    `#### 18`. In verl's data `reward_model.ground_truth`."""

    reward: RewardName = Reward.MATH.value
    """math: 1 where the answers are equal as mathematics; exact: 1 where they are equal as text;
    regex: 1 where a pattern is found; python: what your own function returns; model: what a reward
    model says. Any other name is that of an entry point `hetrl.rewards` of a package in the rollout
    image: a function like that of python, trusted as the image is."""

    regex: Regex | None = None
    """With reward regex: the pattern."""

    python: Python | None = None
    """With reward python: the function."""

    model: RewardModel | None = None
    """With reward model: the model."""

    length_penalty: LengthPenalty | None = None
    """Taken off whatever the reward is; unset: length is free."""

    tools: Annotated[tuple[Tool, ...], Field(max_length=8)] = ()
    """What the policy may call while it answers; what a tool writes is not trained on. calculator:
    exact arithmetic. The model's tokenizer must have `</tool_call>` as one token, as those of
    Qwen2.5 and Qwen3 do. What it writes after the last result is scored."""

    max_prompt_tokens: Tokens = 512
    """Longer prompts are refused."""

    max_response_tokens: Tokens = 1024
    """Longer responses are cut. Counts all turns, and what tools write."""

    mean_response_tokens: Tokens | None = None
    """What planning expects; unset: half of maxResponseTokens."""

    rules: ClassVar[tuple[Rule, ...]] = (
        exactly_one("spec.data.prompts", SOURCE_MEMBERS, of="self.prompts"),
        Rule(
            condition=(
                "!has(self.prompts.uri) || self.prompts.uri.matches("
                "'^(s3|gs|az|https?)://[^/?#]+/[^?#]*[^/?#]$')"
            ),
            message=(
                "spec.data.prompts.uri must name an object: s3://BUCKET/PATH, or so with gs, az, "
                "https or http, got {}"
            ),
            values=("self.prompts.uri",),
            field=".prompts.uri",
        ),
        Rule(
            condition=(
                "!has(self.prompts.uri) || !self.prompts.uri.startsWith('http') || "
                "!self.prompts.uri.contains('*')"
            ),
            message=(
                "spec.data.prompts.uri must not be a pattern: a web server does not list its files"
            ),
            field=".prompts.uri",
        ),
        Rule(
            condition="has(self.files) == has(self.prompts.hub)",
            message="spec.data.files must be set if and only if spec.data.prompts.hub is",
            field=".files",
        ),
        Rule(
            condition="!has(self.revision) || has(self.prompts.hub)",
            message="spec.data.revision needs spec.data.prompts.hub",
            field=".revision",
        ),
        *(
            Rule(
                condition=f"(self.reward == '{name}') == has(self.{name})",
                message=(
                    f"spec.data.{name} must be set if and only if spec.data.reward is {name}, "
                    "got reward {}"
                ),
                values=("self.reward",),
                field=f".{name}",
            )
            for name in (Reward.REGEX, Reward.PYTHON, Reward.MODEL)
        ),
        Rule(
            condition=(
                "!has(self.tools) || "
                "self.tools.all(each, self.tools.exists_one(other, other == each))"
            ),
            message="spec.data.tools must not name a tool twice",
            field=".tools",
        ),
        Rule(
            condition=(
                "!has(self.lengthPenalty) || "
                "self.lengthPenalty.bufferTokens <= self.maxResponseTokens"
            ),
            message=(
                "spec.data.lengthPenalty.bufferTokens must be <= maxResponseTokens ({}), got {}"
            ),
            values=("self.maxResponseTokens", "self.lengthPenalty.bufferTokens"),
            field=".lengthPenalty",
        ),
        Rule(
            condition=(
                "!has(self.meanResponseTokens) || self.meanResponseTokens <= self.maxResponseTokens"
            ),
            message="spec.data.meanResponseTokens must be <= maxResponseTokens ({}), got {}",
            values=("self.maxResponseTokens", "self.meanResponseTokens"),
            field=".meanResponseTokens",
        ),
    )
