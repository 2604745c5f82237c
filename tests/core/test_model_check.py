"""The check of a model's folder: what it accepts, and the words in which it refuses."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hetrl_core.model.check import ModelFacts, ModelProblems, Use, checked
from hetrl_core.model.context import Lengths
from tests.model_folders import TINY_QWEN3, tensors_of, write_model, write_weights

TENSORS = tensors_of(TINY_QWEN3)
TIED = TINY_QWEN3 | {"tie_word_embeddings": True}
ORIGINAL = "original_max_position_embeddings"
CLASSIFIER = TINY_QWEN3 | {"architectures": ["Qwen3ForSequenceClassification"], "num_labels": 1}


def found(
    folder: Path,
    use: Use = Use.CAUSAL,
    lengths: Lengths | None = None,
    *,
    needs_weights: bool = True,
) -> ModelFacts | ModelProblems:
    return checked(
        [each.name for each in folder.iterdir()],
        lambda name: (folder / name).open("rb"),
        use=use,
        lengths=lengths,
        needs_weights=needs_weights,
    )


def reasons(folder: Path, use: Use = Use.CAUSAL, lengths: Lengths | None = None) -> str:
    answer = found(folder, use, lengths)
    assert isinstance(answer, ModelProblems)
    return "; ".join(answer.reasons)


@pytest.mark.parametrize(
    ("config", "tensors"),
    [
        pytest.param(TINY_QWEN3, TENSORS, id="what it asks for"),
        pytest.param(TIED, tensors_of(TIED), id="tied, without a head"),
        pytest.param(TIED, TENSORS, id="tied, with the head too"),
        pytest.param(
            TINY_QWEN3,
            {**TENSORS, "model.layers.0.self_attn.rotary_emb.inv_freq": (8,)},
            id="with what the library ignores",
        ),
        pytest.param(
            {name: each for name, each in TINY_QWEN3.items() if name != "architectures"},
            TENSORS,
            id="without a class",
        ),
    ],
)
def test_complete_model_is_accepted(
    tmp_path: Path, config: dict[str, Any], tensors: dict[str, Any]
) -> None:
    assert isinstance(found(write_model(tmp_path, config, tensors)), ModelFacts)


@pytest.mark.parametrize(
    ("changes", "tensors", "said"),
    [
        pytest.param(
            {},
            {name: each for name, each in TENSORS.items() if name != "lm_head.weight"},
            "the weights lack lm_head.weight, which config.json asks for with tie_word_embeddings",
            id="no head",
        ),
        pytest.param(
            {"tie_word_embeddings": True},
            {name: each for name, each in TENSORS.items() if "embed" not in name},
            "the weights lack model.embed_tokens.weight",
            id="tied, under the head's name alone",
        ),
        pytest.param(
            {"num_hidden_layers": 3},
            TENSORS,
            "the weights lack model.layers.2.self_attn.q_proj.weight, .* and 8 more",
            id="more layers than the files",
        ),
        pytest.param(
            {"num_hidden_layers": 1},
            TENSORS,
            "the weights have model.layers.1.* which config.json does not ask for",
            id="fewer layers than the files",
        ),
        pytest.param(
            {"vocab_size": 256},
            TENSORS,
            r"model.embed_tokens.weight is \(128, 64\), config.json says \(256, 64\)",
            id="larger vocabulary",
        ),
        pytest.param(
            {"num_key_value_heads": 4}, TENSORS, "k_proj.weight is", id="other heads than the files"
        ),
        pytest.param(
            {},
            {name.removeprefix("model."): each for name, each in TENSORS.items()},
            "the weights lack model.embed_tokens.weight",
            id="names of another layout",
        ),
        pytest.param(
            {},
            {**TENSORS, "model.layers.0.mlp.up_proj.weight_scale": (128,)},
            "the weights have model.layers.0.mlp.up_proj.weight_scale",
            id="scales of a quantised model",
        ),
        pytest.param(
            {"quantization_config": {"quant_method": "awq", "bits": 4}},
            TENSORS,
            r"quantization_config \(awq\): .* take the model's unquantised version",
            id="quantised",
        ),
        pytest.param(
            {"architectures": ["Qwen3ForSequenceClassification"]},
            TENSORS,
            "architectures Qwen3ForSequenceClassification: a causal language model has one that "
            "ends with ForCausalLM",
            id="wrong head",
        ),
        pytest.param(
            {"model_type": "granitemoe"},
            TENSORS,
            "model_type must be .* got 'granitemoe'",
            id="another family",
        ),
        pytest.param(
            {"model_type": None}, TENSORS, "model_type must be .* got None", id="no family"
        ),
        pytest.param(
            {"model_type": ["qwen3"]}, TENSORS, "model_type must be .* got", id="family of a list"
        ),
        pytest.param(
            {"num_hidden_layers": 10**9}, TENSORS, "num_hidden_layers must be <= 1000", id="endless"
        ),
        pytest.param({"hidden_size": None}, TENSORS, "no whole number 'hidden_size'", id="no size"),
    ],
)
def test_model_that_is_not_what_its_config_says_is_refused(
    tmp_path: Path, changes: dict[str, Any], tensors: dict[str, Any], said: str
) -> None:
    why = reasons(write_model(tmp_path, TINY_QWEN3 | changes, tensors))

    assert re.search(said, why), why


@pytest.mark.parametrize(
    "name",
    [
        "qwen3_moe",
        "mixtral",
        "gemma",
        "gemma3",
        "cohere",
        "olmo3",
        "starcoder2",
        "phi",
        "bert",
        "t5",
    ],
)
def test_families_that_are_not_listed_are_refused_by_name(tmp_path: Path, name: str) -> None:
    why = reasons(write_model(tmp_path, TINY_QWEN3 | {"model_type": name}, TENSORS))

    assert why == (
        "model_type must be gemma2, gemma3_text, glm4, granite, llama, mistral, olmo2, phi3, "
        f"qwen2, qwen3 or smollm3, got {name!r}"
    )


def test_reasons_are_all_named_at_once(tmp_path: Path) -> None:
    config = CLASSIFIER | {"model_type": "bert", "quantization_config": {"quant_method": "fp8"}}

    why = reasons(write_model(tmp_path, config, {}))

    assert all(each in why for each in ("'bert'", "(fp8)", "Qwen3ForSequenceClassification"))


def test_weights_of_eight_bits_are_refused(tmp_path: Path) -> None:
    why = reasons(write_model(tmp_path, dtype="F8_E4M3"))

    assert "the weights are no plain float32" in why
    assert "model.embed_tokens.weight (F8_E4M3)" in why


def test_weights_of_several_files_are_read_by_their_index(tmp_path: Path) -> None:
    write_model(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    halves = list(TENSORS)[:5], list(TENSORS)[5:]
    files = ["model-1.safetensors", "model-2.safetensors"]
    index = {name: file for file, names in zip(files, halves, strict=True) for name in names}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    for file, names in zip(files, halves, strict=True):
        write_weights(tmp_path / file, {name: TENSORS[name] for name in names})
    write_weights(tmp_path / "consolidated.safetensors", {"layers.0.wq": (2,)})

    assert isinstance(found(tmp_path), ModelFacts)
    (tmp_path / files[1]).unlink()
    assert "names model-2.safetensors, which is not there" in reasons(tmp_path)
    (tmp_path / files[0]).unlink()
    assert "there are no weights" in reasons(tmp_path)
    assert isinstance(found(tmp_path, needs_weights=False), ModelFacts)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("config.json", b"{", "config.json is no JSON"),
        ("config.json", b"[]", "config.json must be a mapping, got list"),
        ("model.safetensors", b"version https://git-lfs", "is no safetensors file"),
        ("model.safetensors", b"\x02\0\0\0\0\0\0\0{}more", "has 14 bytes of 10"),
        ("model.safetensors", b"\x0a\0\0\0\0\0\0\0" + b'{"a": [1]}', "its header lacks"),
        ("model.safetensors", b"", "is no safetensors file"),
        ("model.safetensors.index.json", b"{}", "has no weight_map"),
        ("tokenizer.json", b'{"added_tokens": [{"id": 5}]}', "tokenizer.json is not understood"),
        ("adapter_config.json", b"{}", "merge it into its model"),
    ],
)
def test_file_that_cannot_be_read_is_named(
    tmp_path: Path, file: str, text: bytes, said: str
) -> None:
    write_model(tmp_path)
    if "index" in file:
        (tmp_path / "model.safetensors").unlink()
    (tmp_path / file).write_bytes(text)

    assert said in reasons(tmp_path)


def test_weights_that_were_cut_off_are_refused(tmp_path: Path) -> None:
    with (write_model(tmp_path) / "model.safetensors").open("rb+") as file:
        file.truncate(100_000)

    assert "model.safetensors is damaged: it has 100000 bytes of" in reasons(tmp_path)


def test_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    assert reasons(tmp_path) == "there is no config.json"


@pytest.mark.parametrize(
    ("changes", "positions"),
    [
        pytest.param({}, 2048, id="plain"),
        pytest.param(
            {"rope_scaling": {"type": "yarn", "factor": 4.0, ORIGINAL: 2048}},
            8192,
            id="positions before scaling",
        ),
        pytest.param(
            {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, ORIGINAL: 512}},
            2048,
            id="positions after scaling",
        ),
        pytest.param({"rope_scaling": {"type": "linear", "factor": 2}}, 4096, id="linear"),
        pytest.param(
            {"rope_parameters": {"rope_type": "llama3", "factor": 8.0, ORIGINAL: 256}},
            2048,
            id="Llama 3.1's",
        ),
        pytest.param(
            {"rope_scaling": {"type": "longrope"}, ORIGINAL: 512},
            512,
            id="scaled by a sequence's length",
        ),
        pytest.param(
            {"rope_scaling": {"type": "yarn", "factor": float("inf")}}, 2048, id="endless"
        ),
        pytest.param({"rope_scaling": {"type": "yarn", ORIGINAL: "512"}}, 2048, id="no numbers"),
        pytest.param({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, 2048, id="dynamic"),
        pytest.param(
            {"rope_parameters": {"full_attention": {"type": "linear", "factor": 8.0}, "other": {}}},
            16_384,
            id="by kind of layer",
        ),
    ],
)
def test_sequences_longer_than_the_models_positions_are_refused(
    tmp_path: Path, changes: dict[str, Any], positions: int
) -> None:
    folder = write_model(tmp_path, TINY_QWEN3 | changes)

    assert isinstance(found(folder, lengths=Lengths(24, positions - 24)), ModelFacts)
    why = reasons(folder, lengths=Lengths(25, positions - 24))
    assert why.startswith(
        f"data.maxPromptTokens (25) and data.maxResponseTokens ({positions - 24}) are "
        f"{positions + 1} tokens together, and the model has {positions} positions ("
    )
    assert "max_position_embeddings" in why


def test_tokens_without_a_row_are_named_in_a_warning(tmp_path: Path) -> None:
    added = [{"id": 126 + number, "content": f"<x{number}>"} for number in range(9)]
    vocabulary = {"a": 0, "b": 1}
    (write_model(tmp_path) / "tokenizer.json").write_text(
        json.dumps({"model": {"vocab": vocabulary}, "added_tokens": added})
    )

    answer = found(tmp_path)

    assert isinstance(answer, ModelFacts)
    (warning,) = answer.warnings
    assert warning.startswith("7 of the tokenizer's tokens have no row among the embedding's 128")
    assert "'<x2>' (128), '<x3>' (129), '<x4>' (130), '<x5>' (131), '<x6>' (132) and 2 more" in (
        warning
    )


def test_reward_model_has_one_output(tmp_path: Path) -> None:
    assert isinstance(found(write_model(tmp_path, CLASSIFIER), Use.REWARD), ModelFacts)
    for changes, said in [
        ({"num_labels": 2}, "config.json has 2 labels: a reward model has one output"),
        ({"id2label": {"0": "bad", "1": "good"}}, "config.json has 2 labels"),
        ({"architectures": ["Qwen3ForCausalLM"]}, "ends with ForSequenceClassification"),
        ({"quantization_config": {"quant_method": "gptq"}}, "(gptq): a reward model must have"),
    ]:
        assert said in reasons(write_model(tmp_path, CLASSIFIER | changes), Use.REWARD)
