"""The parts that no step can do without, each timed by itself: products, AdamW, and new weights.

A step's products are counted as ours computes them, which is less than TRL does: a group's prompt
once, nothing for padding, nothing for a response's last token. The longest response has as many
tokens as it may, as it does in nearly all steps; a decoding step has as many rows as on average.
Whose steps they are held against is ``floor``'s.

Shapes: N tokens, I inputs, O outputs.
"""

# ruff: noqa: N806  # shape suffixes

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  # torch's own custom
from torch import Tensor, nn

from bench.runtime import steps, task


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Seconds of processor time that a step's parts take by themselves."""

    training: float
    prefill: float
    decoding: float
    adamw: float
    weights: float

    @property
    def products(self) -> float:
        """What is multiplied."""
        return self.training + self.prefill + self.decoding

    @property
    def whole(self) -> float:
        """All parts."""
        return self.products + self.adamw + self.weights


class Parts:
    """The parts of a case's step, on parameters of its model's shapes."""

    def __init__(self, case: steps.Case) -> None:
        self._case = case
        self._parameters = [nn.Parameter(torch.randn(each) * 0.02) for each in shapes(case.size)]
        self._matrices = [each.detach() for each in self._parameters]
        self._gradients = [torch.zeros_like(each) for each in self._matrices]
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient
        self._adamw = torch.optim.AdamW(self._parameters, lr=0.0, weight_decay=0.0, fused=True)

    @torch.no_grad()
    def floor(self, num_tokens: int) -> Floor:
        """Return what a step takes in which ``num_tokens`` are sampled and trained on."""
        case = self._case
        num_prompts = case.batch_size // case.group_size
        num_prompt_tokens = num_prompts * task.PROMPT_TOKENS
        num_places = num_prompt_tokens + num_tokens - case.batch_size
        return Floor(
            training=_seconds(lambda: self._train(num_places)),
            prefill=_seconds(lambda: self._prefill(num_prompt_tokens - num_prompts)),
            decoding=self._decode(num_tokens),
            adamw=_seconds(self._adamw.step),
            weights=_seconds(self._hand_over),
        )

    def _inputs(self, num_tokens: int) -> list[Tensor]:
        by_size = {each.shape[1]: torch.randn(num_tokens, each.shape[1]) for each in self._matrices}
        return [by_size[each.shape[1]] for each in self._matrices]

    def _train(self, num_tokens: int) -> None:
        """Multiply forward, and twice for each matrix on the way back."""
        for inputs_NI, matrix_OI, gradient_OI in zip(
            self._inputs(num_tokens), self._matrices, self._gradients, strict=True
        ):
            outputs_NO = F.linear(inputs_NI, matrix_OI)
            torch.mm(outputs_NO, matrix_OI)
            torch.mm(outputs_NO.t(), inputs_NI, out=gradient_OI)

    def _prefill(self, num_tokens: int) -> None:
        for inputs_NI, matrix_OI in zip(self._inputs(num_tokens), self._matrices, strict=True):
            F.linear(inputs_NI, matrix_OI)

    def _decode(self, num_tokens: int) -> float:
        """Return what all decoding steps take with the kernel that is fastest now."""
        num_steps = self._case.lengths.most
        rows = -(-num_tokens // num_steps)
        inputs = self._inputs(rows)
        return num_steps * min(
            statistics.median(_seconds(lambda way=way: way(inputs)) for _ in range(3))  # type: ignore[misc]
            for way in decoders(self._matrices, rows)
        )

    def _hand_over(self) -> None:
        files = [each.to(self._case.size.files) for each in self._matrices]
        _laid_out([each.float() for each in files], self._case.batch_size)


def shapes(size: task.Size) -> Iterator[tuple[int, int]]:
    """Yield the shapes ``(O, I)`` of a model's matrices, the vocabulary's last."""
    hidden, wide = size.hidden_size, size.feed_forward_size
    heads, shared = size.num_heads * size.head_size, size.num_kv_heads * size.head_size
    for _ in range(size.num_layers):
        yield from [(heads, hidden), (shared, hidden), (shared, hidden), (hidden, heads)]
        yield from [(wide, hidden), (wide, hidden), (hidden, wide)]
    yield task.VOCABULARY_SIZE, hidden


def decoders(
    matrices: Sequence[Tensor], rows: int
) -> Iterator[Callable[[Sequence[Tensor]], list[Tensor]]]:
    """Yield torch's ways to multiply a few rows with each matrix, which may be laid out before."""
    by_dnn = _laid_out(matrices, rows)
    by_mkl = [torch.ops.mkl._mkl_reorder_linear_weight(each, rows) for each in matrices]
    yield lambda inputs: [F.linear(*each) for each in zip(inputs, matrices, strict=True)]
    yield lambda inputs: [
        torch.ops.mkldnn._linear_pointwise(*each, None, "none", [], "")
        for each in zip(inputs, by_dnn, strict=True)
    ]
    yield lambda inputs: [
        torch.ops.mkl._mkl_linear(*each, None, rows)
        for each in zip(inputs, by_mkl, matrices, strict=True)
    ]


def _laid_out(matrices: Sequence[Tensor], rows: int) -> list[Tensor]:
    return [torch.ops.mkldnn._reorder_linear_weight(each, rows) for each in matrices]


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started
