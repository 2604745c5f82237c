"""The way from a head's products to logits: what a causal LM does after its last matrix.

Element by element, so that it is the same for a part of the vocabulary.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor


def after_head(config: Any) -> Callable[[Tensor], Tensor]:
    """Return what makes a family's logits of its head's products."""
    if scaling := getattr(config, "logits_scaling", None):
        # Granite.
        return lambda products: products / scaling
    if cap := getattr(config, "final_logit_softcapping", None):
        # Gemma 2.
        return lambda products: (products / cap).tanh() * cap
    return lambda products: products
