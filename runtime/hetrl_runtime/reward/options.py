"""The options by which commands take a job's reward: its name, a pattern, a file of one's own.

They yield the same part of a job that a rollout worker reads; ``reward.scoring`` scores by it.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click

from hetrl_core.job.reward import (
    AnswerForm,
    MathReward,
    PythonReward,
    RegexReward,
    Reward,
)
from hetrl_core.job.spec import DataSpec
from hetrl_core.units import MIB

Command = Callable[..., Any]

JOB_FILES = "hetrl.job_files"
"""Group of the entry point that reads job files: the API is not part of the runtime."""


def reward_options(*names: str) -> Callable[[Command], Command]:
    """Add the options to a command; ``names`` are what the option is called that names a reward."""
    options = (
        click.option(
            *names,
            "reward",
            default=Reward.MATH.value,
            show_default=True,
            help="math, exact, regex, python, or what a package of yours adds.",
        ),
        click.option(
            "--answer-form",
            "answer_forms",
            type=click.Choice([each.value for each in AnswerForm], case_sensitive=False),
            multiple=True,
            help="With math: the only form of an answer that counts; repeatable.",
        ),
        click.option("--pattern", help="With regex: what a response must contain."),
        click.option(
            "--python",
            "code",
            metavar="FILE[:FUNCTION]",
            help="With python: your function, of response and answer; `score` if none is named.",
        ),
    )

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def data_of(
    reward: str,
    pattern: str | None,
    code: str | None,
    answer_forms: Sequence[str] = (),
    **others: Any,
) -> DataSpec:
    """Return the data part of a job with the reward that the options name.

    Raises:
        ClickException: options contradict each other, or one cannot be.
    """
    for name, option, value in (
        (Reward.REGEX, "--pattern", pattern),
        (Reward.PYTHON, "--python", code),
    ):
        if (reward == name) is not (value is not None):
            raise click.UsageError(f"{option} goes with reward {name} and no other, got {reward}")
    if answer_forms and reward != Reward.MATH:
        raise click.UsageError(f"--answer-form goes with reward math and no other, got {reward}")
    forms = tuple(AnswerForm(each) for each in answer_forms)
    try:
        return DataSpec(
            prompts="",
            reward=reward,
            math=MathReward(answer_forms=forms) if forms else None,
            regex=None if pattern is None else RegexReward(pattern=pattern),
            python=None if code is None else _python(code),
            **others,
        )
    except ValueError as error:
        raise click.ClickException(str(error)) from error


def _python(code: str) -> PythonReward:
    file, _, function = code.partition(":")
    return PythonReward(
        file=str(Path(file).absolute()), function=function or "score", memory_bytes=1024 * MIB
    )


def data_of_job(file: Path, claims: Mapping[str, Path]) -> DataSpec:
    """Return the data part of a job file, with folders for its claims.

    Raises:
        ClickException: job files cannot be read here, or this one is wrong.
    """
    readers = [*entry_points(group=JOB_FILES, name="data")]
    if not readers:
        raise click.ClickException("-f needs the command line of HetRL, which is not installed")
    read = readers[0].load()
    try:
        data: DataSpec = read(file, claims)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    return data
