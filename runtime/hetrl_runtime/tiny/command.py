"""``hetrl make-model`` and ``hetrl make-data``."""

from pathlib import Path

import click

from hetrl_runtime.tiny.dataset import write_dataset
from hetrl_runtime.tiny.task import Split, Task

_TASK = click.option(
    "--task",
    type=click.Choice([str(each) for each in Task]),
    default=str(Task.ARITHMETIC),
    show_default=True,
    help="Sums; or products, for which it may call a calculator.",
)


@click.command("make-model")
@click.argument("path", type=click.Path(path_type=Path))
@_TASK
@click.option("--seed", default=1, show_default=True, help="Of the weights and the warm-up.")
@click.option(
    "--answers",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="JSONL whose final answers it learns to guess, instead of a task's.",
)
def make_model(path: Path, task: str, seed: int, answers: Path | None) -> None:
    """Make a tiny Qwen3 that knows its task badly, as a Hugging Face folder at PATH.

    With --answers it learns what the answers of a file such as GSM8K's look like. It solves
    nothing: it guesses, and is right often enough to try a job on a machine without GPUs.
    """
    # PyTorch takes seconds to import; `hetrl --help` should not.
    from transformers.utils import logging  # noqa: PLC0415

    from hetrl_runtime.tiny.model import make_model as make  # noqa: PLC0415

    logging.disable_progress_bar()
    try:
        result = make(path, seed=seed, task=Task(task), answers=answers)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(
        f"{path}: Qwen3 of {result.num_parameters:,} parameters, warmed up in "
        f"{result.seconds:.0f} s to a loss of {result.loss:.3f}"
    )


@click.command("make-data")
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
@_TASK
@click.option("--split", type=click.Choice([str(each) for each in Split]), default=str(Split.TRAIN))
@click.option("--count", type=int, required=True, help="Problems to write.")
@click.option("--seed", default=1, show_default=True, help="Of their choice and order.")
def make_data(path: Path, task: str, split: str, count: int, seed: int) -> None:
    """Write problems that the tiny model can learn to PATH, as JSONL."""
    try:
        write_dataset(path, count=count, seed=seed, split=Split(split), task=Task(task))
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{path}: {count} problems of {task}, split {split}")
