"""The check of a job's rewards, on samples of its data.

Code of a user runs in the same confinement as in a rollout worker: it cannot write the report.
"""

import asyncio
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from hetrl_core.job.reward import Reward, RewardPart
from hetrl_core.job.spec import DataSpec
from hetrl_core.preflight import REWARD_INVALID
from hetrl_runtime.data.prompt import Prompt
from hetrl_runtime.preflight.fault import Fault
from hetrl_runtime.preflight.rows import CheckedRows
from hetrl_runtime.reward.confinement.code import CodeError
from hetrl_runtime.reward.scorer import Scorer
from hetrl_runtime.reward.verdict import Response, Unjudged, UnjudgedReason, Verdict

_DECLINED = UnjudgedReason.FUNCTION_DECLINED
_SHOWN_SOURCES = 5


def checked_reward(data: DataSpec, rows: CheckedRows) -> tuple[str, ...] | Fault:
    """Score each sample's reference answer as a response, and return notes about the rewards.

    A reward that judges none of them cannot be trained with, nor can one that is for no row.

    Raises:
        OSError: the processes that score do not start.
    """
    notes = _sources(data, rows)
    if isinstance(notes, Fault):
        return notes
    if all(each.reward == Reward.MODEL for each in data.parts):
        return notes
    try:
        verdicts = asyncio.run(_scored(data, rows.samples))
    except (CodeError, ValueError) as error:
        return Fault(reason=REWARD_INVALID, message=str(error))
    for part in data.parts:
        found = _judged(data, part, [each[part.name] for each in verdicts if part.name in each])
        if isinstance(found, Fault):
            return found
        notes += found
    return notes


def _sources(data: DataSpec, rows: CheckedRows) -> tuple[str, ...] | Fault:
    """Compare the sources that rewards name with those of the rows."""
    if not rows.is_complete:
        return ()
    notes: tuple[str, ...] = ()
    for part in data.parts:
        unseen = [each for each in part.sources if each not in rows.sources]
        if not unseen:
            continue
        said = (
            f"data.rewards[{part.name}].sources: no row has {data.source_field} "
            f"{unseen[0]!r}{_hint(unseen[0], rows.sources)}"
        )
        if len(unseen) == len(part.sources):
            return Fault(reason=REWARD_INVALID, message=f"{said}; the reward is for no row")
        notes += (said,)
    return notes


def _hint(name: str, known: frozenset[str]) -> str:
    near = get_close_matches(name, known, n=1)
    shown = ", ".join(repr(each) for each in sorted(known)[:_SHOWN_SOURCES] if each)
    return f" (there are {shown or 'none'})" + (f": did you mean {near[0]!r}?" if near else "")


def _judged(
    data: DataSpec, part: RewardPart, verdicts: Sequence[Verdict]
) -> tuple[str, ...] | Fault:
    unjudged = [each for each in verdicts if isinstance(each, Unjudged)]
    if not unjudged:
        return ()
    which = (
        f"data.rewards[{part.name}] {part.reward}"
        if data.rewards
        else (f"data.reward {part.reward}")
    )
    said = f"{which}: {len(unjudged)} of {len(verdicts)} samples got no reward"
    message = f"{said}, the last: {unjudged[-1]}"
    # A function may decline a bare answer, and judge whole responses.
    if len(unjudged) < len(verdicts) or any(each.reason is _DECLINED for each in unjudged):
        return (message,)
    return Fault(reason=REWARD_INVALID, message=f"{message}; try it with `hetrl reward`")


async def _scored(data: DataSpec, samples: Sequence[Prompt]) -> list[Mapping[str, Verdict]]:
    async with Scorer(data) as scorer:
        responses = (
            Response(
                text=each.answer,
                reference=each.answer,
                prompt=each.question,
                columns=each.columns,
            )
            for each in samples
        )
        found = await asyncio.gather(*map(scorer.verdicts, responses))
    return [
        {name: each for name, each in verdicts.items() if each is not None} for verdicts in found
    ]
