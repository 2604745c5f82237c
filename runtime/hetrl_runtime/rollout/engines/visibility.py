"""The tokens that each layer of a model sees, as masks for the library's attention.

Shapes: N rows, Q queries, T positions.
"""

# ruff: noqa: N803, N806  # shape suffixes

from typing import Any

import torch
from torch import Tensor

_FULL, _SLIDING = "full_attention", "sliding_attention"


class Visibility:
    """Masks for a model: all that is before a token, or a window of it."""

    def __init__(self, model: Any) -> None:
        """Read what kinds of layers there are.

        Raises:
            ValueError: of a kind that is not known.
        """
        config = model.config
        self._kinds = frozenset(getattr(config, "layer_types", None) or ())
        if odd := sorted(self._kinds - {_FULL, _SLIDING}):
            raise ValueError(f"this engine knows no layers of {', '.join(odd)}")
        self._window: int | None = getattr(config, "sliding_window", None)
        # That adds masks to products, where the other takes truths.
        self._is_added = config._attn_implementation == "eager"  # noqa: SLF001
        self._dtype: torch.dtype = model.dtype

    def masks(self, queries_NQ: Tensor, places_T: Tensor) -> Tensor | dict[str, Tensor]:
        """Return the mask ``(N, 1, Q, T)`` for queries at some positions, or one a kind of layer.

        Models that have kinds take a mapping by them. Others take one mask, and attend within a
        window in all layers if their configuration has one.
        """
        if not self._kinds:
            return self._mask(queries_NQ, places_T, self._window)
        windows = {_FULL: None, _SLIDING: self._window}
        return {kind: self._mask(queries_NQ, places_T, windows[kind]) for kind in self._kinds}

    def _mask(self, queries_NQ: Tensor, places_T: Tensor, window: int | None) -> Tensor:
        sees_NQT = places_T <= queries_NQ[..., None]
        if window:
            sees_NQT &= places_T > queries_NQ[..., None] - window
        if not self._is_added:
            return sees_NQT[:, None]
        blank = torch.zeros(sees_NQT.shape, dtype=self._dtype, device=sees_NQT.device)
        return blank.masked_fill(~sees_NQT, torch.finfo(self._dtype).min)[:, None]
