from types import SimpleNamespace

import pytest

from hetrl_runtime.trainer.parallel import tensor


@pytest.mark.parametrize(
    ("heads", "kv_heads", "said"),
    [
        (8, 2, r"tensor parallelism 4 does not divide num_key_value_heads \(2\)"),
        (6, 6, r"tensor parallelism 4 does not divide num_attention_heads \(6\)"),
    ],
)
def test_heads_that_cannot_be_shared_out_are_named(heads: int, kv_heads: int, said: str) -> None:
    config = SimpleNamespace(num_attention_heads=heads, num_key_value_heads=kv_heads)
    with pytest.raises(tensor.UnsplittableError, match=said):
        tensor.check(config, 4)
