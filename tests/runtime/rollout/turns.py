"""Checks of a response with tool calls, for every engine."""

from collections.abc import Sequence
from dataclasses import replace

from hetrl_runtime.rollout.engine import Generation
from hetrl_runtime.rollout.prompts import PromptFormat
from hetrl_runtime.wire.trajectory import TOOL_VERSION
from tests.runtime.rollout.reference import Reference


def has_called(response: Generation) -> bool:
    """Whether a tool wrote a part of it."""
    return TOOL_VERSION in response.versions


def check_turns(response: Generation, prompts: PromptFormat) -> None:
    """Check that a tool's text follows a call, is a result, and was not sampled."""
    assert prompts.calls
    by_tools = [version == TOOL_VERSION for version in response.versions]
    assert not by_tools[0]
    assert not by_tools[-1]
    assert set(response.versions) <= {0, TOOL_VERSION}
    for at, is_result in enumerate(by_tools):
        if is_result:
            assert response.log_probs[at] == 0
        if is_result and not by_tools[at - 1]:
            assert response.tokens[at - 1] == prompts.calls.end_token
            result = response.tokens[at : by_tools.index(False, at)]
            assert prompts.decode(result).startswith("<tool_response>")


def sampled_log_probs(
    reference: Reference, prompt: Sequence[int], response: Generation
) -> tuple[list[float], list[float]]:
    """Return those that the policy's own tokens have, and should have after all before them."""
    expected = reference.chosen(prompt, replace(response, versions=(0,) * len(response.tokens)))
    sampled = [at for at, version in enumerate(response.versions) if version != TOOL_VERSION]
    return [response.log_probs[at] for at in sampled], [expected[at] for at in sampled]
