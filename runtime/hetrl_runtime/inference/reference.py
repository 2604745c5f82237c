"""The reference: the policy as it began, on one pod's GPUs, cut by tensors where they are several.

It is computed by the trainer's own code, so that a policy which has not moved has exactly the
log-probabilities of its reference. ``request_queue`` orders the requests.
"""

# ruff: noqa: N806  # shapes: R response positions

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn

from hetrl_core.launch import Launch
from hetrl_core.plan.pod_sets import Rank
from hetrl_core.plan.training_split import TrainingSplit
from hetrl_runtime.trainer.batch import Batch, of_responses
from hetrl_runtime.trainer.model.model import Policy
from hetrl_runtime.trainer.parallel.place import Place
from hetrl_runtime.trainer.processes.peers import Order, Peers
from hetrl_runtime.wire.trajectory import LogProbs, Tokens


class Response(NamedTuple):
    """A response to score, as tokens."""

    prompt_tokens: Tokens
    response_tokens: Tokens

    @property
    def num_tokens(self) -> int:
        """Tokens of both."""
        return self.prompt_tokens.size + self.response_tokens.size


class ReferenceModel:
    """The model of a launch contract, or this process's part of it.

    Rank 0 is asked, and the others ``follow`` it.
    """

    def __init__(self, launch: Launch, peers: Peers, *, device: torch.device) -> None:
        """Load it.

        Raises:
            ModelError: it is not there, cannot be loaded, or cannot be cut this way.
        """
        self._peers = peers
        self._policy = Policy(
            launch.model,
            device=device,
            temperature=launch.algorithm.temperature,
            mesh=peers.mesh,
            lengths=launch.data.lengths,
        )
        self._policy.stage.requires_grad_(requires_grad=False)
        if device.type == "cuda":
            _shrink(self._policy.model)

    @property
    def vocab_size(self) -> int:
        """Tokens that it knows are numbered below this."""
        return int(self._policy.model.config.vocab_size)

    @property
    def max_tokens_per_pass(self) -> int:
        """Tokens that one pass computes most efficiently."""
        return self._policy.max_tokens_per_pass

    def look(self, responses: Sequence[Response]) -> list[LogProbs]:
        """Return the log-probability of each response's tokens, at the policy's temperature."""
        batch = of_responses(responses)
        self._peers.give(Order(version=0, batch=batch))
        found_BR = self._look(batch).numpy()
        return [
            found_R[: each.response_tokens.size]
            for found_R, each in zip(found_BR, responses, strict=True)
        ]

    def follow(self) -> None:
        """Take part in rank 0's passes until it stops."""
        while (order := self._peers.await_order()).batch is not None:
            self._look(order.batch)

    def stop(self) -> None:
        """Let the others go."""
        self._peers.give(Order(version=0))

    def _look(self, batch: Batch) -> torch.Tensor:
        return self._policy.log_probs(batch, [torch.arange(len(batch))])


def place_in_pod(ranks: Sequence[Rank], rank: Rank) -> Place:
    """Return where a process stands among those of its pod, which have one replica together."""
    return Place(split=TrainingSplit(tensor=len(ranks)), tensor_rank=rank.tensor_rank)


def _shrink(model: nn.Module) -> None:
    """Keep what is multiplied in the bits that it is multiplied in: half the memory.

    A GPU's autocast makes the same of float32 weights in every pass. Norms and embeddings, which it
    leaves alone, stay as they are, and so does a head that is the embedding too.
    """
    embedded = {id(each.weight) for each in model.modules() if isinstance(each, nn.Embedding)}
    for each in model.modules():
        if isinstance(each, nn.Linear) and id(each.weight) not in embedded:
            each.to(torch.bfloat16)
