"""One response from an engine, over as many turns as the policy calls tools in it.

An engine knows neither tools nor turns: it is asked again with all that is there by then, so each
turn's tokens are of the distribution that the weights of that moment give to the whole prefix.
"""

from collections.abc import Sequence
from dataclasses import replace

from hetrl_runtime.rollout.engine import (
    FinishReason,
    Generation,
    GenerationRequest,
    InferenceEngine,
)
from hetrl_runtime.rollout.response_trace import ResponseTrace
from hetrl_runtime.rollout.tool_calls import ToolCalls
from hetrl_runtime.wire.trajectory import TOOL_VERSION

_UNTRACED = ResponseTrace()


async def respond(
    engine: InferenceEngine,
    request: GenerationRequest,
    calls: ToolCalls | None,
    trace: ResponseTrace = _UNTRACED,
) -> Generation:
    """Return a response of at most ``max_tokens``, results included.

    What a tool wrote has a log-probability of zero, and ``TOOL_VERSION`` for a version. A result
    that leaves no room for another token ends the response, and is left out.

    Raises:
        ValueError, EngineFailedError: as the engine does.
    """
    whole = turn = await trace.generate(engine, request)
    number = 0
    while calls and turn.finish_reason is FinishReason.STOP and turn.tokens[-1] == calls.end_token:
        result = trace.result_of(calls, turn.tokens)
        num_left = request.max_tokens - len(whole.tokens) - len(result)
        if num_left < 1:
            whole = replace(whole, finish_reason=FinishReason.LENGTH)
            break
        whole = _followed_by(whole, _written_by_a_tool(result))
        number += 1
        turn = await trace.generate(
            engine,
            replace(
                request,
                id=f"{request.id}/{number}",
                prompt_tokens=request.prompt_tokens + whole.tokens,
                max_tokens=num_left,
            ),
        )
        whole = _followed_by(whole, turn)
    return whole


def last_turn(tokens: Sequence[int], versions: Sequence[int]) -> Sequence[int]:
    """Return what the policy wrote after the last result of a tool: where its answer is."""
    places = range(len(versions), 0, -1)
    return tokens[next((end for end in places if versions[end - 1] == TOOL_VERSION), 0) :]


def _written_by_a_tool(tokens: tuple[int, ...]) -> Generation:
    return Generation(
        tokens=tokens,
        log_probs=(0.0,) * len(tokens),
        versions=(TOOL_VERSION,) * len(tokens),
        finish_reason=FinishReason.STOP,
    )


def _followed_by(first: Generation, second: Generation) -> Generation:
    return Generation(
        tokens=first.tokens + second.tokens,
        log_probs=first.log_probs + second.log_probs,
        versions=first.versions + second.versions,
        finish_reason=second.finish_reason,
    )
