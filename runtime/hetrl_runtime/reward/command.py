"""``hetrl reward``: score responses from the command line, as the rollout workers do."""

import asyncio
import json
import sys
from collections.abc import Iterator

import click

from hetrl_core.job.spec import DataSpec
from hetrl_runtime.reward.options import data_of, reward_options
from hetrl_runtime.reward.verdict import Response, Unjudged


@click.command("reward")
@reward_options("--verifier")
def command(reward: str, pattern: str | None, code: str | None) -> None:
    """Score JSON lines {"response": ..., "answer": ...} from standard input, one number a line.

    A line may have "prompt" and any columns beside them, for a function that asks for them. For a
    response without a reward the line says `unjudged`, and why. Ends with 1 at the first line that
    is not of this form, and names it.
    """
    try:
        asyncio.run(_score(data_of(reward, pattern, code)))
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error


async def _score(data: DataSpec) -> None:
    from hetrl_runtime.reward.scoring import scorer_of  # noqa: PLC0415  # as for `--help`

    async with scorer_of(data) as scorer:
        for number, response in _asked():
            verdict = await scorer.score(response)
            is_judged = not isinstance(verdict, Unjudged)
            click.echo(f"{verdict:g}" if is_judged else f"unjudged: line {number}: {verdict}")


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
