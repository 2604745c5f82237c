"""Rows of a pass as one sequence: no padding, and a prompt that rows share only once.

Layers that compute one position at a time, nearly all of the work, then compute each token once,
and a response's last token, after which nothing is scored, not at all.
Attention is the exception: it is registered with transformers under a name of its own, and a
``Pack`` says what each row may attend to. Alternatives and their speed: docs/decisions/0059.
A group's prompt computed once is Prefix Grouper's (arXiv:2506.05433).

Shapes: B trajectories, T positions, R response positions, N places of the packed sequence, M keys
of all rows, S places that are scored, H heads, D head size.
"""

# ruff: noqa: N803, N815  # shape suffixes

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # torch's own custom
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ATTENTION = "hetrl_packed"
"""What models that are packed know this attention by."""

KERNEL_DTYPE = torch.bfloat16


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Prompts of one length, or responses of one length after prompts of one length.

    They stand side by side: a tensor of rows without copying anything.
    """

    num_rows: int
    length: int
    """Of a response, without its last token."""

    num_keys: int
    """Of one row: its own tokens, and a response's prompt before them."""

    sees: Tensor | None
    """``(length, num_keys)``: the prompt, and itself up to each token. None: itself alone, or
    a kernel that knows.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """Arguments of kernels for variable lengths: the ends of rows."""

    query_ends: Tensor
    key_ends: Tensor
    longest_query: int
    longest_key: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """What stands where: prompts, shortest first; responses; and then, it may be, nothing."""

    runs: tuple[Run, ...]
    keys_M: Tensor
    """Of each row's keys, run by run, their places."""

    kernel: Kernel | None
    """On a GPU."""

    num_blank: int
    """Places at the end that hold nothing: stages of a pipeline agree on one length."""

    tokens_N: Tensor
    """Of each place, its number among all ``B·T``; blank places repeat the first."""

    positions_N: Tensor
    scored_S: Tensor
    """Of each token of a response, the place before it."""

    responses_S: Tensor
    """And its own number among all ``B·R``."""


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """A prompt, or a response but for its last token: what stands together, here and in its row."""

    row: int
    prompt: int
    """The first row with the same prompt."""

    column: int
    position: int
    """Of the first token in its trajectory, which for a response is its prompt's length."""

    length: int

    @property
    def positions(self) -> range:
        return range(self.position, self.position + self.length)

    def numbers(self, size: int, *, column: int = 0, num_after: int = 0) -> range:
        """Return its tokens' numbers among all of rows with ``size`` columns from ``column`` on.

        ``num_after`` tokens after them are among what is asked for.
        """
        first = self.row * size + self.column - column
        return range(first, first + self.length + num_after)


def pack(is_token_BT: Tensor, prompts_B: Tensor, *, num_response: int, num_places: int = 0) -> Pack:
    """Return what stands where; at least ``num_places`` places.

    Args:
        is_token_BT: prompts end where responses may begin, so that neither has holes.
        prompts_B: for each row the first row that has the same prompt.
        num_response: R.
        num_places: N, where others need more than these rows.
    """
    device, size = is_token_BT.device, is_token_BT.shape[1]
    prompts, responses = _pieces(is_token_BT, prompts_B, size - num_response)
    pieces = [*prompts, *responses]
    begins = list(accumulate((each.length for each in pieces), initial=0))
    num_blank = max(0, num_places - begins[-1])
    places = {
        each: range(begin, begin + each.length) for each, begin in zip(pieces, begins, strict=False)
    }
    prompt_places = {each.row: places[each] for each in prompts}

    def all_of(ranges: Iterable[range], num_blank: int = 0) -> Tensor:
        flat = [np.arange(each.start, each.stop) for each in ranges]
        return torch.from_numpy(np.concatenate([*flat, np.zeros(num_blank, np.int64)])).to(device)

    def seen_by(piece: _Piece) -> tuple[range, ...]:
        own = places[piece]
        return (prompt_places[piece.prompt], own) if piece.position else (own,)

    runs = (*_runs_of(prompts, device), *_runs_of(filter(_has_places, responses), device))
    return Pack(
        runs=runs,
        keys_M=all_of(part for each in filter(_has_places, pieces) for part in seen_by(each)),
        kernel=kernel_of(runs, device) if is_token_BT.is_cuda else None,
        num_blank=num_blank,
        tokens_N=all_of((each.numbers(size) for each in pieces), num_blank),
        positions_N=all_of((each.positions for each in pieces), num_blank),
        scored_S=all_of(
            part for each in responses for part in (prompt_places[each.prompt][-1:], places[each])
        ),
        responses_S=all_of(
            each.numbers(num_response, column=size - num_response, num_after=1)
            for each in responses
        ),
    )


def _pieces(
    is_token_BT: Tensor, prompts_B: Tensor, first_response: int
) -> tuple[list[_Piece], list[_Piece]]:
    """Return prompts by length, and responses by their prompts' and their own."""
    lengths = (each.sum(dim=1).tolist() for each in is_token_BT.tensor_split([first_response], 1))
    prompts, responses = [], []
    for row, (first, prompt, response) in enumerate(zip(prompts_B.tolist(), *lengths, strict=True)):
        if first == row:
            prompts.append(_Piece(row, row, first_response - prompt, 0, prompt))
        if response:
            responses.append(_Piece(row, first, first_response, prompt, response - 1))
    prompts.sort(key=lambda each: each.length)
    responses.sort(key=lambda each: (each.position, each.length))
    return prompts, responses


def _has_places(piece: _Piece) -> bool:
    return piece.length > 0


def _runs_of(pieces: Iterable[_Piece], device: torch.device) -> Iterator[Run]:
    """Return the runs of pieces that stand in order; a prompt's position is zero."""
    for (num_before, length), alike in groupby(
        pieces, key=lambda each: (each.position, each.length)
    ):
        num_keys = num_before + length
        # A kernel needs none, and of long prompts and responses it is large.
        is_masked = num_before > 0 and device.type != "cuda"
        yield Run(
            num_rows=len(list(alike)),
            length=length,
            num_keys=num_keys,
            sees=_mask_of(length, num_keys, device) if is_masked else None,
        )


def _mask_of(length: int, num_keys: int, device: torch.device) -> Tensor:
    everything = torch.ones(length, num_keys, dtype=torch.bool, device=device)
    return everything.tril(num_keys - length)


def kernel_of(runs: Sequence[Run], device: torch.device) -> Kernel:
    """Return a kernel's arguments for the same places."""

    def ends(lengths: Iterable[int]) -> Tensor:
        return torch.tensor([*accumulate(lengths, initial=0)], dtype=torch.int32, device=device)

    return Kernel(
        query_ends=ends(run.length for run in runs for _ in range(run.num_rows)),
        key_ends=ends(run.num_keys for run in runs for _ in range(run.num_rows)),
        longest_query=max(run.length for run in runs),
        longest_key=max(run.num_keys for run in runs),
    )


def reason_against(config: Any) -> str:
    """Return why a model's passes must be padded, or nothing where they need not be."""
    if getattr(config, "attn_logit_softcapping", None):
        return "it caps the products of queries and keys"
    if kinds := set(getattr(config, "layer_types", None) or ()):
        kinds -= {"full_attention"}
        return f"it has layers of {', '.join(sorted(kinds))}" if kinds else ""
    # Where layers are alike, none of them is without the window that there is.
    window = getattr(config, "sliding_window", None)
    return f"its layers see {window} tokens" if window else ""


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    pack: Pack | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attend as ``pack`` says; without one, as transformers itself does.

    ``query`` is ``(1, H, N, D)``, what is returned ``(1, N, H, D)``. For transformers to call.
    """
    if pack is None:
        found, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **others
        )
        return found, None
    queries, keys, values = (each[0].transpose(0, 1) for each in (query, key, value))
    if pack.kernel:
        # Norms of queries and keys leave autocast's precision, and the kernel knows no other.
        queries, keys, values = (each.to(KERNEL_DTYPE) for each in (queries, keys, values))
    # One gather: a copy a run, and its gradient, took 4 % more of a small model's training.
    keys, values = (each.index_select(0, pack.keys_M) for each in (keys, values))
    by = _by_kernel if pack.kernel else _by_runs
    return by(queries, keys, values, pack, scaling)[None], None


def _by_kernel(
    queries: Tensor, keys: Tensor, values: Tensor, pack: Pack, scaling: float | None
) -> Tensor:
    kernel = pack.kernel
    assert kernel
    found = varlen_attn(
        queries[: len(queries) - pack.num_blank],
        keys,
        values,
        kernel.query_ends,
        kernel.key_ends,
        kernel.longest_query,
        kernel.longest_key,
        # Aligned at the ends: a row's last token sees all of its keys.
        window_size=(-1, 0),
        scale=scaling,
        enable_gqa=queries.shape[1] != keys.shape[1],
    )
    assert isinstance(found, Tensor)
    return F.pad(found, (0, 0, 0, 0, 0, pack.num_blank))


def _by_runs(
    queries: Tensor, keys: Tensor, values: Tensor, pack: Pack, scaling: float | None
) -> Tensor:
    """Attend in each run at once, whose rows are as long."""
    rows = (
        _rows_of(queries, [(run.num_rows, run.length) for run in pack.runs]),
        *(
            _rows_of(each, [(run.num_rows, run.num_keys) for run in pack.runs])
            for each in (keys, values)
        ),
    )
    found = [
        F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=run.sees,
            is_causal=run.sees is None,
            scale=scaling,
            enable_gqa=queries.shape[1] != keys.shape[1],
        )
        for run, query, key, value in zip(pack.runs, *rows, strict=True)
    ]
    blank = queries.new_zeros(pack.num_blank, *queries.shape[1:])
    return torch.cat([*(each.transpose(1, 2).flatten(0, 1) for each in found), blank])


def _rows_of(tensor_NHD: Tensor, shapes: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Return a view ``(rows, H, length, D)`` of each shape's rows, one behind the other."""
    sizes = [rows * length for rows, length in shapes]
    # One split: the gradients of as many slices would each be as long as the whole.
    parts = torch.split(tensor_NHD, [*sizes, len(tensor_NHD) - sum(sizes)])
    return [
        part.view(*shape, *tensor_NHD.shape[1:]).transpose(1, 2)
        for part, shape in zip(parts, shapes, strict=False)
    ]


def _mask(*arguments: Any, attention_mask: Tensor | None = None, **others: Any) -> Tensor | None:
    if attention_mask is None:
        return None
    found: Tensor | None = sdpa_mask(*arguments, attention_mask=attention_mask, **others)
    return found


AttentionInterface.register(ATTENTION, attend)
AttentionMaskInterface.register(ATTENTION, _mask)
