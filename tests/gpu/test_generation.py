"""What each engine samples on one GPU, in bfloat16, beside a forward pass in float32 on a CPU."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from hetrl_core.job.spec import Engine
from hetrl_runtime.rollout.engine import (
    EngineSettings,
    Generation,
    GenerationRequest,
    InferenceEngine,
)
from hetrl_runtime.rollout.engines import open_engine
from hetrl_runtime.rollout.program import VLLM_SETTINGS
from tests.gpu.conftest import needs_a_gpu
from tests.runtime.rollout.models import save_two_versions, weights_of
from tests.runtime.rollout.reference import Reference

# What libraries warn of on a GPU is their makers' business.
pytestmark = [*needs_a_gpu, pytest.mark.filterwarnings("default")]

ENGINES = pytest.mark.parametrize(
    "kind",
    [
        Engine.TRANSFORMERS,
        pytest.param(
            Engine.VLLM,
            marks=pytest.mark.skipif(find_spec("vllm") is None, reason="needs vLLM's GPU package"),
        ),
    ],
)

PROMPTS = [tuple(3 + (7 * row + place) % 57 for place in range(1 + row % 14)) for row in range(64)]
MEAN_TOLERANCE = 0.05


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    return save_two_versions(tmp_path_factory)


@pytest.fixture(autouse=True)
def _as_in_a_rollout_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VLLM_SETTINGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@asynccontextmanager
async def an_engine(kind: Engine, model: Path) -> AsyncIterator[InferenceEngine]:
    settings = EngineSettings(
        model=str(model), concurrency=128, max_sequence_tokens=512, stop_tokens=(), seed=0
    )
    engine = open_engine(kind, settings)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


def mean_difference(generations: Sequence[Generation], reference: Reference) -> float:
    """Return how far log-probabilities are from the reference's, over all tokens."""
    found = [
        abs(one - other)
        for prompt, each in zip(PROMPTS, generations, strict=True)
        for one, other in zip(each.log_probs, reference.chosen(prompt, each), strict=True)
    ]
    return sum(found) / len(found)


def requests(max_tokens: int) -> list[GenerationRequest]:
    return [
        GenerationRequest(id=str(row), prompt_tokens=prompt, max_tokens=max_tokens, temperature=0.9)
        for row, prompt in enumerate(PROMPTS)
    ]


@ENGINES
async def test_sampled_log_probs_equal_a_forward_pass_up_to_rounding(
    folders: dict[int, Path], kind: Engine
) -> None:
    async with an_engine(kind, folders[0]) as engine:
        generations = await asyncio.gather(*map(engine.generate, requests(60)))

    assert {len(each.tokens) for each in generations} == {60}
    assert (
        mean_difference(generations, Reference({0: folders[0]}, temperature=0.9)) < MEAN_TOLERANCE
    )


@ENGINES
async def test_weight_change_between_tokens_leaves_each_its_version(
    folders: dict[int, Path], kind: Engine
) -> None:
    async with an_engine(kind, folders[0]) as engine:
        asked = [asyncio.ensure_future(engine.generate(each)) for each in requests(400)]
        await engine.generate(GenerationRequest(id="short", prompt_tokens=(5, 6), max_tokens=20))
        await engine.update_weights(weights_of(folders[1]), version=1)
        generations = await asyncio.gather(*asked)

    assert {0, 1} == {version for each in generations for version in each.versions}
    assert all(list(each.versions) == sorted(each.versions) for each in generations)
    assert mean_difference(generations, Reference(folders, temperature=0.9)) < MEAN_TOLERANCE
