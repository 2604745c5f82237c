"""Responses of several turns, from the real engine under random weights: they call at random."""

import asyncio
from pathlib import Path

import pytest

from hetrl_core.job.spec import Tool
from hetrl_runtime.rollout.engine import EngineSettings, FinishReason, Generation, GenerationRequest
from hetrl_runtime.rollout.engines.transformers import TransformersEngine
from hetrl_runtime.rollout.multi_turn import last_turn, respond
from hetrl_runtime.rollout.prompts import PromptFormat
from hetrl_runtime.wire.trajectory import TOOL_VERSION
from tests.runtime.rollout.models import save_tiny_qwen3
from tests.runtime.rollout.reference import Reference
from tests.runtime.rollout.turns import check_turns, has_called, sampled_log_probs

pytestmark = pytest.mark.slow

MAX_TOKENS = 160
PROMPT = (40, 41, 42)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_qwen3(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def prompts(model: Path) -> PromptFormat:
    return PromptFormat(model, [Tool.CALCULATOR])


@pytest.fixture(scope="module")
def responses(model: Path, prompts: PromptFormat) -> list[Generation]:
    async def ask() -> list[Generation]:
        engine = TransformersEngine(
            EngineSettings(
                model=str(model),
                concurrency=16,
                max_sequence_tokens=len(PROMPT) + MAX_TOKENS,
                stop_tokens=prompts.stop_tokens,
            )
        )
        await engine.start()
        try:
            return await asyncio.gather(
                *(
                    respond(
                        engine,
                        GenerationRequest(
                            id=str(number),
                            prompt_tokens=PROMPT,
                            max_tokens=MAX_TOKENS,
                            temperature=2.0,
                        ),
                        prompts.calls,
                    )
                    for number in range(64)
                )
            )
        finally:
            await engine.stop()

    return asyncio.run(ask())


def test_tool_output_follows_each_call_and_has_no_version(responses, prompts):
    assert len([each for each in responses if has_called(each)]) > 5

    for each in responses:
        check_turns(each, prompts)


def test_log_probs_cover_the_whole_prefix_with_tool_output(responses, model):
    reference = Reference({0: model}, temperature=2.0)
    each = max(responses, key=lambda each: each.versions.count(TOOL_VERSION))

    found, expected = sampled_log_probs(reference, PROMPT, each)

    assert found == pytest.approx(expected, abs=1e-4)


def test_results_count_towards_the_limit_and_may_be_left_out(responses, prompts):
    assert prompts.calls
    assert max(len(each.tokens) for each in responses) <= MAX_TOKENS
    for each in responses:
        assert each.versions[-1] != TOOL_VERSION
        if each.finish_reason is FinishReason.STOP:
            assert each.tokens[-1] in prompts.end_tokens
    cut = [each for each in responses if len(each.tokens) < MAX_TOKENS]
    cut = [each for each in cut if each.finish_reason is FinishReason.LENGTH]
    assert cut
    assert {each.tokens[-1] for each in cut} == {prompts.calls.end_token}


def test_answer_is_what_follows_the_last_result():
    versions = (0, TOOL_VERSION, 0, TOOL_VERSION, TOOL_VERSION, 1, 1)

    assert last_turn("abcdefg", versions) == "fg"
    assert last_turn("ab", (0, 0)) == "ab"
