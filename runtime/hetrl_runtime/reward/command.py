"""``hetrl reward``: score responses from the command line, as the rollout workers do."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from click.core import ParameterSource

from hetrl_core.job.spec import DataSpec
from hetrl_runtime.reward.options import data_of, data_of_job, reward_options
from hetrl_runtime.reward.verdict import Response, Score


@click.command("reward")
@reward_options("--verifier")
@click.option(
    "-f",
    "--file",
    "job_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A job, whose rewards are taken in the place of the other options.",
)
@click.option(
    "--claim",
    "claims",
    multiple=True,
    metavar="NAME=FOLDER",
    help="With -f: the folder that stands for a PersistentVolumeClaim; repeatable.",
)
@click.pass_context
def command(
    context: click.Context,
    *,
    reward: str,
    answer_forms: tuple[str, ...],
    pattern: str | None,
    code: str | None,
    job_file: Path | None,
    claims: tuple[str, ...],
) -> None:
    """Score JSON lines {"response": ..., "answer": ...} from standard input, one number a line.

    A line may have "prompt" and any columns beside them, for a function that asks for them and for
    rewards that are for some sources. With several rewards the number is their sum by weight, and
    behind it stands each one: `1.1 correct=1 format=1`. For a response without a reward the line
    says `unjudged`, and why. Ends with 1 at the first line that is not of this form, and names it.
    """
    if job_file:
        _require_only_job(context)
        data = data_of_job(job_file, dict(map(_claim, claims)))
    else:
        data = data_of(reward, pattern, code, answer_forms)
    if data.model:
        raise click.ClickException(
            "a reward model needs a GPU of a running job: `hetrl reward` asks none"
        )
    try:
        asyncio.run(_score(data))
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _require_only_job(context: click.Context) -> None:
    for name in ("reward", "answer_forms", "pattern", "code"):
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError("-f takes the rewards of a job: leave out the other options")


def _claim(given: str) -> tuple[str, Path]:
    name, separator, folder = given.partition("=")
    if not (name and separator and folder):
        raise click.UsageError(f"--claim must be NAME=FOLDER, got {given!r}")
    return name, Path(folder)


async def _score(data: DataSpec) -> None:
    from hetrl_runtime.reward.scorer import Scorer  # noqa: PLC0415  # as for `--help`

    async with Scorer(data) as scorer:
        for number, response in _asked():
            score = await scorer.score(response)
            if isinstance(score, Score):
                parts = (f"{name}={reward:g}" for name, reward in score.parts.items())
                click.echo(" ".join([f"{score.reward:g}", *parts]))
            else:
                click.echo(f"unjudged: line {number}: {score}")


def _asked() -> Iterator[tuple[int, Response]]:
    for number, line in enumerate(sys.stdin, start=1):
        if line.strip():
            yield number, _response(line, number=number)


def _response(line: str, *, number: int) -> Response:
    try:
        fields = json.loads(line)
        response, answer = fields["response"], fields["answer"]
    except (ValueError, RecursionError) as error:
        raise click.ClickException(f"line {number}: not JSON: {error}") from error
    except (KeyError, TypeError) as error:
        raise click.ClickException(
            f'line {number}: must be {{"response": ..., "answer": ...}}'
        ) from error
    if not isinstance(response, str) or not isinstance(answer, str):
        raise click.ClickException(f"line {number}: response and answer must be text")
    columns = {name: value for name, value in fields.items() if name != "response"}
    return Response(
        text=response, reference=answer, prompt=str(fields.get("prompt", "")), columns=columns
    )
