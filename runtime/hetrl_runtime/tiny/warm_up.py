"""Supervised steps that leave the model half able: it knows sums, and a bad habit.

Most worked answers forget the carry, so greedy decoding starts out right where there is
none, and sampling is right often enough for rewards to say something. Which of the two
habits stays is for reinforcement learning to decide. ``warm_up_data`` draws the examples.
"""

# ruff: noqa: N803, N806  # shapes: Batch, Time, Vocabulary

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  # torch's own custom
from torch import Tensor
from transformers import Qwen3ForCausalLM

from hetrl_runtime.tiny.warm_up_data import IGNORED, Lessons


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """The schedule and data of a warm-up."""

    steps: int = 600
    batch_size: int = 64
    peak_learning_rate: float = 2e-3
    careless_share: float = 0.75
    """Share of the worked answers that forget the carry. Above one half, so that greedy
    decoding starts with the mistake, and well above, so that chance alone does not undo it.
    Of products, the share that is answered without the calculator."""

    def learning_rate(self, step: int) -> float:
        """Rise over 20 steps, hold, and fall to nothing over the second half."""
        rise = min(1.0, (step + 1) / 20)
        fall = min(1.0, 2 * (1 - step / self.steps))
        return self.peak_learning_rate * rise * fall


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpResult:
    """The result of a warm-up."""

    num_parameters: int
    loss: float
    """Mean cross-entropy of an answer's tokens, in nats, over the last tenth of the steps."""

    seconds: float


def warm_up(
    model: Qwen3ForCausalLM, lessons: Lessons, *, seed: int, schedule: WarmUp
) -> WarmUpResult:
    """Train the model in place."""
    started_at = time.monotonic()
    random = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.99), weight_decay=0.01)
    losses: list[float] = []
    with _one_thread():
        for step in range(schedule.steps):
            for group in optimizer.param_groups:
                group["lr"] = schedule.learning_rate(step)
            loss = _loss(model, *lessons.sample(schedule.batch_size, random))
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss.detach()))
    last = losses[-math.ceil(schedule.steps / 10) :]
    return WarmUpResult(
        num_parameters=sum(parameter.numel() for parameter in model.parameters()),
        loss=sum(last) / len(last),
        seconds=time.monotonic() - started_at,
    )


def _loss(model: Qwen3ForCausalLM, tokens_BT: Tensor, labels_BT: Tensor) -> Tensor:
    logits_BTV = model(tokens_BT[:, :-1]).logits
    return F.cross_entropy(
        logits_BTV.flatten(0, 1), labels_BT[:, 1:].flatten(), ignore_index=IGNORED
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    # Sums over several threads are added in an order that depends on how many there are:
    # with one, a seed means the same model whatever else the machine does.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
