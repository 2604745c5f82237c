"""A real vLLM engine against one plain forward pass per sequence.

Run in vLLM's own environment: ``.venv-vllm/bin/python -m pytest -m engine tests/runtime/rollout``.
"""

import asyncio
import gc
import os
import random
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio
import torch
from safetensors.torch import load_file, save

from hetrl_core.job.spec import Engine, Tool
from hetrl_runtime.rollout.engine import (
    EngineSettings,
    FinishReason,
    Generation,
    GenerationRequest,
    InferenceEngine,
)
from hetrl_runtime.rollout.engines import open_engine
from hetrl_runtime.rollout.errors import EngineFailedError
from hetrl_runtime.rollout.multi_turn import respond
from hetrl_runtime.rollout.program import VLLM_SETTINGS
from hetrl_runtime.rollout.prompts import PromptFormat
from tests.runtime.rollout.models import save_two_versions, weights_of
from tests.runtime.rollout.reference import Reference
from tests.runtime.rollout.turns import check_turns, has_called, sampled_log_probs

pytestmark = [
    pytest.mark.skipif(find_spec("vllm") is None, reason="needs vLLM: make setup-vllm"),
    pytest.mark.engine,
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    # vLLM's own warnings are its makers' business.
    pytest.mark.filterwarnings("default"),
]

TOLERANCE = 5e-3
TEMPERATURE = 0.9
MAX_SEQUENCE_TOKENS = 1024


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    return save_two_versions(tmp_path_factory)


@pytest.fixture(scope="module", autouse=True)
def _one_machine() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in VLLM_SETTINGS.items():
            patch.setenv(name, value)
        patch.setenv("OMP_NUM_THREADS", "2")
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield


@pytest.fixture(scope="module")
def prompts(folders: dict[int, Path]) -> PromptFormat:
    return PromptFormat(folders[0], [Tool.CALCULATOR])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(folders: dict[int, Path], prompts: PromptFormat) -> AsyncIterator[InferenceEngine]:
    settings = EngineSettings(
        model=str(folders[0]),
        concurrency=32,
        max_sequence_tokens=MAX_SEQUENCE_TOKENS,
        stop_tokens=prompts.stop_tokens,
        seed=3,
    )
    engine = open_engine(Engine.VLLM, settings)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()
        del engine
        gc.collect()  # what vLLM leaves open warns here, where its warnings are no errors


def a_request(name: str, prompt: tuple[int, ...] = (5, 6, 7), **fields: float) -> GenerationRequest:
    return GenerationRequest(
        id=name, prompt_tokens=prompt, **{"max_tokens": 24, "temperature": TEMPERATURE, **fields}
    )


def some_prompts(count: int) -> list[tuple[int, ...]]:
    draw = random.Random(4)
    return [tuple(draw.randrange(3, 60) for _ in range(draw.randint(1, 14))) for _ in range(count)]


async def ask_all(engine: InferenceEngine, requests: list[GenerationRequest]) -> list[Generation]:
    return await asyncio.gather(*map(engine.generate, requests))


async def test_sampled_log_probs_agree_with_a_full_forward_pass(
    engine: InferenceEngine, prompts: PromptFormat, folders: dict[int, Path]
) -> None:
    asked = some_prompts(40)
    before = engine.generated_tokens

    generations = await ask_all(
        engine, [a_request(f"sampled {i}", prompt) for i, prompt in enumerate(asked)]
    )

    reference = Reference({0: folders[0]}, temperature=TEMPERATURE)
    for prompt, generation in zip(asked, generations, strict=True):
        assert set(generation.versions) == {0}
        expected = reference.chosen(prompt, generation)
        assert generation.log_probs == pytest.approx(expected, abs=TOLERANCE)
        has_stopped = generation.finish_reason is FinishReason.STOP
        assert has_stopped == (generation.tokens[-1] in prompts.stop_tokens)
        assert has_stopped or len(generation.tokens) == 24
    assert engine.generated_tokens - before == sum(len(each.tokens) for each in generations)


async def test_greedy_log_probs_are_those_of_temperature_one(
    engine: InferenceEngine, folders: dict[int, Path]
) -> None:
    generation = await engine.generate(a_request("greedy", temperature=0))

    reference = Reference({0: folders[0]}, temperature=1.0)
    assert list(generation.tokens) == reference.greedy((5, 6, 7), generation)
    expected = reference.chosen((5, 6, 7), generation)
    assert generation.log_probs == pytest.approx(expected, abs=TOLERANCE)


async def test_calls_of_a_tool_are_answered_between_two_turns(
    engine: InferenceEngine, prompts: PromptFormat, folders: dict[int, Path]
) -> None:
    prompt = (40, 41, 42)
    requests = [
        a_request(f"calling {number}", prompt, max_tokens=160, temperature=2.0)
        for number in range(32)
    ]

    responses = await asyncio.gather(*(respond(engine, each, prompts.calls) for each in requests))

    called = [each for each in responses if has_called(each)]
    assert len(called) > 2
    for each in responses:
        check_turns(each, prompts)
    reference = Reference({0: folders[0]}, temperature=2.0)
    found, expected = sampled_log_probs(reference, prompt, max(called, key=lambda e: len(e.tokens)))
    assert found == pytest.approx(expected, abs=TOLERANCE)


async def test_weight_change_between_tokens_keeps_each_tokens_version(
    engine: InferenceEngine, folders: dict[int, Path]
) -> None:
    # Responses that do not stop by themselves within a thousand tokens would be luck, so many
    # are requested, and those that the change interrupted are checked.
    prompts = some_prompts(31)
    long = [
        asyncio.ensure_future(engine.generate(a_request(f"long {i}", prompt, max_tokens=1000)))
        for i, prompt in enumerate(prompts)
    ]
    await engine.generate(a_request("short", max_tokens=4))
    paused_seconds = await engine.update_weights(weights_of(folders[1]), version=1)
    generations = await asyncio.gather(*long)
    after = await engine.generate(a_request("after", temperature=0))
    await engine.update_weights(weights_of(folders[0]), version=0)
    back = await engine.generate(a_request("back", temperature=0))

    assert paused_seconds > 0
    cut = [
        (prompt, generation)
        for prompt, generation in zip(prompts, generations, strict=True)
        if set(generation.versions) == {0, 1}
    ]
    assert cut
    reference = Reference(folders, temperature=TEMPERATURE)
    for prompt, generation in cut:
        assert len(generation.versions) == len(generation.tokens)
        assert list(generation.versions) == sorted(generation.versions)
        expected = reference.chosen(prompt, generation)
        assert generation.log_probs == pytest.approx(expected, abs=TOLERANCE)
    assert set(after.versions) == {1}
    assert set(back.versions) == {0}
    assert after.tokens != back.tokens


async def test_mismatched_weights_are_refused_before_generation_pauses(
    engine: InferenceEngine, folders: dict[int, Path]
) -> None:
    tensors = load_file(folders[0] / "model.safetensors")
    tensors["model.norm.weight"] = torch.ones(3)

    with pytest.raises(
        ValueError, match=r"model\.norm\.weight must have shape \(64,\), has \(3,\)"
    ):
        await engine.update_weights(save(tensors), version=5)

    assert engine.version == 0
    assert set((await engine.generate(a_request("still"))).versions) == {0}


async def test_cancelled_requests_give_their_places_back(engine: InferenceEngine) -> None:
    tasks = [
        asyncio.ensure_future(engine.generate(a_request(f"cancelled {i}", max_tokens=1000)))
        for i in range(40)
    ]
    await engine.generate(a_request("beside", max_tokens=2))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    generation = await asyncio.wait_for(engine.generate(a_request("next")), timeout=120)

    assert generation.tokens


async def test_request_longer_than_the_sequence_limit_is_refused(engine: InferenceEngine) -> None:
    with pytest.raises(ValueError, match="are 1025 tokens, the limit is 1024"):
        await engine.generate(a_request("too long", (5,) * 25, max_tokens=1000))


async def test_engine_death_reaches_every_waiter(engine: InferenceEngine) -> None:
    [process] = engine._llm.engine_core.resources.engine_manager.processes
    os.kill(process.pid, signal.SIGSTOP)  # or the response might end before its engine does
    waiting = asyncio.ensure_future(engine.generate(a_request("waiting")))
    await until(engine._llm.output_processor.has_unfinished_requests)
    os.kill(process.pid, signal.SIGKILL)

    with pytest.raises(EngineFailedError):
        await asyncio.wait_for(waiting, timeout=120)


async def until(holds: Callable[[], bool], *, seconds: float = 120) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)
