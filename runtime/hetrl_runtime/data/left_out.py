"""Prompts that a run leaves out, since nothing can be made of them in any pass over the data.

The coordinator counts them, and tells people with ``notices``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class LeftOutReason(StrEnum):
    """The kinds of reasons; also labels of a metric."""

    PROMPT_TOO_LONG = "PromptTooLong"
    TOKEN_UNKNOWN = "TokenUnknown"  # noqa: S105  # a token of text
    REFERENCE_UNREADABLE = "ReferenceUnreadable"
    ROW_UNREADABLE = "RowUnreadable"
    SOURCE_UNKNOWN = "SourceUnknown"


_DETAIL_CHARS = 300
_WHAT = {
    LeftOutReason.PROMPT_TOO_LONG: "prompts are longer than data.maxPromptTokens",
    LeftOutReason.TOKEN_UNKNOWN: "prompts have a token without a row in the model's embedding",
    LeftOutReason.REFERENCE_UNREADABLE: "answers hold no value that data.reward can read",
    LeftOutReason.ROW_UNREADABLE: "prompts could not be read",
    LeftOutReason.SOURCE_UNKNOWN: "prompts are of a source that none of data.rewards is for",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutPrompt:
    """A prompt that is not used, and why."""

    index: int
    """In the data, from zero."""

    line: int
    """Or row, from one."""

    set_name: str = ""
    """The data set, where there are several."""

    reason: LeftOutReason
    detail: str


def notices(left_out: Iterable[LeftOutPrompt], *, total: int) -> tuple[str, ...]:
    """Say for each reason how many of all prompts are left out, and which is the first."""
    by_reason: dict[LeftOutReason, list[LeftOutPrompt]] = {}
    for each in left_out:
        by_reason.setdefault(each.reason, []).append(each)
    return tuple(
        _notice(reason, by_reason[reason], total) for reason in _WHAT if reason in by_reason
    )


def _notice(reason: LeftOutReason, prompts: list[LeftOutPrompt], total: int) -> str:
    first = min(prompts, key=lambda each: each.index)
    # Words of the data and of workers, which end up on terminals.
    detail = "".join(each if each.isprintable() else " " for each in first.detail[:_DETAIL_CHARS])
    return (
        f"{len(prompts):,} of {total:,} {_WHAT[reason]} and are left out, the first on line "
        f"{first.line}{f' of {first.set_name}' if first.set_name else ''}: {detail}"
    )
