"""Well-known models of the Hugging Face Hub: what their ``config.json`` says, and at which commit.

With them a job that names such a model is planned where nothing can read the Hub. What a preflight
or a process reads takes precedence. A model is listed when two independent public projects name
the same commit of it; ``tests/core/test_hub_models.py`` compares the dimensions with the published
numbers of parameters.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class HubModel:
    """A model's dimensions at one commit of its repository."""

    id: str
    """``owner/name``."""

    commit: str
    """Full SHA-1, in hexadecimal digits."""

    config: Mapping[str, Any]
    """The fields of ``config.json`` that dimensions are read from."""


def similar_ids(name: str) -> tuple[str, ...]:
    """Return ids of the table that resemble an unknown one, most similar first."""
    by_lower_case = {each.lower(): each for each in HUB_MODELS}
    return tuple(
        by_lower_case[each] for each in get_close_matches(name.lower(), by_lower_case, cutoff=0.7)
    )


class _Config(NamedTuple):
    """Fields of ``config.json``, by their names there."""

    model_type: str
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    tie_word_embeddings: bool = False


_TIED = True

_COMMITS: tuple[tuple[_Config, Mapping[str, str]], ...] = (
    (
        _Config("qwen2", 896, 24, 14, 2, 64, 4864, 151936, _TIED),
        {
            "Qwen/Qwen2.5-0.5B": "060db6499f32faf8b98477b0a26969ef7d8b9987",
            "Qwen/Qwen2.5-0.5B-Instruct": "7ae557604adf67be50417f59c2c2f167def9a775",
        },
    ),
    (
        _Config("qwen2", 1536, 28, 12, 2, 128, 8960, 151936, _TIED),
        {
            "Qwen/Qwen2.5-1.5B": "8faed761d45a263340a0528343f099c05c9a4323",
            "Qwen/Qwen2.5-1.5B-Instruct": "989aa7980e4cf806f80c7fef2b1adb7bc71aa306",
            "Qwen/Qwen2.5-Math-1.5B": "4a83ca6e4526a4f2da3aa259ec36c259f66b2ab2",
        },
    ),
    (
        _Config("qwen2", 2048, 36, 16, 2, 128, 11008, 151936, _TIED),
        {
            "Qwen/Qwen2.5-3B": "3aab1f1954e9cc14eb9509a215f9e5ca08227a9b",
            "Qwen/Qwen2.5-3B-Instruct": "aa8e72537993ba99e69dfaafa59ed015b17504d1",
        },
    ),
    (
        _Config("qwen2", 3584, 28, 28, 4, 128, 18944, 152064),
        {
            "Qwen/Qwen2.5-7B": "d149729398750b98c0af14eb82c78cfe92750796",
            "Qwen/Qwen2.5-7B-Instruct": "a09a35458c702b33eeacc393d103063234e8bc28",
            "Qwen/Qwen2.5-Math-7B": "b101308fe89651ea5ce025f25317fea6fc07e96e",
            "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": "916b56a44061fd5cd7d6a8fb632557ed4f724f60",
        },
    ),
    (
        _Config("qwen2", 5120, 48, 40, 8, 128, 13824, 152064),
        {
            "Qwen/Qwen2.5-14B": "97e1e76335b7017d8f67c08a19d103c0504298c9",
            "Qwen/Qwen2.5-14B-Instruct": "cf98f3b3bbb457ad9e2bb7baf9a0125b6b88caa8",
        },
    ),
    (
        _Config("qwen2", 5120, 64, 40, 8, 128, 27648, 152064),
        {
            "Qwen/Qwen2.5-32B": "1818d35814b8319459f4bd55ed1ac8709630f003",
            "Qwen/Qwen2.5-32B-Instruct": "5ede1c97bbab6ce5cda5812749b4c0bdf79b18dd",
        },
    ),
    (
        _Config("qwen2", 1536, 28, 12, 2, 128, 8960, 151936),
        {
            "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": "ad9f0ae0864d7fbcd1cd905e3c6c5b069cc8b562",
        },
    ),
    (
        _Config("qwen3", 1024, 28, 16, 8, 128, 3072, 151936, _TIED),
        {"Qwen/Qwen3-0.6B": "c1899de289a04d12100db370d81485cdf75e47ca"},
    ),
    (
        _Config("qwen3", 2048, 28, 16, 8, 128, 6144, 151936, _TIED),
        {
            "Qwen/Qwen3-1.7B": "70d244cc86ccca08cf5af4e1e306ecf908b1ad5e",
            "Qwen/Qwen3-1.7B-Base": "ea980cb0a6c2ae4b936e82123acc929f1cec04c1",
        },
    ),
    (
        _Config("qwen3", 2560, 36, 32, 8, 128, 9728, 151936, _TIED),
        {
            "Qwen/Qwen3-4B": "1cfa9a7208912126459214e8b04321603b3df60c",
            "Qwen/Qwen3-4B-Base": "906bfd4b4dc7f14ee4320094d8b41684abff8539",
            "Qwen/Qwen3-4B-Instruct-2507": "cdbee75f17c01a7cc42f958dc650907174af0554",
        },
    ),
    (
        _Config("qwen3", 4096, 36, 32, 8, 128, 12288, 151936),
        {
            "Qwen/Qwen3-8B": "b968826d9c46dd6066d109eabc6255188de91218",
            "Qwen/Qwen3-8B-Base": "49e3418fbbbca6ecbdf9608b4d22e5a407081db4",
        },
    ),
    (
        _Config("qwen3", 5120, 40, 40, 8, 128, 17408, 151936),
        {"Qwen/Qwen3-14B": "40c069824f4251a91eefaf281ebe4c544efd3e18"},
    ),
    (
        _Config("qwen3", 5120, 64, 64, 8, 128, 25600, 151936),
        {"Qwen/Qwen3-32B": "9216db5781bf21249d130ec9da846c4624c16137"},
    ),
    (
        _Config("llama", 2048, 16, 32, 8, 64, 8192, 128256, _TIED),
        {
            "meta-llama/Llama-3.2-1B": "4e20de362430cd3b72f300e6b0f18e50e7166e08",
            "meta-llama/Llama-3.2-1B-Instruct": "9213176726f574b556790deb65791e0c5aa438b6",
        },
    ),
    (
        _Config("llama", 3072, 28, 24, 8, 128, 8192, 128256, _TIED),
        {
            "meta-llama/Llama-3.2-3B": "13afe5124825b4f3751f836b40dafda64c1ed062",
            "meta-llama/Llama-3.2-3B-Instruct": "0cb88a4f764b7a12671c53f0838cd831a0843b95",
        },
    ),
    (
        _Config("llama", 4096, 32, 32, 8, 128, 14336, 128256),
        {
            "meta-llama/Llama-3.1-8B": "d04e592bb4f6aa9cfee91e2e20afa771667e1d4b",
            "meta-llama/Llama-3.1-8B-Instruct": "0e9e39f249a16976918f6564b8830bc894c89659",
        },
    ),
    (
        _Config("llama", 8192, 80, 64, 8, 128, 28672, 128256),
        {
            "meta-llama/Llama-3.1-70B": "349b2ddb53ce8f2849a6c168a81980ab25258dac",
            "meta-llama/Llama-3.1-70B-Instruct": "1605565b47bb9346c5515c34102e054115b4f98b",
            "meta-llama/Llama-3.3-70B-Instruct": "6f6073b423013f6a7d4d9f39144961bfbfbc386b",
        },
    ),
    (
        _Config("mistral", 4096, 32, 32, 8, 128, 14336, 32768),
        {
            "mistralai/Mistral-7B-v0.3": "caa1feb0e54d415e2df31207e5f4e273e33509b1",
            "mistralai/Mistral-7B-Instruct-v0.3": "c170c708c41dac9275d15a8fff4eca08d52bab71",
        },
    ),
    (
        _Config("phi3", 3072, 32, 24, 8, 128, 8192, 200064, _TIED),
        {"microsoft/Phi-4-mini-instruct": "cfbefacb99257ffa30c83adab238a50856ac3083"},
    ),
    (
        _Config("phi3", 5120, 40, 40, 10, 128, 17920, 100352),
        {"microsoft/phi-4": "187ef0342fff0eb3333be9f00389385e95ef0b61"},
    ),
    (
        _Config("gemma2", 2304, 26, 8, 4, 256, 9216, 256000, _TIED),
        {
            "google/gemma-2-2b": "c5ebcd40d208330abc697524c919956e692655cf",
            "google/gemma-2-2b-it": "299a8560bedf22ed1c72a8a11e7dce4a7f9f51f8",
        },
    ),
    (
        _Config("gemma2", 3584, 42, 16, 8, 256, 14336, 256000, _TIED),
        {
            "google/gemma-2-9b": "33c193028431c2fde6c6e51f29e6f17b60cbfac6",
            "google/gemma-2-9b-it": "11c9b309abf73637e4b6f9a3fa1e92e615547819",
        },
    ),
    (
        _Config("gemma3_text", 640, 18, 4, 1, 256, 2048, 262144, _TIED),
        {"google/gemma-3-270m-it": "ac82b4e820549b854eebf28ce6dedaf9fdfa17b3"},
    ),
    (
        _Config("gemma3_text", 1152, 26, 4, 1, 256, 6912, 262144, _TIED),
        {"google/gemma-3-1b-it": "dcc83ea841ab6100d6b47a070329e1ba4cf78752"},
    ),
    (
        _Config("olmo2", 2048, 16, 16, 16, 128, 8192, 100352),
        {
            "allenai/OLMo-2-0425-1B": "a1847dff35000b4271fa70afc5db10fd29fedbdf",
            "allenai/OLMo-2-0425-1B-Instruct": "48d788eca847d4d7548f375ad03d3c9312f6139e",
        },
    ),
    (
        _Config("olmo2", 4096, 32, 32, 32, 128, 11008, 100352),
        {
            "allenai/OLMo-2-1124-7B": "7df9a82518afdecae4e8c026b27adccc8c1f0032",
            "allenai/OLMo-2-1124-7B-Instruct": "470b1fba1ae01581f270116362ee4aa1b97f4c84",
        },
    ),
    (
        _Config("glm4", 4096, 40, 32, 2, 128, 13696, 151552),
        {"zai-org/GLM-4-9B-0414": "645b8482494e31b6b752272bf7f7f273ef0f3caf"},
    ),
    (
        _Config("granite", 2048, 40, 32, 8, 64, 8192, 49159, _TIED),
        {"ibm-granite/granite-3.3-2b-instruct": "707f574c62054322f6b5b04b6d075f0a8f05e0f0"},
    ),
    (
        _Config("granite", 4096, 40, 32, 8, 128, 12800, 49159, _TIED),
        {"ibm-granite/granite-3.3-8b-instruct": "51dd4bc2ade4059a6bd87649d68aa11e4fb2529b"},
    ),
    (
        _Config("smollm3", 2048, 36, 16, 4, 128, 11008, 128256, _TIED),
        {"HuggingFaceTB/SmolLM3-3B": "a07cc9a04f16550a088caea529712d1d335b0ac1"},
    ),
)


def _models() -> Iterator[HubModel]:
    for config, commits in _COMMITS:
        for name, commit in commits.items():
            yield HubModel(id=name, commit=commit, config=config._asdict())


HUB_MODELS: Mapping[str, HubModel] = {each.id: each for each in _models()}
"""By id."""
