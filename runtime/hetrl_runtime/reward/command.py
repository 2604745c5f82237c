"""``hetrl reward``: score responses from the command line, as the rollout workers do."""

import json
import sys

import click

from hetrl_runtime.reward.verifiers import verifier


@click.command("reward")
@click.option("--verifier", "name", default="math", show_default=True, help="Who judges.")
def command(name: str) -> None:
    """Score JSON lines {"response": ..., "answer": ...} from standard input, one number a line.

    Ends with 1 at the first line that is not of this form, and names it.
    """
    try:
        judge = verifier(name)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    for number, line in enumerate(sys.stdin, start=1):
        if line.strip():
            response, answer = _fields(line, number=number)
            click.echo(f"{judge(response, answer):g}")


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
