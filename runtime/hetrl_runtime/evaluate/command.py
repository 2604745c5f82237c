"""``hetrl evaluate``."""

import asyncio
import json
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path

import click

from hetrl_core.job.spec import DataSpec, Tool
from hetrl_runtime.data.open_prompts import open_prompts
from hetrl_runtime.data.prompt import Fields, Unusable
from hetrl_runtime.reward.options import data_of, reward_options
from hetrl_runtime.rollout.errors import EngineFailedError

_DEFAULTS = DataSpec(prompts="")


@click.command("evaluate")
@click.option(
    "--model",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A Hugging Face folder: weights as safetensors, a tokenizer beside them.",
)
@click.option(
    "--data",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Problems: JSON lines, or a Parquet file.",
)
@click.option("--question-field", default=_DEFAULTS.question_field, show_default=True)
@click.option("--answer-field", default=_DEFAULTS.answer_field, show_default=True)
@click.option("--limit", type=click.IntRange(min=1), help="Only the first so many problems.")
@click.option("--batch-size", type=click.IntRange(min=1), default=128, show_default=True)
@reward_options("--reward")
@click.option(
    "--tool",
    "tools",
    type=click.Choice([str(each) for each in Tool]),
    multiple=True,
    help="What the model may call while it answers; may be repeated.",
)
@click.option(
    "--max-prompt-tokens",
    type=click.IntRange(min=1),
    default=_DEFAULTS.max_prompt_tokens,
    show_default=True,
)
@click.option(
    "--max-response-tokens",
    type=click.IntRange(min=1),
    default=_DEFAULTS.max_response_tokens,
    show_default=True,
)
def command(
    *,
    model: Path,
    data: Path,
    question_field: str,
    answer_field: str,
    limit: int | None,
    batch_size: int,
    reward: str,
    answer_forms: tuple[str, ...],
    pattern: str | None,
    code: str | None,
    tools: tuple[str, ...],
    max_prompt_tokens: int,
    max_response_tokens: int,
) -> None:
    """Print the share of problems that a model solves by greedy decoding, as JSON."""
    # PyTorch takes seconds to import; `hetrl --help` should not.
    from hetrl_runtime.evaluate.accuracy import measure  # noqa: PLC0415

    spec = data_of(
        reward,
        pattern,
        code,
        answer_forms,
        tools=tuple(Tool(each) for each in dict.fromkeys(tools)),
        max_prompt_tokens=max_prompt_tokens,
        max_response_tokens=max_response_tokens,
    )
    fields = replace(Fields.of(spec), question=question_field, answer=answer_field)
    problems = open_prompts(data, fields)
    if isinstance(problems, Unusable):
        raise click.ClickException(problems.message)
    chosen = [problems[index] for index in islice(range(len(problems)), limit)]
    problems.close()
    try:
        result = asyncio.run(measure(model, chosen, data=spec, batch_size=batch_size))
    except (ValueError, OSError, EngineFailedError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(json.dumps(asdict(result)))
