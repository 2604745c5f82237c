"""Spans of one response: a call of the engine a turn, and a tool's between two turns.

Names and attributes are OpenTelemetry's for generative AI where it has them. Texts are left out:
prompts and responses may be confidential, and the run's samples have them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hetrl_runtime.rollout.engine import Generation, GenerationRequest, InferenceEngine
from hetrl_runtime.rollout.tool_calls import ToolCalls
from hetrl_runtime.tracing.span import UNTRACED, Attributes, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseTrace:
    """Does what a response is made of, each below one span."""

    span: Span = UNTRACED
    model: str = ""

    async def generate(self, engine: InferenceEngine, request: GenerationRequest) -> Generation:
        """Ask an engine for one turn."""
        if self.span is UNTRACED:
            return await engine.generate(request)
        with self.span.child(f"text_completion {self.model}", self._asked(request)) as call:
            # Until its first token a request waits for a place, and for its prompt's pass.
            with call.child("prefill") as prefill:
                generation = await engine.generate(request)
                prefill.end(ended_at=generation.first_token_at)
            call.child("decode", began_at=generation.first_token_at).end()
            call.note(_answered(generation))
        return generation

    def result_of(self, calls: ToolCalls, turn: Sequence[int]) -> tuple[int, ...]:
        """Do what a turn calls for."""
        if self.span is UNTRACED:
            return calls.result_of(turn)
        name = calls.name_of(turn)
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "function",
        }
        with self.span.child(f"execute_tool {name}", attributes):
            return calls.result_of(turn)

    def _asked(self, request: GenerationRequest) -> Attributes:
        return {
            "gen_ai.operation.name": "text_completion",
            "gen_ai.provider.name": "hetrl",
            "gen_ai.request.model": self.model,
            "gen_ai.request.max_tokens": request.max_tokens,
            "gen_ai.request.temperature": request.temperature,
            "gen_ai.usage.input_tokens": len(request.prompt_tokens),
        }


def _answered(generation: Generation) -> Attributes:
    return {
        "gen_ai.response.finish_reasons": (str(generation.finish_reason),),
        "gen_ai.usage.output_tokens": len(generation.tokens),
        "hetrl.oldest_version": min(generation.versions),
        "hetrl.newest_version": max(generation.versions),
    }
