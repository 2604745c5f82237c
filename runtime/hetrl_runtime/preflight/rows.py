"""The check of a job's rows: what cannot be used is counted by reason."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from hetrl_core.job.spec import DataSpec
from hetrl_core.preflight import DATA_INVALID
from hetrl_runtime.data.left_out import LeftOutPrompt, notices
from hetrl_runtime.data.open_prompts import open_prompts
from hetrl_runtime.data.prompt import Fields, Prompt, PromptSource, Unusable
from hetrl_runtime.preflight.fault import Fault
from hetrl_runtime.rollout.prompt_checks import fault_of
from hetrl_runtime.rollout.prompts import PromptFormat

CHECK_SECONDS = 300.0
"""Longest time for rows: millions of long ones would keep a job from its GPUs for an hour."""

NUM_SAMPLES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRows:
    """Rows of which at least one can be used."""

    notes: tuple[str, ...]
    samples: tuple[Prompt, ...]
    """The first ones that can be used."""


def checked_rows(
    data: DataSpec, folder: Path, *, vocab_size: int, seconds: float = CHECK_SECONDS
) -> CheckedRows | Fault:
    """Return what a job's rows are, or why none can be used.

    Args:
        data: the job's data, whose files are on this machine.
        folder: where the policy's tokenizer is.
        vocab_size: rows of the policy's embedding.
        seconds: the longest time.
    """
    fields = Fields(
        question=data.question_field,
        answer=data.answer_field,
        keeps_others=data.reward_takes_columns,
    )
    prompts = open_prompts(data.prompts, fields)
    if isinstance(prompts, Unusable):
        return Fault(reason=DATA_INVALID, message=prompts.message)
    form = PromptFormat(folder, data.tools)
    with closing(prompts):
        return _checked(prompts, data, form, vocab_size=vocab_size, seconds=seconds)


def _checked(
    prompts: PromptSource, data: DataSpec, form: PromptFormat, *, vocab_size: int, seconds: float
) -> CheckedRows | Fault:
    total, num_checked = len(prompts), 0
    ends_at = time.monotonic() + seconds
    left_out: list[LeftOutPrompt] = []
    for index in range(total):
        if time.monotonic() > ends_at:
            break
        fault = fault_of(prompts[index], index, form, data, vocab_size=vocab_size)
        num_checked += 1
        if fault:
            left_out.append(fault)
    notes = notices(left_out, total=num_checked)
    if len(left_out) == num_checked:
        return Fault(reason=DATA_INVALID, message=f"no prompt can be used: {'; '.join(notes)}")
    if num_checked < total:
        notes += (f"{num_checked:,} of {total:,} rows were checked in {seconds:g} s",)
    usable = _usable(prompts, {each.index for each in left_out}, num_checked)
    return CheckedRows(notes=notes, samples=tuple(islice(usable, NUM_SAMPLES)))


def _usable(prompts: PromptSource, left_out: set[int], num_checked: int) -> Iterator[Prompt]:
    return (prompts[index] for index in range(num_checked) if index not in left_out)
