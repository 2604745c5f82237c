"""Trajectories as tensors: prompts padded on their left, responses on their right.

So responses of all trajectories begin in one column, and a model computes logits for those
columns only. Which trajectories make a batch is decided elsewhere.

Shapes: B trajectories, P prompt positions, R response positions, T = P + R.
"""

# ruff: noqa: N802, N806, N815  # shape suffixes

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from hetrl_runtime.wire.trajectory import SampledTrajectory, Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Trajectories to train on. Padding is token 0 and masked."""

    tokens_BT: Tensor
    is_token_BT: Tensor
    """False in the padding of both sides."""

    mask_BR: Tensor
    """True where a token was sampled, and is trained on; False in padding and where a tool wrote.
    What libraries call the response mask."""

    behaviour_BR: Tensor
    reference_BR: Tensor
    """Log-probabilities under the frozen reference, as trajectories brought them; else zero."""

    rewards_B: Tensor
    groups_B: Tensor
    """Numbered from zero: trajectories of one prompt."""

    is_current_B: Tensor
    """Whether the very weights that the step begins with sampled all of it."""

    @property
    def num_response_positions(self) -> int:
        """R."""
        return self.behaviour_BR.shape[1]

    @property
    def num_prompt_positions(self) -> int:
        """P."""
        return self.tokens_BT.shape[1] - self.num_response_positions

    @property
    def responses_BR(self) -> Tensor:
        """The responses' tokens."""
        return self.tokens_BT[:, -self.num_response_positions :]

    @property
    def lengths_B(self) -> Tensor:
        """Tokens of each response, those that tools wrote included."""
        return self.is_token_BT[:, -self.num_response_positions :].sum(dim=1)

    @property
    def num_tokens(self) -> int:
        """Sampled tokens."""
        return int(self.mask_BR.sum())

    @property
    def num_places(self) -> int:
        """Tokens that a packed pass computes: shared prompts once, responses but for their ends."""
        is_first_B = (self.prompts_B == torch.arange(len(self))).to(self.is_token_BT.device)
        prompts_BP = self.is_token_BT[is_first_B, : self.num_prompt_positions]
        return int(prompts_BP.sum()) + int((self.lengths_B - 1).clamp(min=0).sum())

    @property
    def prompts_B(self) -> Tensor:
        """For each row the first row that has the same prompt, on the CPU."""
        size = self.num_prompt_positions
        tokens, is_token = (
            each[:, :size].cpu().numpy() for each in (self.tokens_BT, self.is_token_BT)
        )
        first: dict[bytes, int] = {}
        return torch.tensor(
            [
                first.setdefault(row[here].tobytes(), number)
                for number, (row, here) in enumerate(zip(tokens, is_token, strict=True))
            ],
            dtype=torch.int64,
        )

    def __len__(self) -> int:
        return len(self.tokens_BT)

    @classmethod
    def empty(cls, num_rows: int, num_positions: int, num_response_positions: int) -> Self:
        """Return a batch of that shape to be filled in."""
        return cls(
            tokens_BT=torch.zeros(num_rows, num_positions, dtype=torch.int64),
            is_token_BT=torch.zeros(num_rows, num_positions, dtype=torch.bool),
            mask_BR=torch.zeros(num_rows, num_response_positions, dtype=torch.bool),
            behaviour_BR=torch.zeros(num_rows, num_response_positions),
            reference_BR=torch.zeros(num_rows, num_response_positions),
            rewards_B=torch.zeros(num_rows),
            groups_B=torch.zeros(num_rows, dtype=torch.int64),
            is_current_B=torch.zeros(num_rows, dtype=torch.bool),
        )

    def tensors(self) -> tuple[Tensor, ...]:
        """Return all that it holds, in a fixed order."""
        return tuple(getattr(self, each.name) for each in fields(self))

    def rows(self, chosen: Tensor | slice) -> Self:
        """Return some of the trajectories, all positions kept."""
        return self._of(each[chosen] for each in self.tensors())

    def to(self, device: torch.device) -> Self:
        """Return the batch on a device."""
        return self._of(each.to(device) for each in self.tensors())

    @classmethod
    def _of(cls, tensors: Iterable[Tensor]) -> Self:
        names = (each.name for each in fields(cls))
        return cls(**dict(zip(names, tensors, strict=True)))

    def trimmed(self) -> Self:
        """Return the batch without columns that are padding in every row."""
        if not len(self):
            return self
        used_T = self.is_token_BT.any(dim=0)
        used_R = used_T[self.num_prompt_positions :]
        return replace(
            self,
            tokens_BT=self.tokens_BT[:, used_T],
            is_token_BT=self.is_token_BT[:, used_T],
            mask_BR=self.mask_BR[:, used_R],
            behaviour_BR=self.behaviour_BR[:, used_R],
            reference_BR=self.reference_BR[:, used_R],
        )

    def padded(self, num_rows: int, num_prompt: int, num_response: int) -> Self:
        """Return the batch with blank rows and columns up to that shape.

        A blank row is one prompt token: something to attend to, and nothing to learn from.
        """
        found = self.empty(num_rows, num_prompt + num_response, num_response)
        found.is_token_BT[len(self) :, num_prompt - 1] = True
        if len(self):
            here = slice(
                num_prompt - self.num_prompt_positions, num_prompt + self.num_response_positions
            )
            found.tokens_BT[: len(self), here] = self.tokens_BT
            found.is_token_BT[: len(self), here] = self.is_token_BT
            found.mask_BR[: len(self), : self.num_response_positions] = self.mask_BR
            found.behaviour_BR[: len(self), : self.num_response_positions] = self.behaviour_BR
            found.reference_BR[: len(self), : self.num_response_positions] = self.reference_BR
            found.rewards_B[: len(self)] = self.rewards_B
            found.groups_B[: len(self)] = self.groups_B
            found.is_current_B[: len(self)] = self.is_current_B
        return found


def collate(
    trajectories: Sequence[SampledTrajectory],
    *,
    rewards: Sequence[float],
    current_since: int | None = None,
) -> Batch:
    """Put trajectories into tensors, with ``rewards`` in place of their own.

    ``current_since`` is the first version that had the weights of now; None: none is current.

    Raises:
        ValueError: there is no trajectory.
    """
    if not trajectories:
        raise ValueError("a batch needs at least one trajectory")
    batch = of_responses([(each.prompt_tokens, each.response_tokens) for each in trajectories])
    # Views of what the tensors hold, which is quicker to fill in.
    mask_BR, behaviour_BR, reference_BR = (
        each.numpy() for each in (batch.mask_BR, batch.behaviour_BR, batch.reference_BR)
    )
    for row, each in enumerate(trajectories):
        here = slice(0, each.num_response_tokens)
        mask_BR[row, here] = each.response_mask
        behaviour_BR[row, here] = each.behaviour_log_probs
        if each.reference_log_probs is not None:
            reference_BR[row, here] = each.reference_log_probs
    numbers = {group: number for number, group in enumerate(dict.fromkeys(_groups(trajectories)))}
    return replace(
        batch,
        rewards_B=torch.tensor(rewards, dtype=torch.float32),
        groups_B=torch.tensor([numbers[group] for group in _groups(trajectories)]),
        is_current_B=torch.tensor([_is_current(each, current_since) for each in trajectories]),
    )


def _is_current(trajectory: SampledTrajectory, since: int | None) -> bool:
    versions = trajectory.sampled_versions
    return since is not None and bool(versions.size) and int(versions.min()) >= since


def of_responses(responses: Sequence[tuple[Tokens, Tokens]]) -> Batch:
    """Put prompts and responses into tensors; nothing else is known of them."""
    num_prompt = max(prompt.size for prompt, _ in responses)
    num_response = max(response.size for _, response in responses)
    batch = Batch.empty(len(responses), num_prompt + num_response, num_response)
    tokens_BT, is_token_BT = batch.tokens_BT.numpy(), batch.is_token_BT.numpy()
    for row, (prompt, response) in enumerate(responses):
        start, end = num_prompt - prompt.size, num_prompt + response.size
        tokens_BT[row, start:end] = np.concatenate([prompt, response])
        is_token_BT[row, start:end] = True
    return batch


def minibatches(batch: Batch, *, count: int, seed: int, version: int) -> Iterator[Tensor]:
    """Yield the rows of ``count`` minibatches, as equal as they can be, drawn without repeat.

    The order follows from seed and version alone: a run that resumes shuffles as it would
    have, and so does every rank.
    """
    rows = list(range(len(batch)))
    random.Random(f"{seed}/{version}").shuffle(rows)  # noqa: S311  # an order, not a secret
    for number in range(min(count, len(rows))):
        yield torch.tensor(rows[number::count])


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The token counts of one trajectory of a batch, and its prompt's identity."""

    number: int
    first: int
    """The first row of the batch with that prompt."""

    prompt: int
    response: int

    @property
    def own_places(self) -> int:
        """Tokens of the response that a packed pass computes: nothing follows the last."""
        return max(0, self.response - 1)


def by_prompt(batch: Batch, rows: Tensor) -> list[Row]:
    """Return ``rows``, those of one prompt together, short prompts first."""
    responses_B = batch.lengths_B
    prompts_B = batch.is_token_BT.sum(dim=1) - responses_B
    found = [
        Row(number=number, first=first, prompt=prompt, response=response)
        for number, first, prompt, response in torch.stack(
            [rows, *(each[rows] for each in (batch.prompts_B, prompts_B, responses_B))], dim=1
        ).tolist()
    ]
    return sorted(found, key=lambda each: (each.prompt, each.first, each.response))


def places_of(rows: Iterable[Row]) -> int:
    """Return how many places rows take together."""
    prompts = {row.first: row.prompt for row in rows}
    return sum(prompts.values()) + sum(row.own_places for row in rows)


def packed_passes(batch: Batch, rows: Tensor, *, max_tokens: int) -> Iterator[Tensor]:
    """Yield ``rows`` in parts of at most ``max_tokens`` places.

    Rows of one prompt go together, so that it is computed once; a single longer trajectory
    still is a part of its own.
    """
    part: list[int] = []
    places, last = 0, -1
    for row in by_prompt(batch, rows):
        places += row.own_places + (row.prompt if row.first != last else 0)
        if part and places > max_tokens:
            yield torch.tensor(part)
            part, places = [], row.prompt + row.own_places
        part.append(row.number)
        last = row.first
    if part:
        yield torch.tensor(part)


def padded_passes(batch: Batch, rows: Tensor, *, max_tokens: int) -> Iterator[Tensor]:
    """Yield ``rows`` in parts that hold at most ``max_tokens`` positions, padding included.

    Rows of similar length go together, so that little is padding; a single longer trajectory
    still is a part of its own.
    """
    responses = batch.lengths_B[rows]
    prompts = batch.is_token_BT[rows].sum(dim=1) - responses
    by_length = sorted(zip(*(each.tolist() for each in (responses, prompts, rows)), strict=True))
    part: list[int] = []
    widest_prompt = 0
    for response, prompt, row in by_length:
        widest_prompt = max(widest_prompt, prompt)
        if part and (len(part) + 1) * (widest_prompt + response) > max_tokens:
            yield torch.tensor(part)
            part, widest_prompt = [], prompt
        part.append(row)
    if part:
        yield torch.tensor(part)


def _groups(trajectories: Sequence[SampledTrajectory]) -> list[int]:
    return [each.group for each in trajectories]
