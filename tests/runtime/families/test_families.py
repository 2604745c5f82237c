"""Every family as transformers computes it: trainer, packed and padded, stages, and engine."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from bench.proof.families import record
from hetrl_core.job.architecture import from_hugging_face
from hetrl_core.job.spec import ModelFiles
from hetrl_core.model.check import ModelFacts, Use, checked
from hetrl_core.model.family import FAMILIES, sizes_of
from hetrl_core.plan.training_split import TrainingSplit
from hetrl_runtime.rollout.engine import EngineSettings, GenerationRequest
from hetrl_runtime.rollout.engines.transformers import TransformersEngine
from hetrl_runtime.trainer.layers import packing
from hetrl_runtime.trainer.model.model import Policy
from hetrl_runtime.trainer.parallel.loading import stage_of
from hetrl_runtime.trainer.parallel.mesh import Mesh
from hetrl_runtime.trainer.parallel.place import Place
from tests.runtime.families.models import MODELS, config_of, save_family
from tests.runtime.families.reference import (
    SAMPLES,
    Sample,
    a_batch,
    apart,
    by_response,
    log_probs_of,
    random_tokens,
)
from tests.runtime.trainer.scores import scores_of

CPU = torch.device("cpu")
FAR = 1e-4
NAMES = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("families")
    return {name: save_family(name, root / name) for name in MODELS}


@pytest.fixture(scope="module")
def expected(folders: dict[str, Path]) -> dict[str, list[Tensor]]:
    """Log-probabilities of transformers' own."""
    return {name: log_probs_of(each, SAMPLES, temperature=0.7) for name, each in folders.items()}


def test_families_that_pass_the_check_all_have_a_model_here() -> None:
    assert {name.split(",", maxsplit=1)[0] for name in MODELS} == FAMILIES.keys()


@NAMES
def test_names_and_shapes_of_weights_are_the_librarys(name: str) -> None:
    config = config_of(name)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    found = {each: tuple(parameter.shape) for each, parameter in model.named_parameters()}
    family, fields = FAMILIES[config.model_type], config.to_dict()

    assert family.tensors(fields, sizes_of(fields, family)) == found
    assert from_hugging_face(fields).num_parameters == model.num_parameters()


@pytest.mark.parametrize("name", FAMILIES)
def test_missing_fields_of_a_config_mean_what_the_library_says(name: str) -> None:
    library, family = AutoConfig.for_model(name), FAMILIES[name]
    fields = library.to_dict()
    for field in ("tie_word_embeddings", "head_dim", "attention_bias", "mlp_bias"):
        fields.pop(field, None)

    sizes = sizes_of(fields, family)

    assert sizes.ties_embeddings is library.tie_word_embeddings
    heads = library.hidden_size // library.num_attention_heads
    assert sizes.head_dim == (getattr(library, "head_dim", None) or heads)
    if "attention_bias" in family.biased_where:
        assert family.attention_bias is library.attention_bias


@NAMES
def test_folder_passes_the_check(name: str, folders: dict[str, Path]) -> None:
    folder = folders[name]
    names = [each.name for each in folder.iterdir()]

    assert isinstance(
        checked(names, lambda file: (folder / file).open("rb"), use=Use.CAUSAL), ModelFacts
    )


@NAMES
@pytest.mark.parametrize("is_packed", [True, False], ids=["packed", "padded"])
@torch.no_grad()
def test_trainer_is_as_transformers(
    name: str, is_packed: bool, folders: dict[str, Path], expected: dict[str, list[Tensor]]
) -> None:
    how = "packed" if is_packed else "padded"
    if is_packed and (why := packing.reason_against(config_of(name))):
        record(name, how, why)
        pytest.skip(why)
    with patch.object(packing, "reason_against", return_value="" if is_packed else "padded"):
        policy = Policy(ModelFiles(source=str(folders[name])), device=CPU, temperature=0.7)

    found = scores_of(policy, a_batch()).log_probs_BR

    difference = apart(by_response(found), expected[name])
    record(name, how, difference)
    assert policy.stage.is_packed is is_packed
    assert difference < FAR


@NAMES
@torch.no_grad()
def test_stages_of_a_pipeline_are_as_transformers(
    name: str, folders: dict[str, Path], expected: dict[str, list[Tensor]]
) -> None:
    batch, split = a_batch(), TrainingSplit(stage_layers=(1, 1, 1))
    config = AutoConfig.from_pretrained(folders[name])
    given: Any = batch.tokens_BT
    for number in range(split.num_stages):
        # Without tensor ranks and replicas, a stage asks its mesh for no more.
        mesh = SimpleNamespace(place=Place(split=split, stage=number), device=CPU)
        stage = stage_of(folders[name], config, cast("Mesh", mesh), temperature=0.7)
        given = stage(
            given,
            is_token_BT=batch.is_token_BT,
            prompts_B=batch.prompts_B,
            responses_BR=batch.responses_BR,
        )

    assert apart(by_response(given[0]), expected[name]) < FAR


async def generated(folder: Path) -> tuple[list[Sample], list[Tensor]]:
    engine = TransformersEngine(
        EngineSettings(model=str(folder), concurrency=3, max_sequence_tokens=80, stop_tokens=(1,))
    )
    await engine.start()
    prompts: Sequence[list[int]] = [random_tokens(count, seed=count) for count in (1, 20, 9, 33)]
    try:
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
    return samples, [torch.tensor(each.log_probs) for each in answers]


@NAMES
async def test_transformers_engine_is_as_transformers(name: str, folders: dict[str, Path]) -> None:
    samples, found = await generated(folders[name])

    difference = apart(found, log_probs_of(folders[name], samples))
    record(name, "transformers", difference)
    assert difference < FAR
