"""Families in a real vLLM engine: log-probabilities as transformers computes them.

Run in vLLM's own environment: ``.venv-vllm/bin/python -m pytest -m engine tests/runtime/families``.
"""

import asyncio
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from bench.proof.families import record
from hetrl_core.job.spec import Engine
from hetrl_runtime.model_files.errors import ModelError
from hetrl_runtime.rollout.engine import EngineSettings, GenerationRequest
from hetrl_runtime.rollout.engines import open_engine
from hetrl_runtime.rollout.program import VLLM_SETTINGS
from tests.runtime.families.models import MODELS, save_family
from tests.runtime.families.reference import apart, log_probs_of, random_tokens

pytestmark = [
    pytest.mark.skipif(find_spec("vllm") is None, reason="needs vLLM: make setup-vllm"),
    pytest.mark.engine,
    pytest.mark.slow,
    # vLLM's own warnings are its makers' business.
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture(autouse=True)
def _one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VLLM_SETTINGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


REFUSED = {
    "gemma2": r"attn_logit_softcapping 10\.0, which vLLM computes on GPUs",
    "qwen2, window": r"max_window_layers 1 of 3 layers",
}
AT_EACH_LANDING = {"gemma3_text", "granite", "mistral, window"}
"""Windows of some layers, windows of all, and what comes after the head; an engine starts for each
of them, so the others are left to ``make proof-families``."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=() if each in AT_EACH_LANDING else pytest.mark.proof)
        for each in MODELS
        if each not in REFUSED
    ],
)
async def test_vllm_engine_is_as_transformers(name: str, tmp_path: Path) -> None:
    # The smallest heads that its attention on CPUs accepts.
    sizes = (
        {"hidden_size": 128, "head_dim": 32} if "head_dim" in MODELS[name] else {"hidden_size": 128}
    )
    folder = save_family(name, tmp_path / "model", **sizes)
    engine = open_engine(
        Engine.VLLM,
        EngineSettings(model=str(folder), concurrency=4, max_sequence_tokens=64, stop_tokens=(1,)),
    )
    prompts = [random_tokens(count, seed=count) for count in (1, 20, 33)]
    try:
        await engine.start()
        answers = await asyncio.gather(
            *(
                engine.generate(
                    GenerationRequest(id=str(number), prompt_tokens=tuple(each), max_tokens=20)
                )
                for number, each in enumerate(prompts)
            )
        )
    finally:
        await engine.stop()

    samples = [(each, list(answer.tokens)) for each, answer in zip(prompts, answers, strict=True)]
    found = [torch.tensor(each.log_probs) for each in answers]
    difference = apart(found, log_probs_of(folder, samples))
    record(name, "vllm", difference)
    assert difference < 1e-4


@pytest.mark.parametrize(("name", "said"), REFUSED.items())
async def test_vllm_engine_refuses_what_it_cannot_compute(
    tmp_path: Path, name: str, said: str
) -> None:
    settings = EngineSettings(
        model=str(save_family(name, tmp_path / "model")),
        concurrency=1,
        max_sequence_tokens=64,
        stop_tokens=(1,),
    )

    with pytest.raises(ModelError, match=said) as refused:
        await open_engine(Engine.VLLM, settings).start()
    record(name, "vllm", str(refused.value))
