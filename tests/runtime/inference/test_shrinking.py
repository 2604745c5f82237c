"""On GPUs a frozen model keeps linear layers in the bits that they multiply in."""

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from hetrl_runtime.inference.reference import _shrink


def a_model(*, ties: bool) -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=16,
            tie_word_embeddings=ties,
        )
    ).eval()


def test_autocast_says_the_same_of_half_the_bytes() -> None:
    for ties in (False, True):
        model, tokens = a_model(ties=ties), torch.arange(1, 20)[None]
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            before = model(tokens).logits
            num_bytes = sum(each.nbytes for each in model.parameters())
            _shrink(model)
            after = model(tokens).logits

        assert torch.equal(before, after)
        assert sum(each.nbytes for each in model.parameters()) < 0.7 * num_bytes
        norms = [each for name, each in model.named_parameters() if "norm" in name]
        assert {each.dtype for each in norms} == {torch.float32}
