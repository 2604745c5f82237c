from typing import Any

import pytest

from hetrl_core.job.architecture import ModelArchitecture, from_hugging_face
from tests.builders import ARCHITECTURES

# Parameter counts that the models' publishers state, in units of 1e9.
PUBLISHED = {
    "Qwen2.5-1.5B": 1.544,
    "Qwen2.5-7B": 7.616,
    "Qwen2.5-14B": 14.770,
    "Qwen3-0.6B": 0.596,
    "Qwen3-1.7B": 1.721,
    "Qwen3-4B": 4.022,
    "Qwen3-8B": 8.191,
    "Qwen3-14B": 14.768,
    "Llama-3.1-8B": 8.030,
    "Qwen3-32B": 32.762,
}

QWEN3_8B = {
    "model_type": "qwen3",
    "hidden_size": 4096,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 12288,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_agree_with_the_published_count(name: str) -> None:
    assert ARCHITECTURES[name].num_parameters / 1e9 == pytest.approx(PUBLISHED[name], abs=6e-4)


def test_published_config_gives_the_same_dimensions() -> None:
    assert from_hugging_face(QWEN3_8B) == ARCHITECTURES["Qwen3-8B"]


def test_keys_and_values_of_a_token_count_every_layer() -> None:
    # 36 layers, 8 heads of 128, keys and values, two bytes each.
    assert ARCHITECTURES["Qwen3-8B"].kv_bytes_per_token() == 36 * 8 * 128 * 2 * 2


def test_config_without_key_value_heads_means_one_per_query_head() -> None:
    config = {key: value for key, value in QWEN3_8B.items() if key != "num_key_value_heads"}
    assert from_hugging_face(config).num_kv_heads == 32


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"model_type": "mamba"}, "model_type must be .* got 'mamba'", id="family"),
        pytest.param({"hidden_size": None}, "whole number 'hidden_size', got None", id="missing"),
        pytest.param({"vocab_size": "many"}, "whole number 'vocab_size', got 'many'", id="text"),
        pytest.param({"num_hidden_layers": 0}, "num_layers must be >= 1, got 0", id="zero"),
        pytest.param({"hidden_size": -8}, "hidden_size must be >= 1, got -8", id="negative"),
        pytest.param({"vocab_size": True}, "whole number 'vocab_size', got True", id="a truth"),
        pytest.param(
            {"num_attention_heads": 0, "head_dim": None},
            "num_query_heads must be >= 1, got 0",
            id="no heads to divide by",
        ),
        pytest.param({"head_dim": [128]}, r"whole number 'head_dim', got \[128\]", id="a list"),
        pytest.param(
            {"num_key_value_heads": "8"},
            "whole number 'num_key_value_heads', got '8'",
            id="a number in quotes",
        ),
        pytest.param(
            {"num_key_value_heads": 5}, r"\(32\) must be a multiple of .* \(5\)", id="heads"
        ),
    ],
)
def test_config_that_is_no_such_model_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_hugging_face(QWEN3_8B | changes)


@pytest.mark.parametrize("config", [[QWEN3_8B], "qwen3", None], ids=["list", "text", "nothing"])
def test_config_that_is_no_mapping_is_refused(config: object) -> None:
    with pytest.raises(ValueError, match=r"config\.json must be a mapping, got"):
        from_hugging_face(config)


def test_dimensions_must_be_positive() -> None:
    dimensions: dict[str, Any] = {
        "hidden_size": 64,
        "num_layers": 2,
        "num_query_heads": 2,
        "num_kv_heads": 1,
        "head_dim": 32,
        "ffn_size": 128,
        "vocab_size": 100,
    }
    for name in dimensions:
        with pytest.raises(ValueError, match=f"architecture.{name} must be >= 1, got -1"):
            ModelArchitecture(**(dimensions | {name: -1}), tied_embeddings=True)
