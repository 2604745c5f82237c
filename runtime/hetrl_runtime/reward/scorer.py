"""The scorer of a job: each of its rewards, added up by weight.

Verifiers share a pool of processes, each function of a user's own has one, and a reward model is
asked by the caller.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Self

from hetrl_core.job.reward import Reward, RewardPart
from hetrl_core.job.spec import DataSpec
from hetrl_runtime.reward.confinement.code import ConfinedCode
from hetrl_runtime.reward.scoring import VerifierPool
from hetrl_runtime.reward.sources import parts_for, source_of, unknown_source
from hetrl_runtime.reward.verdict import (
    Response,
    Score,
    Unjudged,
    UnjudgedReason,
    Verdict,
    read_reward,
)

AskModel = Callable[[], Awaitable[float | None]]
"""Asks the reward model about a response; None: the response is not wanted any more."""


class Scorer:
    """The rewards of one job; use it as an async context manager."""

    def __init__(self, data: DataSpec, *, private: str = "") -> None:
        """Choose who judges; code of the job may not read the folder ``private``.

        Raises:
            ValueError: there is no verifier of a name.
        """
        self._data = data
        verifiers = [each for each in data.parts if not _is_apart(each)]
        self._pool = VerifierPool(verifiers) if verifiers else None
        self._codes = {
            each.name: ConfinedCode(each.python, private=private)
            for each in data.parts
            if each.python
        }
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start the processes.

        Raises:
            CodeError: a function is not there, is no reward function, or cannot be confined here.
            OSError: a process does not start or answer.
        """
        async with AsyncExitStack() as opened:
            if self._pool:
                await opened.enter_async_context(self._pool)
            for code in self._codes.values():
                await opened.enter_async_context(code)
            self._opened = opened.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()

    async def score(
        self, response: Response, *, ask_model: AskModel | None = None
    ) -> Score | Unjudged | None:
        """Return a response's reward, or why there is none; None: it is not wanted any more."""
        verdicts = await self.verdicts(response, ask_model=ask_model)
        if not verdicts:
            source = source_of(self._data, response.columns)
            return Unjudged(
                reason=UnjudgedReason.SOURCE_UNKNOWN, detail=unknown_source(self._data, source)
            )
        judged = {name: each for name, each in verdicts.items() if each is not None}
        return combined(self._data, judged) if len(judged) == len(verdicts) else None

    async def verdicts(
        self, response: Response, *, ask_model: AskModel | None = None
    ) -> Mapping[str, Verdict | None]:
        """Return what each of the rewards says that are for a response, by name.

        Without ``ask_model`` a reward model is not asked, and is not among them.
        """
        parts = [
            each
            for each in parts_for(self._data, response.columns)
            if ask_model or each.reward != Reward.MODEL
        ]
        found = await asyncio.gather(*(self._verdict(each, response, ask_model) for each in parts))
        return {part.name: verdict for part, verdict in zip(parts, found, strict=True)}

    async def _verdict(
        self, part: RewardPart, response: Response, ask_model: AskModel | None
    ) -> Verdict | None:
        if part.python:
            return await self._codes[part.name].score(response)
        if part.reward == Reward.MODEL:
            assert ask_model
            reward = await ask_model()
            return None if reward is None else read_reward(reward)
        assert self._pool
        return await self._pool.score(response, part=part.name)


def combined(data: DataSpec, verdicts: Mapping[str, Verdict]) -> Score | Unjudged:
    """Return the sum of a job's rewards by weight; where one is missing, which and why."""
    for name, verdict in verdicts.items():
        if isinstance(verdict, Unjudged):
            return (
                replace(verdict, detail=f"data.rewards[{name}]: {verdict.detail}")
                if (data.rewards)
                else verdict
            )
    rewards = {name: each for name, each in verdicts.items() if not isinstance(each, Unjudged)}
    weights = {each.name: each.weight for each in data.parts}
    total = read_reward(sum(weights[name] * reward for name, reward in rewards.items()))
    if isinstance(total, Unjudged):
        return total
    return Score(reward=total, parts=rewards if data.rewards else {})


def _is_apart(part: RewardPart) -> bool:
    return part.python is not None or part.reward == Reward.MODEL
