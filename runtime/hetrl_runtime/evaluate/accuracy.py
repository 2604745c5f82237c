"""Greedy accuracy of a model on a file of problems.

One answer a problem, the most likely one, so that two calls give the same number.
"""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from hetrl_core.job.spec import DataSpec, Engine
from hetrl_runtime.data.prompt import Prompt
from hetrl_runtime.reward.scorer import Scorer
from hetrl_runtime.reward.verdict import Response, Score
from hetrl_runtime.rollout.engine import (
    EngineSettings,
    FinishReason,
    Generation,
    GenerationRequest,
    InferenceEngine,
)
from hetrl_runtime.rollout.engines import open_engine
from hetrl_runtime.rollout.errors import UnknownTokenError
from hetrl_runtime.rollout.multi_turn import last_turn, respond
from hetrl_runtime.rollout.prompts import PromptFormat, PromptTooLong
from hetrl_runtime.wire.trajectory import TOOL_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The result of an evaluation; the fields are those of its JSON."""

    accuracy: float
    """Share of all problems answered with the full reward, those without an answer included."""

    count: int
    correct: int
    reward_mean: float
    """Of all problems but the unjudged."""

    unjudged: int
    """Answers without a reward; the log says why. They count as not solved."""

    too_long: int
    """Problems whose prompt exceeds the limit; they count as not solved."""

    unknown_token: int
    """Problems with a token that the model's embedding does not have; not solved either."""

    cut_off: int
    """Answers that reached the limit before they ended."""

    called_tools: int
    """Answers in which a tool was called."""

    mean_response_tokens: float
    seconds: float


async def measure(
    model: Path, problems: list[Prompt], *, data: DataSpec, batch_size: int
) -> Accuracy:
    """Answer every problem greedily, so many at once, and score the answers as a worker does.

    Args:
        model: a Hugging Face folder.
        problems: what to answer.
        data: how answers are scored, how long they may be, and what may be called meanwhile.
        batch_size: answered at once.

    Raises:
        ValueError: the model or the reward's code cannot be loaded, or there is no such reward.
        OSError: the process of the reward's code does not start.
    """
    started = time.monotonic()
    prompts = PromptFormat.of(model, data)
    engine = open_engine(Engine.TRANSFORMERS, _settings(model, prompts, data, batch_size))
    async with Scorer(data) as scorer:
        try:
            await engine.start()
            generations = await asyncio.gather(
                *(
                    _answer(engine, prompts, problem, name=str(index), data=data)
                    for index, problem in enumerate(problems)
                )
            )
        finally:
            await engine.stop()
        verdicts = [
            await scorer.score(
                Response(
                    text=prompts.decode(last_turn(generation.tokens, generation.versions)),
                    reference=problem.answer,
                    prompt=problem.question,
                    columns=problem.columns,
                )
            )
            for problem, generation in zip(problems, generations, strict=True)
            if isinstance(generation, Generation)
        ]
    answered = [each for each in generations if isinstance(each, Generation)]
    rewards = [each.reward for each in verdicts if isinstance(each, Score)]
    unjudged = len(verdicts) - len(rewards)
    correct = sum(each >= 1.0 for each in rewards)
    return Accuracy(
        accuracy=correct / len(problems),
        count=len(problems),
        correct=correct,
        reward_mean=sum(rewards) / max(1, len(problems) - unjudged),
        unjudged=unjudged,
        too_long=sum(isinstance(each, PromptTooLong) for each in generations),
        unknown_token=sum(isinstance(each, UnknownTokenError) for each in generations),
        cut_off=sum(each.finish_reason is FinishReason.LENGTH for each in answered),
        called_tools=sum(TOOL_VERSION in each.versions for each in answered),
        mean_response_tokens=sum(len(each.tokens) for each in answered) / max(1, len(answered)),
        seconds=time.monotonic() - started,
    )


def _settings(
    model: Path, prompts: PromptFormat, data: DataSpec, batch_size: int
) -> EngineSettings:
    return EngineSettings(
        model=str(model),
        concurrency=batch_size,
        max_sequence_tokens=data.max_prompt_tokens + data.max_response_tokens,
        lengths=data.lengths,
        stop_tokens=prompts.stop_tokens,
    )


async def _answer(
    engine: InferenceEngine,
    prompts: PromptFormat,
    problem: Prompt,
    *,
    name: str,
    data: DataSpec,
) -> Generation | PromptTooLong | UnknownTokenError:
    prompt = prompts.encode(
        problem.question, max_prompt_tokens=data.max_prompt_tokens, messages=problem.messages
    )
    if isinstance(prompt, PromptTooLong):
        return prompt
    request = GenerationRequest(
        id=name, prompt_tokens=prompt, max_tokens=data.max_response_tokens, temperature=0
    )
    try:
        return await respond(engine, request, prompts.calls)
    except UnknownTokenError as error:
        return error
