"""`spec.data`: the prompts, how answers are scored, and how long both may be."""

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints, WithJsonSchema, field_validator
from pydantic_core import PydanticCustomError

from hetrl_api.job.rewards import (
    LengthPenalty,
    Math,
    NamedReward,
    Python,
    Regex,
    RewardModel,
    RewardName,
    Tokens,
)
from hetrl_api.job.source import SOURCE_MEMBERS, Source, SubPath
from hetrl_api.validation.lists import Keyed
from hetrl_api.validation.rules import ApiModel, Rule
from hetrl_core.job.layout import Layout
from hetrl_core.job.reward import MAX_REWARDS, Reward
from hetrl_core.job.spec import Tool

FieldName = Annotated[str, StringConstraints(min_length=1, max_length=128)]

Scalar = Annotated[
    bool | int | float | Annotated[str, StringConstraints(max_length=4096)],
    WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True}),
]
"""A value of any of these types: a structural schema has no unions."""

ChatTemplateArguments = Annotated[
    dict[
        FieldName,
        Scalar,
    ],
    Field(max_length=32),
]


_TAKEN_ARGUMENTS = {"add_generation_prompt", "conversation", "messages", "tokenize", "tools"}


def _file_rules(where: str, *, has_prompts: str, name: str = "") -> tuple[Rule, ...]:
    """Return the rules of a data set's files.

    Args:
        where: the path of the object in messages, with ``{}`` for a name.
        has_prompts: CEL that is true where the object has prompts.
        name: CEL of that name; empty: none.
    """
    named = (name,) if name else ()
    members = ", ".join(f"has(self.prompts.{member})" for member in SOURCE_MEMBERS)
    return (
        Rule(
            condition=f"!{has_prompts} || [{members}].filter(x, x).size() == 1",
            message=f"{where}.prompts must set exactly one of {', '.join(SOURCE_MEMBERS)}",
            values=named,
            field=".prompts",
        ),
        Rule(
            condition=(
                f"!{has_prompts} || !has(self.prompts.uri) || self.prompts.uri.matches("
                "'^(s3|gs|az|https?)://[^/?#]+/[^?#]*[^/?#]$')"
            ),
            message=(
                f"{where}.prompts.uri must name an object: s3://BUCKET/PATH, or so with gs, az, "
                "https or http, got {}"
            ),
            values=(*named, "self.prompts.uri"),
            field=".prompts.uri",
        ),
        Rule(
            condition=(
                f"!{has_prompts} || !has(self.prompts.uri) || "
                "!self.prompts.uri.startsWith('http') || !self.prompts.uri.contains('*')"
            ),
            message=(
                f"{where}.prompts.uri must not be a pattern: a web server does not list its files"
            ),
            values=named,
            field=".prompts.uri",
        ),
        Rule(
            condition=f"!{has_prompts} || has(self.files) == has(self.prompts.hub)",
            message=f"{where}.files must be set if and only if {where}.prompts.hub is",
            values=named * 2,
            field=".files",
        ),
        Rule(
            condition=f"!{has_prompts} || !has(self.revision) || has(self.prompts.hub)",
            message=f"{where}.revision needs {where}.prompts.hub",
            values=named * 2,
            field=".revision",
        ),
    )


class PromptSet(ApiModel):
    """One of several data sets."""

    name: Annotated[
        str, StringConstraints(max_length=63, pattern=r"^[a-z0-9]([-_.a-z0-9]*[a-z0-9])?$")
    ]
    """Shown with its prompts, and the source of rows that have none."""

    prompts: Source
    """As spec.data.prompts."""

    files: SubPath | None = None
    """As spec.data.files."""

    revision: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """As spec.data.revision."""

    format: Layout | None = None
    """As spec.data.format, which is its default."""

    question_field: FieldName | None = None
    """As spec.data.questionField, which is its default."""

    answer_field: FieldName | None = None
    """As spec.data.answerField, which is its default."""

    weight: Annotated[float, Field(gt=0, le=1_000_000)] = 1.0
    """Its share of the prompts, beside the weights of the other sets."""

    rules: ClassVar[tuple[Rule, ...]] = _file_rules(
        "spec.data.sets[{}]", has_prompts="has(self.prompts)", name="self.name"
    )


class Data(ApiModel):
    """Prompts and rewards."""

    prompts: Source | None = None
    """A file of JSON lines, a JSON array, CSV (`.csv`, `.tsv`), each also compressed; a Parquet
    file (`.parquet`); or a pattern for the shards of one split (`data/train-*.parquet`). With hub:
    the data set. What is not on a volume the coordinator fetches once."""

    sets: Annotated[tuple[PromptSet, ...], Keyed(("name",), most=16)] = ()
    """Several data sets, in the place of `prompts`, each with its share of them by weight."""

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

    format: Layout | None = None
    """The layout of another project's data, which names question and answer: verl, dapo (both
    `prompt` and `reward_model.ground_truth`), openr1 (`problem`, `answer`), trl (`prompt`,
    `solution`) or openrlhf (`prompt`, `label`). A questionField or answerField other than its
    default goes first."""

    system_prompt: Annotated[str, StringConstraints(min_length=1, max_length=32_768)] | None = None
    """The system message of every chat, in place of the data's own; unset: the data's own, if any.
    """

    prompt_template: Annotated[str, StringConstraints(min_length=1, max_length=32_768)] | None = (
        None
    )
    """What the policy is asked: `{question}` stands for the question, all other text for itself.
    Rewards get the question alone. Unset: the question."""

    chat_template_arguments: ChatTemplateArguments = Field(default_factory=dict)
    """Arguments of the model's chat template by name, such as `enable_thinking: false` for Qwen3.
    """

    reward: RewardName = Reward.MATH.value
    """math: 1 where the answers are equal as mathematics; exact: 1 where they are equal as text;
    regex: 1 where a pattern is found; python: what your own function returns; model: what a reward
    model says. Any other name is that of an entry point `hetrl.rewards` of a package in the rollout
    image: a function like that of python, trusted as the image is."""

    math: Math | None = None
    """With reward math: in which forms an answer counts."""

    regex: Regex | None = None
    """With reward regex: the pattern."""

    python: Python | None = None
    """With reward python: the function."""

    rewards: Annotated[tuple[NamedReward, ...], Field(max_length=MAX_REWARDS)] = ()
    """Several rewards, which are added up by weight, in the place of `reward` and its settings.
    Each one is logged under its name; a response that one of them does not judge is not judged."""

    source_field: FieldName = "data_source"
    """With `sources` of rewards: the field or column of a row that they name values of."""

    model: RewardModel | None = None
    """With reward model, also as one of `rewards`: the model."""

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

    @field_validator("chat_template_arguments")
    @classmethod
    def _leaves_ours_alone(cls, arguments: dict[str, Scalar]) -> dict[str, Scalar]:
        """Refuse arguments that HetRL sets; a rule in CEL cannot see values without a type."""
        if taken := sorted(arguments.keys() & _TAKEN_ARGUMENTS):
            raise PydanticCustomError(
                "taken_argument",
                "must not have {taken}: HetRL sets it",
                {"taken": ", ".join(taken)},
            )
        return arguments

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            condition="has(self.prompts) != (has(self.sets) && self.sets.size() > 0)",
            message="spec.data must set exactly one of prompts and sets",
        ),
        Rule(
            condition=(
                "!has(self.sets) || self.sets.size() == 0 || "
                "!(has(self.files) || has(self.revision))"
            ),
            message="spec.data.files and revision belong to each of spec.data.sets",
            field=".sets",
        ),
        *_file_rules("spec.data", has_prompts="has(self.prompts)"),
        Rule(
            condition="!has(self.promptTemplate) || self.promptTemplate.contains('{question}')",
            message="spec.data.promptTemplate must contain {question}, where the question goes",
            field=".promptTemplate",
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
            for name in (Reward.REGEX, Reward.PYTHON)
        ),
        Rule(
            condition=(
                "(self.reward == 'model' || (has(self.rewards) && "
                "self.rewards.exists(each, each.reward == 'model'))) == has(self.model)"
            ),
            message=(
                "spec.data.model must be set if and only if spec.data.reward is model, "
                "or that of one of spec.data.rewards; got reward {}"
            ),
            values=("self.reward",),
            field=".model",
        ),
        Rule(
            condition="!has(self.math) || self.reward == 'math'",
            message="spec.data.math needs spec.data.reward math, got reward {}",
            values=("self.reward",),
            field=".math",
        ),
        Rule(
            condition=(
                "!has(self.rewards) || size(self.rewards) == 0 || "
                "(self.reward == 'math' && !has(self.math))"
            ),
            message=(
                "spec.data.rewards takes the place of spec.data.reward and its settings: "
                "set only one of them, got reward {}"
            ),
            values=("self.reward",),
            field=".rewards",
        ),
        Rule(
            condition=(
                "!has(self.rewards) || self.rewards.all(each, "
                "self.rewards.exists_one(other, other.name == each.name))"
            ),
            message="spec.data.rewards must not have a name twice",
            field=".rewards",
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
