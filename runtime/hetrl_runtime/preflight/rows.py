"""The check of a job's rows: what cannot be used is counted by reason."""

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from hetrl_core.job.spec import DataSpec
from hetrl_core.preflight import DATA_INVALID
from hetrl_runtime.data.left_out import LeftOutPrompt, notices
from hetrl_runtime.data.open_data import open_data
from hetrl_runtime.data.prompt import Prompt, PromptSource, Unusable
from hetrl_runtime.preflight.fault import Fault
from hetrl_runtime.reward.sources import parts_for, source_of
from hetrl_runtime.rollout.prompt_checks import fault_of
from hetrl_runtime.rollout.prompts import PromptFormat

CHECK_SECONDS = 300.0
"""Longest time for rows: millions of long ones would keep a job from its GPUs for an hour."""

NUM_SAMPLES = 8
_MOST_SOURCES = 10_000
"""A field with more values is no source of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRows:
    """Rows of which at least one can be used."""

    notes: tuple[str, ...]
    samples: tuple[Prompt, ...]
    """The first ones that can be used, for each of the job's rewards."""

    sources: frozenset[str] = frozenset()
    """Of all rows; empty where the job's rewards are for all of them."""

    is_complete: bool = True
    """Whether all rows were checked."""


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
    prompts = open_data(data)
    if isinstance(prompts, Unusable):
        return Fault(reason=DATA_INVALID, message=prompts.message)
    form = PromptFormat.of(folder, data)
    with closing(prompts):
        return _checked(prompts, data, form, vocab_size=vocab_size, seconds=seconds)


def _checked(
    prompts: PromptSource, data: DataSpec, form: PromptFormat, *, vocab_size: int, seconds: float
) -> CheckedRows | Fault:
    total, num_checked = len(prompts), 0
    ends_at = time.monotonic() + seconds
    left_out: list[LeftOutPrompt] = []
    samples = _Samples(data)
    for index in range(total):
        if time.monotonic() > ends_at:
            break
        prompt = prompts[index]
        fault = fault_of(prompt, index, form, data, vocab_size=vocab_size)
        num_checked += 1
        samples.add(prompt, is_usable=fault is None)
        if fault:
            left_out.append(fault)
    notes = notices(left_out, total=num_checked)
    if len(left_out) == num_checked:
        return Fault(reason=DATA_INVALID, message=f"no prompt can be used: {'; '.join(notes)}")
    if num_checked < total:
        notes += (f"{num_checked:,} of {total:,} rows were checked in {seconds:g} s",)
    return CheckedRows(
        notes=notes,
        samples=tuple(samples.chosen),
        sources=frozenset(samples.sources),
        is_complete=num_checked == total,
    )


class _Samples:
    """The first rows for each reward, and the sources of all."""

    def __init__(self, data: DataSpec) -> None:
        self._data = data
        self._has_sources = any(each.sources for each in data.parts)
        self._num_chosen = dict.fromkeys((each.name for each in data.parts), 0)
        self.chosen: list[Prompt] = []
        self.sources: set[str] = set()

    def add(self, prompt: Prompt, *, is_usable: bool) -> None:
        if self._has_sources and len(self.sources) < _MOST_SOURCES:
            self.sources.add(source_of(self._data, prompt.columns))
        if is_usable and any(count < NUM_SAMPLES for count in self._num_chosen.values()):
            names = [each.name for each in parts_for(self._data, prompt.columns)]
            if any(self._num_chosen[name] < NUM_SAMPLES for name in names):
                self.chosen.append(prompt)
                for name in names:
                    self._num_chosen[name] += 1
