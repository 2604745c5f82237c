"""The architectures that are known from inside: what is cut into parts, and what is packed.

They are an embedding, alike layers, a norm and a head; layers attend by way of transformers'
interface for that, and compute everything else position by position.
"""

FAMILIES = frozenset({"llama", "qwen2", "qwen3"})
"""As ``model_type`` in a model's ``config.json``."""
