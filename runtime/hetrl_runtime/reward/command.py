"""``hetrl reward``: score responses from the command line, as the rollout workers do."""

import asyncio
import json
import sys
from collections.abc import Iterator

import click

from hetrl_core.job.spec import DataSpec
from hetrl_runtime.reward.options import data_of, reward_options


@click.command("reward")
@reward_options("--verifier")
def command(reward: str, pattern: str | None, code: str | None) -> None:
    """Score JSON lines {"response": ..., "answer": ...} from standard input, one number a line.

    What cannot be scored in the time that a worker would give it is worth 0. Ends with 1 at the
    first line that is not of this form, and names it.
    """
    try:
        asyncio.run(_score(data_of(reward, pattern, code)))
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error


async def _score(data: DataSpec) -> None:
    from hetrl_runtime.reward.scoring import scorer_of  # noqa: PLC0415  # as for `--help`

    async with scorer_of(data) as scorer:
        for response, answer in _asked():
            click.echo(f"{await scorer.score(response, answer):g}")


def _asked() -> Iterator[tuple[str, str]]:
    for number, line in enumerate(sys.stdin, start=1):
        if line.strip():
            yield _fields(line, number=number)


def _fields(line: str, *, number: int) -> tuple[str, str]:
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
    return response, answer
