"""The transformers engine against one plain forward pass per sequence."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save

from hetrl_runtime.compute import precision
from hetrl_runtime.rollout.engine import (
    EngineSettings,
    FinishReason,
    GenerationRequest,
)
from hetrl_runtime.rollout.engines.slots import sample
from hetrl_runtime.rollout.engines.transformers import TransformersEngine
from hetrl_runtime.rollout.errors import EngineFailedError, UnknownTokenError
from tests.runtime.rollout.models import EOS, save_tiny_qwen3, weights_of
from tests.runtime.rollout.reference import Reference

pytestmark = pytest.mark.slow

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_qwen3(tmp_path_factory.mktemp("v0"), seed=0)


@pytest.fixture(scope="module")
def next_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_qwen3(tmp_path_factory.mktemp("v1"), seed=1)


@asynccontextmanager
async def an_engine(
    model: Path, *, concurrency: int = 8, stop_tokens: tuple[int, ...] = (EOS,), seed: int = 0
) -> AsyncIterator[TransformersEngine]:
    settings = EngineSettings(
        model=str(model),
        concurrency=concurrency,
        max_sequence_tokens=512,
        stop_tokens=stop_tokens,
        seed=seed,
    )
    engine = TransformersEngine(settings)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


def some_prompts(count: int, *, seed: int = 0) -> list[tuple[int, ...]]:
    draw = random.Random(seed)
    return [tuple(draw.randrange(3, 60) for _ in range(draw.randint(1, 14))) for _ in range(count)]


async def test_greedy_output_equals_a_forward_pass_with_staggered_admission(
    model: Path,
) -> None:
    prompts = some_prompts(30)
    limits = [3 + 5 * (index % 7) for index in range(30)]
    reference = Reference({0: model}, temperature=1.0)

    async with an_engine(model, concurrency=4) as engine:

        async def ask(index: int):  # type: ignore[no-untyped-def]
            await asyncio.sleep(0.002 * index)
            return await engine.generate(
                GenerationRequest(
                    id=str(index),
                    prompt_tokens=prompts[index],
                    max_tokens=limits[index],
                    temperature=0,
                )
            )

        generations = await asyncio.gather(*map(ask, range(30)))

    for prompt, limit, generation in zip(prompts, limits, generations, strict=True):
        assert list(generation.tokens) == reference.greedy(prompt, generation)
        expected = reference.chosen(prompt, generation)
        assert generation.log_probs == pytest.approx(expected, abs=TOLERANCE)
        if generation.finish_reason is FinishReason.STOP:
            assert generation.tokens.index(EOS) == len(generation.tokens) - 1
        else:
            assert EOS not in generation.tokens
            assert len(generation.tokens) == limit
    assert engine.generated_tokens == sum(len(each.tokens) for each in generations)


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.6])
async def test_sampled_log_probs_are_those_of_the_tempered_distribution(
    model: Path, temperature: float
) -> None:
    prompts = some_prompts(6, seed=2) * 4
    reference = Reference({0: model}, temperature=temperature)

    async with an_engine(model, concurrency=24) as engine:
        generations = await asyncio.gather(
            *(
                engine.generate(
                    GenerationRequest(
                        id=str(index),
                        prompt_tokens=prompt,
                        max_tokens=20,
                        temperature=temperature,
                    )
                )
                for index, prompt in enumerate(prompts)
            )
        )

    for prompt, generation in zip(prompts, generations, strict=True):
        expected = reference.chosen(prompt, generation)
        assert generation.log_probs == pytest.approx(expected, abs=TOLERANCE)
    assert len({each.tokens for each in generations}) > len(set(prompts))


async def test_weight_change_between_tokens_keeps_each_tokens_version(
    model: Path, next_model: Path
) -> None:
    prompts = some_prompts(7, seed=3)
    reference = Reference({0: model, 1: next_model}, temperature=0.9)

    async with an_engine(model, concurrency=8, stop_tokens=()) as engine:

        def ask(name: str, prompt: tuple[int, ...], max_tokens: int):  # type: ignore[no-untyped-def]
            return asyncio.ensure_future(
                engine.generate(
                    GenerationRequest(
                        id=name, prompt_tokens=prompt, max_tokens=max_tokens, temperature=0.9
                    )
                )
            )

        long = [ask(str(index), prompt, 400) for index, prompt in enumerate(prompts)]
        await ask("short", (5, 6), 20)
        paused_seconds = await engine.update_weights(weights_of(next_model), version=1)
        generations = await asyncio.gather(*long)

    assert paused_seconds > 0
    for prompt, generation in zip(prompts, generations, strict=True):
        assert set(generation.versions) == {0, 1}
        assert list(generation.versions) == sorted(generation.versions)
        expected = reference.chosen(prompt, generation)
        assert generation.log_probs == pytest.approx(expected, abs=TOLERANCE)


async def test_versions_may_go_back_after_a_trainers_rewind(model: Path, next_model: Path) -> None:
    request = GenerationRequest(id="a", prompt_tokens=(5, 6, 7), max_tokens=12, temperature=0)
    async with an_engine(model) as engine:
        first = await engine.generate(request)
        await engine.update_weights(weights_of(next_model), version=7)
        other = await engine.generate(request)
        await engine.update_weights(weights_of(model), version=5)
        again = await engine.generate(request)

    assert other.tokens != first.tokens
    assert again.tokens == first.tokens
    assert [set(each.versions) for each in (first, other, again)] == [{0}, {7}, {5}]


async def test_request_with_an_unknown_token_fails_alone(model: Path) -> None:
    def asked(name: str, *tokens: int) -> GenerationRequest:
        return GenerationRequest(id=name, prompt_tokens=tokens, max_tokens=3, temperature=0)

    async with an_engine(model, stop_tokens=()) as engine:
        others = [engine.generate(asked(str(number), 5, 6, 7)) for number in range(3)]
        with pytest.raises(UnknownTokenError, match="token 5000 is not one of the"):
            await engine.generate(asked("unknown", 5, 5000))
        generations = await asyncio.gather(*others)

    assert [len(each.tokens) for each in generations] == [3, 3, 3]


async def test_request_that_cannot_be_computed_fails_alone(model: Path) -> None:
    def asked(name: str, *tokens: int) -> GenerationRequest:
        return GenerationRequest(id=name, prompt_tokens=tokens, max_tokens=3, temperature=0)

    async with an_engine(model, stop_tokens=()) as engine:
        # Without the check of its tokens: the embedding itself refuses it then.
        engine._num_rows = 1 << 31
        found = await asyncio.gather(
            *(engine.generate(asked(str(token), 5, token, 6)) for token in (7, 5000, 8)),
            return_exceptions=True,
        )
        again = await engine.generate(asked("again", 5, 7, 6))

    assert isinstance(found[1], ValueError)
    assert "request 5000 cannot begin" in str(found[1])
    assert not isinstance(found[0], BaseException)
    assert not isinstance(found[2], BaseException)
    assert again.tokens == found[0].tokens


async def test_cancelled_requests_give_their_places_back(model: Path) -> None:
    async with an_engine(model, concurrency=2, stop_tokens=()) as engine:
        tasks = [
            asyncio.ensure_future(
                engine.generate(
                    GenerationRequest(id=f"long {index}", prompt_tokens=(5, 6), max_tokens=500)
                )
            )
            for index in range(6)
        ]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        request = GenerationRequest(id="next", prompt_tokens=(5, 6), max_tokens=3)
        generation = await asyncio.wait_for(engine.generate(request), timeout=60)

    assert len(generation.tokens) == 3
    assert engine.generated_tokens == 3


async def test_mismatched_weights_are_refused_and_the_old_ones_stay(model: Path) -> None:
    tensors = load_file(model / "model.safetensors")
    missing = {name: each for name, each in tensors.items() if name != "model.norm.weight"}
    request = GenerationRequest(id="a", prompt_tokens=(5, 6, 7), max_tokens=12, temperature=0)

    async with an_engine(model) as engine:
        before = await engine.generate(request)
        for weights, message in (
            (
                save({**tensors, "model.norm.weight": torch.ones(3)}),
                r"model\.norm\.weight must have shape \(64,\), has \(3,\)",
            ),
            (save(missing), r"lack the tensor model\.norm\.weight"),
            (save({**tensors, "other": torch.ones(1)}), "a tensor other, which the model has not"),
            (b"\x20", "the weights, 1 bytes, are no safetensors file"),
        ):
            with pytest.raises(ValueError, match=message):
                await engine.update_weights(weights, version=9)
        after = await engine.generate(request)

    assert after == before


async def test_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    settings = EngineSettings(
        model=str(tmp_path / "nothing"), concurrency=1, max_sequence_tokens=8, stop_tokens=()
    )
    with pytest.raises(ValueError, match=f"model path {tmp_path}/nothing is not a directory"):
        await TransformersEngine(settings).start()


async def test_engine_failure_reaches_every_waiter(model: Path) -> None:
    async with an_engine(model, concurrency=1) as engine:
        engine._model.lm_head = torch.nn.Linear(3, 5)  # which no hidden state fits
        tasks = [
            asyncio.ensure_future(
                engine.generate(
                    GenerationRequest(id=str(index), prompt_tokens=(5, 6, 7), max_tokens=50)
                )
            )
            for index in range(3)
        ]
        results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
        with pytest.raises(EngineFailedError, match="broke down"):
            await engine.generate(GenerationRequest(id="x", prompt_tokens=(5,), max_tokens=1))

    assert isinstance(results[2], EngineFailedError)


async def test_request_longer_than_the_sequence_limit_is_refused(model: Path) -> None:
    async with an_engine(model) as engine:
        with pytest.raises(ValueError, match="are 513 tokens, the limit is 512"):
            await engine.generate(
                GenerationRequest(id="a", prompt_tokens=(5,) * 500, max_tokens=13)
            )


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_sampling_follows_the_tempered_softmax(temperature: float) -> None:
    logits = torch.tensor([2.0, 0.5, -1.0, 0.0])
    draws = 200_000
    tokens, _ = sample(
        logits.expand(draws, 4),
        torch.full((draws,), temperature),
        torch.Generator().manual_seed(1),
    )
    shares = torch.bincount(tokens, minlength=4) / draws
    torch.testing.assert_close(
        shares, torch.softmax(logits / temperature, dim=0), atol=0.005, rtol=0
    )


def test_impossible_tokens_are_never_drawn_and_rare_ones_proportionally() -> None:
    vocabulary, batches, rows = 50_000, 40, 100
    logits = torch.full((vocabulary,), -torch.inf)
    logits[1:-1:2] = 0.0
    # Half of all the probability, behind many that are rare.
    logits[-3] = torch.tensor((vocabulary - 2) / 2).log()

    generator = torch.Generator().manual_seed(1)
    drawn = [
        sample(logits.expand(rows, vocabulary), torch.ones(rows), generator) for _ in range(batches)
    ]

    tokens, log_probs = (torch.cat(each) for each in zip(*drawn, strict=True))
    assert torch.isfinite(log_probs).all()
    assert (tokens == vocabulary - 3).float().mean().item() == pytest.approx(0.5, abs=0.04)
    rare = tokens[tokens != vocabulary - 3]
    assert rare.float().mean().item() == pytest.approx(vocabulary / 2, rel=0.05)


async def test_wide_model_generates_in_bfloat16_what_its_log_probabilities_say(
    model: Path, next_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "LEAST_SERVED_SIZE", 1)
    monkeypatch.setattr(precision, "cpu_multiplies_bfloat16", lambda: True)
    prompts = some_prompts(6)

    async with an_engine(model) as engine:
        await engine.update_weights(weights_of(next_model), version=1)
        found = [
            await engine.generate(
                GenerationRequest(id=str(number), prompt_tokens=prompt, max_tokens=12)
            )
            for number, prompt in enumerate(prompts)
        ]

    reference = Reference({1: next_model}, temperature=1.0)
    for prompt, each in zip(prompts, found, strict=True):
        exact = reference.chosen(prompt, each)
        assert each.log_probs == pytest.approx(exact, abs=0.3), "to bfloat16's eight bits"
        assert each.log_probs != pytest.approx(exact, abs=1e-4), "and not in float32"


async def test_seed_fixes_the_responses(model: Path) -> None:
    async def responses(seed: int) -> list[tuple[int, ...]]:
        async with an_engine(model, seed=seed) as engine:
            request = GenerationRequest(id="a", prompt_tokens=(5, 6, 7), max_tokens=30)
            return [(await engine.generate(request)).tokens for _ in range(2)]

    assert await responses(4) == await responses(4)
    assert await responses(4) != await responses(5)
