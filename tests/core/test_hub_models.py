"""The table of well-known Hub models beside what their publishers say."""

import re

import pytest

from hetrl_core.job.architecture import ModelArchitecture, from_hugging_face
from hetrl_core.job.known_dimensions import known_dimensions, similar_known_models
from hetrl_core.job.spec import ModelFiles
from hetrl_core.model.family import FAMILIES
from hetrl_core.model.hub_models import HUB_MODELS, similar_ids
from tests.builders import ARCHITECTURES

# The numbers of parameters that the Hub shows for the weights, or their publishers count.
PUBLISHED = {
    "Qwen2.5-0.5B": 494_032_768,
    "Qwen2.5-1.5B": 1_543_714_304,
    "Qwen2.5-Math-1.5B": 1_543_714_304,
    "Qwen2.5-3B": 3_085_938_688,
    "Qwen2.5-7B": 7_615_616_512,
    "Qwen2.5-Math-7B": 7_615_616_512,
    "Qwen2.5-14B": 14_770_033_664,
    "Qwen2.5-32B": 32_763_876_352,
    "DeepSeek-R1-Distill-Qwen-1.5B": 1_777_088_000,
    "DeepSeek-R1-Distill-Qwen-7B": 7_615_616_512,
    # The files of the first two hold the tied matrix twice.
    "Qwen3-0.6B": 751_632_384 - 151_936 * 1024,
    "Qwen3-1.7B": 2_031_739_904 - 151_936 * 2048,
    "Qwen3-4B": 4_022_468_096,
    "Qwen3-8B": 8_190_735_360,
    "Qwen3-14B": 14_768_307_200,
    "Qwen3-32B": 32_762_123_264,
    "Llama-3.1-8B": 8_030_261_248,
    "Llama-3.1-70B": 70_553_706_496,
    "Llama-3.2-1B": 1_235_814_400,
    "Llama-3.2-3B": 3_212_749_824,
    "Llama-3.3-70B": 70_553_706_496,
    "Mistral-7B-v0.3": 7_248_023_552,
    "Mistral-7B-Instruct-v0.3": 7_248_023_552,
    "phi-4": 14_659_507_200,
    "Phi-4-mini": 3_836_021_760,
    "gemma-2-2b": 2_614_341_888,
    "gemma-2-9b": 9_241_705_984,
    "gemma-3-270m": 268_098_176,
    "gemma-3-1b": 999_885_952,
    "OLMo-2-0425-1B": 1_484_916_736,
    "OLMo-2-1124-7B": 7_298_617_344,
    "GLM-4-9B-0414": 9_400_279_040,
    "granite-3.3-2b": 2_533_539_840,
    "granite-3.3-8b": 8_170_864_640,
    "SmolLM3-3B": 3_075_098_624,
}


def published(name: str) -> int:
    base = re.sub("(?i)(-instruct|-it|-base)(-2507)?$", "", name.partition("/")[2])
    return PUBLISHED[name.partition("/")[2] if base not in PUBLISHED else base]


def dimensions(name: str) -> ModelArchitecture:
    found = known_dimensions(ModelFiles(source=name, is_path=False))
    assert found
    return found.architecture


@pytest.mark.parametrize("name", HUB_MODELS)
def test_known_model_has_its_published_number_of_parameters(name: str) -> None:
    assert dimensions(name).num_parameters == published(name)


def test_known_models_are_of_every_family_and_have_whole_commits() -> None:
    commits = [each.commit for each in HUB_MODELS.values()]

    assert {each.config["model_type"] for each in HUB_MODELS.values()} == FAMILIES.keys()
    assert all(re.fullmatch("[0-9a-f]{40}", each) for each in commits)
    assert len(set(commits)) == len(commits)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_known_models_have_the_dimensions_used_elsewhere(name: str) -> None:
    owner = "meta-llama" if name.startswith("Llama") else "Qwen"

    assert from_hugging_face(HUB_MODELS[f"{owner}/{name}"].config) == ARCHITECTURES[name]


@pytest.mark.parametrize(
    ("model", "origin"),
    [
        (ModelFiles(source="Qwen/Qwen3-8B"), None),
        (ModelFiles(source="owner/name", is_path=False), None),
        (ModelFiles(source="Qwen/Qwen3-8B", is_path=False), r"commit b968826d9c46$"),
        (
            ModelFiles(
                source="Qwen/Qwen3-8B",
                is_path=False,
                revision="b968826d9c46dd6066d109eabc6255188de91218",
            ),
            r"commit b968826d9c46$",
        ),
        (
            ModelFiles(source="Qwen/Qwen3-8B", is_path=False, revision="v1"),
            r"commit b968826d9c46, and the job names revision v1: give spec.model.architecture",
        ),
    ],
    ids=["a folder", "an unknown id", "no revision", "its revision", "another revision"],
)
def test_dimensions_are_known_with_where_they_come_from(
    model: ModelFiles, origin: str | None
) -> None:
    found = known_dimensions(model)

    assert (found is None) is (origin is None)
    assert found is None or re.search(origin or "", found.origin)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("qwen/qwen3-8b", "Qwen/Qwen3-8B"),
        ("Qwen/Qwen3-8", "Qwen/Qwen3-8B"),
        ("THUDM/GLM-4-9B-0414", "zai-org/GLM-4-9B-0414"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("owner/name", None),
    ],
)
def test_similar_ids_begin_with_the_most_similar(name: str, first: str | None) -> None:
    model = ModelFiles(source=name, is_path=False)

    assert next(iter(similar_ids(name)), None) == first
    assert similar_known_models(model).startswith(
        f"; known Hub ids that are similar: {first}" if first else ""
    )
    assert similar_known_models(ModelFiles(source=name)) == ""
