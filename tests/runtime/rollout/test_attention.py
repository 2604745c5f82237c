"""The engine's attention beside the library's, which repeats what heads share."""

from types import SimpleNamespace

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from hetrl_runtime.rollout.engines.attention import attend


@pytest.mark.parametrize("tokens", [1, 5])
@pytest.mark.parametrize(("heads", "shared"), [(4, 4), (6, 2), (5, 1)])
def test_heads_that_share_keys_attend_as_if_they_had_their_own(
    heads: int, shared: int, tokens: int
) -> None:
    generator = torch.Generator().manual_seed(1)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    query, (key, value) = random(3, heads, tokens, 8), random(2, 3, shared, 9, 8)
    mask = torch.rand(3, 1, tokens, 9, generator=generator) < 0.7
    mask[..., 0] = True
    module = SimpleNamespace(num_key_value_groups=heads // shared, is_causal=True)

    found, _ = attend(module, query, key, value, mask, scaling=0.3)

    expected, _ = sdpa_attention_forward(module, query, key, value, mask, scaling=0.3)
    torch.testing.assert_close(found, expected)
