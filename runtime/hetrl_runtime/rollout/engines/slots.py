"""Sequences that generate together on one Hugging Face model, each at its own position.

The tensor half of continuous batching: rows ``0..n-1`` of every tensor are the running
sequences; a finished row is filled from the end, so one decode step never computes for an
empty place. ``transformers.py`` has threads, futures and weight files.

A prompt is prefilled up to its last token but one; the last token is then decoded like any
other. So sampling happens in one place, and going on after a weight change is a prefill too.

Shapes: N rows, S slots, T tokens of a sequence, H key-value heads, D head size, V vocabulary.
"""

# ruff: noqa: N803, N806  # shape suffixes

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hetrl_runtime.rollout.engine import (
    EngineSettings,
    FinishReason,
    Generation,
    GenerationRequest,
)
from hetrl_runtime.rollout.engines.visibility import Visibility

PREFILL_TOKENS = 16_384
"""Tokens of one prefill pass: bounds the memory of its activations."""

FIRST_CAPACITY = 64
"""Positions that the first key-value buffers hold; doubled when a sequence outgrows them."""


class KeyValueBuffers:
    """Keys and values of all slots, one pair of ``(S, H, T, D)`` tensors a layer.

    Masked positions must still be finite, since a weight of zero times NaN is NaN: buffers
    are born as zeros and only ever hold what some sequence had.
    """

    def __init__(self, num_slots: int) -> None:
        self._num_slots = num_slots
        self._capacity = FIRST_CAPACITY
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    def reserve(self, num_tokens: int) -> None:
        """Make room for sequences of this many tokens."""
        if num_tokens <= self._capacity:
            return
        while self._capacity < num_tokens:
            self._capacity *= 2
        self._layers = {
            index: (self._grown(keys), self._grown(values))
            for index, (keys, values) in self._layers.items()
        }

    def layer(self, index: int, *, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return a layer's buffers, made to fit the first keys and values ``(N, H, T, D)``."""
        if index not in self._layers:
            self._layers[index] = (self._like(keys), self._like(values))
        return self._layers[index]

    def move(self, sources: Tensor, targets: Tensor, *, width: int) -> None:
        """Copy the first ``width`` positions of some rows over others."""
        for keys, values in self._layers.values():
            keys[targets, :, :width] = keys[sources, :, :width]
            values[targets, :, :width] = values[sources, :, :width]

    def _like(self, part: Tensor) -> Tensor:
        _, heads, _, size = part.shape
        return part.new_zeros(self._num_slots, heads, self._capacity, size)

    def _grown(self, buffer: Tensor) -> Tensor:
        grown = self._like(buffer)
        grown[:, :, : buffer.shape[2]] = buffer
        return grown


@dataclass(frozen=True, slots=True)
class DecodeCache:
    """The cache of attention layers while one token a row is decoded."""

    buffers: KeyValueBuffers
    rows: Tensor
    positions: Tensor
    width: int

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Store the new position of every row; return all positions up to ``width``."""
        all_keys, all_values = self.buffers.layer(layer, keys=keys, values=values)
        all_keys[self.rows, :, self.positions] = keys[:, :, 0]
        all_values[self.rows, :, self.positions] = values[:, :, 0]
        num_rows = len(self.rows)
        return all_keys[:num_rows, :, : self.width], all_values[:num_rows, :, : self.width]

    def get_seq_length(self, _: int = 0) -> int:
        """Positions are passed explicitly, so the library has none to infer."""
        return 0


@dataclass(frozen=True, slots=True)
class PrefillCache:
    """The cache of attention layers while whole prefixes are computed."""

    buffers: KeyValueBuffers
    first_row: int
    sources: Tensor
    """For every row from ``first_row`` on, which prefix of the pass is its own."""

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Store each prefix in its rows; attention needs no more than the pass itself."""
        all_keys, all_values = self.buffers.layer(layer, keys=keys, values=values)
        rows = slice(self.first_row, self.first_row + len(self.sources))
        all_keys[rows, :, : keys.shape[2]] = keys[self.sources]
        all_values[rows, :, : values.shape[2]] = values[self.sources]
        return keys, values

    def get_seq_length(self, _: int = 0) -> int:
        """A prefill starts at the first position."""
        return 0


def sample(
    logits_NV: Tensor,
    temperatures_N: Tensor,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Draw a token for each row; return the tokens and their log-probabilities, both ``(N,)``.

    Inverts the distribution function at one random number a row, in float64: summed in float32,
    a large vocabulary's rare tokens would come too often or never.
    """
    is_greedy_N = temperatures_N == 0
    scale_N = torch.where(is_greedy_N, 1.0, temperatures_N)
    log_probs_NV = torch.log_softmax(logits_NV.float() / scale_N[:, None], dim=-1)
    up_to_NV = log_probs_NV.exp().cumsum(dim=-1, dtype=torch.float64)
    heights_N1 = torch.rand(
        len(logits_NV), 1, dtype=torch.float64, device=logits_NV.device, generator=generator
    )
    # Right of equals: a token without probability ends where the one before it does.
    drawn_N1 = torch.searchsorted(up_to_NV, heights_N1 * up_to_NV[:, -1:], right=True)
    # A height within rounding of the whole sum would be behind all tokens.
    drawn_N = drawn_N1[:, 0].clamp(max=logits_NV.shape[1] - 1)
    tokens_N = torch.where(is_greedy_N, log_probs_NV.argmax(dim=-1), drawn_N)
    return tokens_N, log_probs_NV.gather(1, tokens_N[:, None])[:, 0]


class Slots:
    """The running sequences of one model."""

    def __init__(self, model: Any, settings: EngineSettings) -> None:
        device, num_slots = model.device, settings.concurrency
        num_tokens = settings.max_sequence_tokens
        self._model = model
        self._visibility = Visibility(model)
        self._buffers = KeyValueBuffers(num_slots)
        self._stop_tokens = torch.tensor(settings.stop_tokens, dtype=torch.long, device=device)
        self._generator = torch.Generator(device).manual_seed(settings.seed)
        self._places = torch.arange(max(num_slots, num_tokens), device=device)
        self._tokens = torch.zeros(num_slots, num_tokens, dtype=torch.long, device=device)
        self._log_probs = torch.zeros(num_slots, num_tokens, device=device)
        self._versions = torch.zeros(num_slots, num_tokens, dtype=torch.long, device=device)
        self._lengths = torch.zeros(num_slots, dtype=torch.long, device=device)
        self._limits = torch.zeros(num_slots, dtype=torch.long, device=device)
        self._temperatures = torch.zeros(num_slots, device=device)
        self._requests: list[GenerationRequest] = []
        self._without_token: list[str] = []
        self._first_token_at: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def num_free(self) -> int:
        """Places that new sequences could take now."""
        return len(self._lengths) - len(self._requests)

    @torch.inference_mode()
    def admit(self, requests: Sequence[GenerationRequest]) -> None:
        """Let sequences begin; at most ``num_free``. Equal prompts are computed once.

        Where computing them raises, none of them begins.
        """
        first, count = len(self._requests), len(requests)
        sizes = [len(each.prompt_tokens) for each in requests]
        longest = max(sizes)
        # One tensor a field: setting elements one by one takes longer than prefilling.
        self._tokens[first : first + count, :longest] = self._tokens.new_tensor(
            [
                (*each.prompt_tokens, *(0,) * (longest - size))
                for each, size in zip(requests, sizes, strict=True)
            ]
        )
        for state, values in (
            (self._lengths, sizes),
            (self._limits, [len(each.prompt_tokens) + each.max_tokens for each in requests]),
            (self._temperatures, [each.temperature for each in requests]),
        ):
            state[first : first + count] = state.new_tensor(values)
        self._prefill(first, first + count)
        self._requests += requests
        self._without_token += [each.id for each in requests]

    @torch.inference_mode()
    def recompute(self) -> None:
        """Compute the keys and values of every sequence again, after a change of weights."""
        self._prefill(0, len(self._requests))

    @torch.inference_mode()
    def step(self, version: int) -> list[tuple[str, Generation]]:
        """Give every sequence one more token, sampled by ``version``; return the finished ones."""
        num_rows = len(self._requests)
        rows_N = self._places[:num_rows]
        lengths_N = self._lengths[:num_rows]
        tokens_N, log_probs_N = sample(
            self._decode(rows_N, lengths_N - 1), self._temperatures[:num_rows], self._generator
        )
        self._tokens[rows_N, lengths_N] = tokens_N
        self._log_probs[rows_N, lengths_N] = log_probs_N
        self._versions[rows_N, lengths_N] = version
        lengths_N += 1
        has_stopped_N = torch.isin(tokens_N, self._stop_tokens)
        is_finished_N = has_stopped_N | (lengths_N >= self._limits[:num_rows])
        finished = is_finished_N.nonzero()[:, 0].tolist()
        self._note_first_tokens()
        if not finished:
            return []
        results = self._results(finished, has_stopped_N[finished].tolist())
        self._vacate(finished)
        return results

    @torch.inference_mode()
    def drop(self, request_ids: frozenset[str]) -> None:
        """Stop sequences whose results are no longer wanted."""
        self._note_first_tokens()
        for each in request_ids:
            self._first_token_at.pop(each, None)
        rows = [row for row, each in enumerate(self._requests) if each.id in request_ids]
        if rows:
            self._vacate(rows)

    def _decode(self, rows_N: Tensor, positions_N: Tensor) -> Tensor:
        width = int(positions_N.max()) + 1
        self._buffers.reserve(width)
        output = self._model(
            input_ids=self._tokens[rows_N, positions_N][:, None],
            attention_mask=self._visibility.masks(positions_N[:, None], self._places[:width]),
            position_ids=positions_N[:, None],
            past_key_values=DecodeCache(self._buffers, rows_N, positions_N, width),
            use_cache=True,
        )
        logits_NV: Tensor = output.logits[:, -1]
        return logits_NV

    def _prefill(self, first: int, end: int) -> None:
        """Compute keys and values of rows ``first..end-1``, all tokens but the last of each."""
        if first == end:
            return
        width = int(self._lengths[first:end].max()) - 1
        if width == 0:
            return
        self._buffers.reserve(width)
        rows_at_once = max(1, PREFILL_TOKENS // width)
        places_T = self._places[:width]
        masks = self._visibility.masks(places_T[None], places_T)
        for start in range(first, end, rows_at_once):
            prefixes, sources = torch.unique(
                self._masked_prefixes(start, min(end, start + rows_at_once), width),
                dim=0,
                return_inverse=True,
            )
            # The inner model: the vocabulary projection of a prefill is not needed.
            self._model.base_model(
                input_ids=prefixes,
                attention_mask=masks,
                position_ids=places_T[None],
                past_key_values=PrefillCache(self._buffers, start, sources),
                use_cache=True,
            )

    def _masked_prefixes(self, start: int, end: int, width: int) -> Tensor:
        """Return the tokens to prefill, zero behind each end, so that equal prefixes are equal."""
        tokens_NT = self._tokens[start:end, :width]
        is_prefix_NT = self._places[:width] < self._lengths[start:end, None] - 1
        return tokens_NT * is_prefix_NT

    def _results(self, rows: list[int], has_stopped: list[bool]) -> list[tuple[str, Generation]]:
        lengths = self._lengths[rows].tolist()
        longest = max(lengths)
        tokens = self._tokens[rows, :longest].tolist()
        log_probs = self._log_probs[rows, :longest].tolist()
        versions = self._versions[rows, :longest].tolist()
        results = []
        for index, row in enumerate(rows):
            request = self._requests[row]
            response = slice(len(request.prompt_tokens), lengths[index])
            generation = Generation(
                tokens=tuple(tokens[index][response]),
                log_probs=tuple(log_probs[index][response]),
                versions=tuple(versions[index][response]),
                finish_reason=FinishReason.STOP if has_stopped[index] else FinishReason.LENGTH,
                first_token_at=self._first_token_at.pop(request.id, None),
            )
            results.append((request.id, generation))
        return results

    def _note_first_tokens(self) -> None:
        if self._without_token:
            now = time.monotonic()
            self._first_token_at.update(dict.fromkeys(self._without_token, now))
            self._without_token = []

    def _vacate(self, rows: list[int]) -> None:
        """Take rows out and fill the holes they leave with rows from the end."""
        leaving = set(rows)
        num_left = len(self._requests) - len(rows)
        holes = [row for row in rows if row < num_left]
        movers = [row for row in range(num_left, len(self._requests)) if row not in leaving]
        if movers:
            self._move(movers, holes)
        del self._requests[num_left:]

    def _move(self, movers: list[int], holes: list[int]) -> None:
        sources, targets = self._places.new_tensor(movers), self._places.new_tensor(holes)
        width = int(self._lengths[sources].max())
        self._buffers.move(sources, targets, width=width)
        for state in (self._tokens, self._log_probs, self._versions):
            state[targets, :width] = state[sources, :width]
        for state in (self._lengths, self._limits, self._temperatures):
            state[targets] = state[sources]
        for mover, hole in zip(movers, holes, strict=True):
            self._requests[hole] = self._requests[mover]
