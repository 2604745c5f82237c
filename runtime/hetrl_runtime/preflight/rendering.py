"""Prompts of a job as an engine gets them: the exact text, and the tokens."""

import json
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from hetrl_core.job.spec import DataSpec, ModelFiles
from hetrl_core.preflight import request_from_json
from hetrl_runtime.data.fetching.fetch import fetched
from hetrl_runtime.data.open_data import open_data
from hetrl_runtime.data.prompt import Prompt, PromptSource, Unusable
from hetrl_runtime.preflight.models import tokenizer_folder
from hetrl_runtime.preflight.preflight import FETCH_SECONDS
from hetrl_runtime.rollout.prompts import PromptFormat, PromptTooLong


@click.command("render-prompts")
@click.option(
    "--request",
    "request_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="Which job, a JSON file.",
)
@click.option("--row", type=click.IntRange(min=1), required=True, help="The first prompt, from 1.")
@click.option("--count", type=click.IntRange(min=1), required=True, help="How many prompts.")
def command(request_file: Path, row: int, count: int) -> None:
    """Write prompts as an engine gets them, a JSON line each; `hetrl prompt` is for people."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            request = request_from_json(request_file.read_text())
            chosen = rendered(request.model, request.data, Path(folder), first=row - 1, count=count)
            for each in chosen:
                click.echo(json.dumps(each))
    except (OSError, ValueError) as error:
        raise click.ClickException(" ".join(str(error).split())) from error


def rendered(
    model: ModelFiles, data: DataSpec, folder: Path, *, first: int, count: int
) -> Iterator[dict[str, Any]]:
    """Yield line, reference, text and tokens of some prompts, or why one cannot be used.

    Args:
        model: the policy.
        data: the job's data.
        folder: an empty folder for data that must be fetched.
        first: index of the first prompt.
        count: how many.

    Raises:
        ValueError: the data cannot be used, or have no such prompt.
        OSError: the model or the data cannot be read.
    """
    found = fetched(data, state_path=folder, timeout_seconds=FETCH_SECONDS, stop=threading.Event())
    prompts = found if isinstance(found, Unusable) else open_data(found)
    if isinstance(prompts, Unusable):
        raise ValueError(prompts.message)  # noqa: TRY004  # of data, not of an argument
    with closing(prompts):
        if first >= len(prompts):
            raise ValueError(f"the data have {len(prompts)} prompts, and no prompt {first + 1}")
        form = PromptFormat.of(tokenizer_folder(model), data)
        for prompt in _chosen(prompts, first, count):
            place = {"line": prompt.line, "set": prompt.set_name, "answer": prompt.answer}
            yield {**place, **_encoded(form, prompt, data)}


def _chosen(prompts: PromptSource, first: int, count: int) -> Iterator[Prompt]:
    return (prompts[index] for index in range(first, min(first + count, len(prompts))))


def _encoded(form: PromptFormat, prompt: Prompt, data: DataSpec) -> dict[str, Any]:
    limit = data.max_prompt_tokens
    # Without a limit of its own: a prompt that is too long is worth reading all the more.
    tokens = form.encode(prompt.question, max_prompt_tokens=1 << 62, messages=prompt.messages)
    assert not isinstance(tokens, PromptTooLong)
    fault = (
        str(PromptTooLong(num_tokens=len(tokens), max_prompt_tokens=limit))
        if len(tokens) > limit
        else ""
    )
    return {"text": form.text(tokens), "tokens": list(tokens), "fault": fault}
