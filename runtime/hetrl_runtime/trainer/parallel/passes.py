"""Passes of the replicas' parts of a minibatch: the rows that one forward computes at once.

Every process knows the whole batch and every part, so all agree on the passes without messages.
"""

# ruff: noqa: N806  # shapes: B trajectories, R response positions

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from hetrl_core.plan.plan import Sharding
from hetrl_core.plan.training_split import TrainingSplit
from hetrl_runtime.trainer.batch import Batch, by_prompt, packed_passes, padded_passes, places_of

_PASSES_PER_STAGE = 2
"""Passes in a pipeline, at least, while there are rows for them: with m passes through p stages,
(p - 1)/(m + p - 1) of the time is spent filling and draining it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """Rows that are computed together."""

    rows: Tensor
    """Their numbers in the whole batch; as many as ``batch`` has, repeated for blank ones."""

    num_rows: int
    """Those that are not blank; they come first."""

    batch: Batch


def cut(
    batch: Batch,
    parts: Sequence[Tensor],
    replica: int,
    *,
    split: TrainingSplit,
    max_tokens: int,
    is_packed: bool = True,
) -> list[Pass]:
    """Return the passes of one replica, ``parts`` being the rows of each.

    A pass holds at most ``max_tokens`` tokens, or one row; with padding where passes are not
    packed. Those of a pipeline are of one shape, as its stages send each other tensors of a shape
    agreed on. There is one at least, and where weights are gathered for each pass, as many on
    every replica: a pass may be blank.
    """
    if split.num_stages > 1:
        found = [_even(batch, rows, split.num_stages, max_tokens) for rows in parts]
    else:
        each_of = packed_passes if is_packed else padded_passes
        found = [list(each_of(batch, rows, max_tokens=max_tokens)) for rows in parts]
    fewest = max(1, split.num_stages)
    if split.mode.sharding is Sharding.FULL:
        fewest = max(fewest, *(len(each) for each in found))
    mine = [each for each in found[replica] if len(each)]
    if split.num_stages == 1:
        made = [_pass(batch.rows(rows).trimmed(), rows) for rows in mine]
        return made + [_blank(batch)] * (fewest - len(made))
    all_rows = batch.rows(parts[replica]).trimmed()
    shape = (
        max((len(rows) for rows in mine), default=1),
        all_rows.num_prompt_positions or 1,
        all_rows.num_response_positions or 1,
    )
    mine += [torch.empty(0, dtype=torch.int64)] * (fewest - len(mine))
    return [_pass(batch.rows(rows).trimmed().padded(*shape), rows) for rows in mine]


def by_row(found: Iterable[tuple[Pass, Tensor]], batch: Batch) -> Tensor:
    """Return the values of passes' tokens in the places of the whole batch ``(B, R)``.

    On the CPU. Rows of no pass are zero.
    """
    whole_BR = torch.zeros_like(batch.behaviour_BR)
    for each, values_BR in found:
        rows, width = each.rows[: each.num_rows], each.batch.num_response_positions
        whole_BR[rows, :width] = values_BR[: each.num_rows].cpu()
    return whole_BR


def _even(batch: Batch, rows: Tensor, num_stages: int, max_tokens: int) -> list[Tensor]:
    """Return rows in passes that take about as many places each."""
    if not len(rows):
        return []
    ordered = by_prompt(batch, rows)
    groups = [list(alike) for _, alike in groupby(ordered, key=lambda each: each.first)]
    fewest = min(len(rows), _PASSES_PER_STAGE * num_stages)
    if len(groups) < fewest or max(map(places_of, groups)) > max_tokens:
        groups = [[each] for each in ordered]
    groups.sort(key=places_of, reverse=True)
    for count in range(fewest, len(groups) + 1):
        dealt = [
            [row for group in groups[number::count] for row in group] for number in range(count)
        ]
        if max(map(places_of, dealt)) <= max_tokens:
            break
    return [torch.tensor([row.number for row in each]) for each in dealt]


def _pass(batch: Batch, rows: Tensor) -> Pass:
    repeated = torch.zeros(len(batch), dtype=torch.int64)
    repeated[: len(rows)] = rows
    return Pass(rows=repeated, num_rows=len(rows), batch=batch)


def _blank(batch: Batch) -> Pass:
    none = torch.empty(0, dtype=torch.int64)
    return _pass(batch.rows(none).padded(1, 1, 1), none)
