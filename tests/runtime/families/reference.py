"""What transformers itself says of a model's samples, row by row, without padding."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from hetrl_runtime.trainer.batch import Batch, collate
from tests.runtime.trainer.trajectories import a_trajectory

Sample = tuple[list[int], list[int]]
"""Prompt and response."""


def random_tokens(count: int, *, seed: int, size: int = 98) -> list[int]:
    drawn = torch.randint(3, size, (count,), generator=torch.Generator().manual_seed(seed))
    return [int(each) for each in drawn]


SAMPLES: list[Sample] = [
    (random_tokens(prompt, seed=prompt), random_tokens(response, seed=100 + response))
    for prompt, response in [(1, 40), (25, 3), (9, 17), (30, 1)]
]


def a_batch() -> Batch:
    """Return the samples as a minibatch."""
    rows = [
        a_trajectory(member=member, prompt=prompt, response=response)
        for member, (prompt, response) in enumerate(SAMPLES)
    ]
    return collate(rows, rewards=[0.0] * len(rows))


def by_response(log_probs_BR: Tensor) -> list[Tensor]:  # noqa: N803
    """Return what is not padding of a minibatch's values."""
    return [log_probs_BR[row, : len(each)] for row, (_, each) in enumerate(SAMPLES)]


@torch.no_grad()
def log_probs_of(
    folder: Path, samples: Sequence[Sample], *, temperature: float = 1.0
) -> list[Tensor]:
    """Return the log-probability of each response's tokens."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    found = []
    for prompt, response in samples:
        logits = model(torch.tensor([prompt + response])).logits[0, :-1].float() / temperature
        scores = torch.log_softmax(logits, dim=-1)[-len(response) :]
        found.append(scores.gather(1, torch.tensor(response)[:, None])[:, 0])
    return found


def apart(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Return the largest difference of one token's log-probability."""
    return max(float((one - two).abs().max()) for one, two in zip(found, expected, strict=True))
