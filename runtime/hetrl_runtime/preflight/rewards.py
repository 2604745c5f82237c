"""The check of a job's reward, on samples of its data.

Code of a user runs in the same confinement as in a rollout worker: it cannot write the report.
"""

import asyncio
from collections.abc import Sequence

from hetrl_core.job.spec import DataSpec, Reward
from hetrl_core.preflight import REWARD_INVALID
from hetrl_runtime.data.prompt import Prompt
from hetrl_runtime.preflight.fault import Fault
from hetrl_runtime.reward.confinement.code import CodeError
from hetrl_runtime.reward.scoring import scorer_of
from hetrl_runtime.reward.verdict import Response, Unjudged, UnjudgedReason, Verdict

_DECLINED = UnjudgedReason.FUNCTION_DECLINED


def checked_reward(data: DataSpec, samples: Sequence[Prompt]) -> tuple[str, ...] | Fault:
    """Score each sample's reference answer as a response, and return notes about the reward.

    A reward that judges none of them cannot be trained with.

    Raises:
        OSError: the processes that score do not start.
    """
    if data.reward == Reward.MODEL:
        return ()
    try:
        verdicts = asyncio.run(_scored(data, samples))
    except (CodeError, ValueError) as error:
        return Fault(reason=REWARD_INVALID, message=str(error))
    unjudged = [each for each in verdicts if isinstance(each, Unjudged)]
    if not unjudged:
        return ()
    said = f"data.reward {data.reward}: {len(unjudged)} of {len(verdicts)} samples got no reward"
    message = f"{said}, the last: {unjudged[-1]}"
    # A function may decline a bare answer, and judge whole responses.
    if len(unjudged) < len(verdicts) or any(each.reason is _DECLINED for each in unjudged):
        return (message,)
    return Fault(reason=REWARD_INVALID, message=f"{message}; try it with `hetrl reward`")


async def _scored(data: DataSpec, samples: Sequence[Prompt]) -> list[Verdict]:
    async with scorer_of(data) as scorer:
        responses = (
            Response(
                text=each.answer,
                reference=each.answer,
                prompt=each.question,
                columns=each.columns,
            )
            for each in samples
        )
        return list(await asyncio.gather(*map(scorer.score, responses)))
