"""Checks of prompts that no generation can change: length, tokens, readable reference.

``main`` checks all rows of a job before its first generation.
"""

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from huggingface_hub import snapshot_download
from pydantic import TypeAdapter

from hetrl_core import launch as contract
from hetrl_core.job.reward import Reward
from hetrl_core.job.spec import DataSpec, ModelFiles
from hetrl_core.launch import Launch
from hetrl_runtime.data.left_out import LeftOutPrompt, LeftOutReason
from hetrl_runtime.data.open_data import open_data
from hetrl_runtime.data.prompt import Prompt, Unusable
from hetrl_runtime.reward import mathematics
from hetrl_runtime.reward.sources import parts_for, source_of, unknown_source
from hetrl_runtime.reward.verdict import UnjudgedError
from hetrl_runtime.rollout.prompts import PromptFormat, PromptTooLong

_PROMPT = TypeAdapter(LeftOutPrompt)


def main() -> None:
    """Read a launch contract, and write a line of JSON for each prompt that cannot be used."""
    launch = contract.from_json(sys.stdin.read())
    for each in left_out_of(launch):
        sys.stdout.write(_PROMPT.dump_json(each).decode() + "\n")
        sys.stdout.flush()


def left_out_of(launch: Launch) -> Iterator[LeftOutPrompt]:
    """Yield the prompts of a contract's data that cannot be used; the data are on this machine."""
    data = launch.data
    # Functions of a reward need columns; a check needs only those that choose a reward.
    prompts = open_data(data, keeps_others=any(each.sources for each in data.parts))
    if isinstance(prompts, Unusable):
        return
    form = _format_of(launch)
    with closing(prompts):
        for index in range(len(prompts)):
            found = fault_of(prompts[index], index, form, data, vocab_size=launch.vocab_size)
            if found:
                yield found


def fault_of(
    prompt: Prompt, index: int, form: PromptFormat | None, data: DataSpec, *, vocab_size: int
) -> LeftOutPrompt | None:
    """Return why a prompt of a job's data cannot be used; None if it can.

    Args:
        prompt: the prompt.
        index: its index in the data.
        form: the policy's tokenizer; None: its tokens are not checked.
        data: the job's data.
        vocab_size: rows of the policy's embedding; 0: not known.
    """
    fault = _reward_fault(prompt, data)
    if fault is None and form is not None:
        fault = _token_fault(prompt, form, data, vocab_size=vocab_size)
    if fault is None:
        return None
    reason, detail = fault
    return LeftOutPrompt(
        index=index, line=prompt.line, set_name=prompt.set_name, reason=reason, detail=detail
    )


def _format_of(launch: Launch) -> PromptFormat | None:
    """Return the tokenizer, where the model is on this machine."""
    try:
        return PromptFormat.of(_folder(launch.model), launch.data)
    except (OSError, ValueError) as error:
        # Whether a model can be used is for those to say who load it.
        sys.stderr.write(f"lengths of prompts are not known before they are used: {error}\n")
        return None


def _folder(model: ModelFiles) -> Path:
    if model.is_path:
        return Path(model.source)
    return Path(
        snapshot_download(model.source, revision=model.revision or None, local_files_only=True)
    )


def _reward_fault(prompt: Prompt, data: DataSpec) -> tuple[LeftOutReason, str] | None:
    """Return why no response to a prompt can get a reward."""
    parts = parts_for(data, prompt.columns)
    if not parts:
        source = source_of(data, prompt.columns)
        return LeftOutReason.SOURCE_UNKNOWN, unknown_source(data, source)
    if all(each.reward != Reward.MATH for each in parts):
        return None
    try:
        mathematics.reference_value(prompt.answer)
    except UnjudgedError as error:
        return LeftOutReason.REFERENCE_UNREADABLE, error.unjudged.detail
    return None


def _token_fault(
    prompt: Prompt, form: PromptFormat, data: DataSpec, *, vocab_size: int
) -> tuple[LeftOutReason, str] | None:
    tokens = form.encode(
        prompt.question, max_prompt_tokens=data.max_prompt_tokens, messages=prompt.messages
    )
    if isinstance(tokens, PromptTooLong):
        return LeftOutReason.PROMPT_TOO_LONG, str(tokens)
    if vocab_size and (unknown := max(tokens)) >= vocab_size:
        return LeftOutReason.TOKEN_UNKNOWN, form.no_row(unknown, num_rows=vocab_size)
    return None
