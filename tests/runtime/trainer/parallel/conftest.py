from collections.abc import Iterator

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    PretrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

from hetrl_core.job.spec import ModelFiles
from hetrl_runtime.tiny.tokenizer import make_tokenizer
from tests.runtime.trainer.parallel.crew import Crew

_SIZES = {
    # No size is a multiple of another by accident, and the vocabulary has no even half.
    "vocab_size": 151,
    "hidden_size": 32,
    "intermediate_size": 44,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
_CONFIGS: dict[str, PretrainedConfig] = {
    "llama": LlamaConfig(tie_word_embeddings=False, **_SIZES),
    "qwen2": Qwen2Config(tie_word_embeddings=True, **_SIZES),
    "qwen3": Qwen3Config(tie_word_embeddings=True, head_dim=16, **_SIZES),
}


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelFiles]:
    """Random models of every family that can be split, biases and norms random as well."""
    folder = tmp_path_factory.mktemp("families")
    torch.manual_seed(1)
    for name, config in _CONFIGS.items():
        model = AutoModelForCausalLM.from_config(config)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
        model.save_pretrained(folder / name)
        make_tokenizer(max_tokens=64).save_pretrained(folder / name)
    return {name: ModelFiles(source=str(folder / name)) for name in _CONFIGS}


@pytest.fixture(scope="session")
def crew() -> Iterator[Crew]:
    with Crew() as crew:
        yield crew
