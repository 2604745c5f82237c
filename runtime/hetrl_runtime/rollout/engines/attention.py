"""Attention of one new token a row, for models whose query heads share keys and values.

Heads that share attend side by side, as tokens of one head would: nothing is copied for them,
where the library repeats all keys and values at every step. Longer queries are left to it.
"""

from typing import Any

import torch.nn.functional as F  # noqa: N812  # torch's own custom
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ATTENTION = "hetrl_decode"
"""What models that decode know this attention by."""


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Return what each query attends to; for transformers to call.

    ``query`` is ``(rows, heads, tokens, size)``, what is returned ``(rows, tokens, heads, size)``.
    """
    rows, heads, tokens, size = query.shape
    if tokens > 1:
        found, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **others
        )
        return found, None
    shared = key.shape[1]
    attended = F.scaled_dot_product_attention(
        query.reshape(rows, shared, heads // shared, size), key, value,
        attn_mask=attention_mask, scale=scaling,
    )  # fmt: skip
    return attended.reshape(rows, 1, heads, size), None


AttentionInterface.register(ATTENTION, attend)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
