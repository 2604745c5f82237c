"""One version's training: from a batch to a moved policy, the same on every rank.

Pure of I/O and of the run: where batches come from and what happens to the new weights is
the loop's business.
"""

# ruff: noqa: N806, N815  # shape suffixes, as in ``batch``

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from hetrl_core.job import AlgorithmSpec, KlPlacement, TrainingSpec
from hetrl_runtime.trainer.advantage import group_advantages
from hetrl_runtime.trainer.batch import Batch, minibatches, passes
from hetrl_runtime.trainer.checkpoint import Checkpoint
from hetrl_runtime.trainer.loss import (
    Clip,
    Whole,
    decoupled_ppo,
    kl_k3,
    masked_mean,
    summed,
    token_weights,
)
from hetrl_runtime.trainer.model import Policy
from hetrl_runtime.trainer.optimizer import Optimizer
from hetrl_runtime.trainer.peers import Peers

_FIGURES = ("loss", "entropy", "clip_fraction", "behaviour_weight", "behaviour_kl", "reference_kl")
"""The loss, and means over the batch's tokens; ``behaviour_kl`` is how far samplers were behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Targets:
    """What a version's minibatches have in common; what no row of this rank's needs is zero."""

    proximal_BR: Tensor
    reference_BR: Tensor | None
    advantages_B: Tensor


class Learner:
    """The policy, its optimizer and, where a KL term asks for it, the frozen reference."""

    def __init__(
        self,
        policy: Policy,
        *,
        reference: Policy | None,
        algorithm: AlgorithmSpec,
        training: TrainingSpec,
        max_response_tokens: int,
        peers: Peers,
    ) -> None:
        self.policy = policy
        self.optimizer = Optimizer(policy.named_parameters(), learning_rate=training.learning_rate)
        self._reference = reference
        self._algorithm = algorithm
        self._seed = training.seed
        self._max_response_tokens = max_response_tokens
        self._peers = peers
        self._clip = Clip(
            low=algorithm.clip_low,
            high=algorithm.clip_high,
            behaviour_weight=algorithm.behaviour_weight_cap,
            beyond=algorithm.stale_weights,
        )

    def restore(self, checkpoint: Checkpoint | None) -> None:
        """Go on from a checkpoint, or from the beginning; every rank takes the leader's."""
        if checkpoint:
            self.policy.load_weights(checkpoint.weights, source=str(checkpoint.path))
            self.optimizer.load_state(checkpoint.optimizer)
        self._peers.copy_from_leader(
            parameter.data for parameter in self.policy.named_parameters().values()
        )
        self.optimizer.copy_from_leader(self._peers)

    def train(self, batch: Batch, *, version: int) -> dict[str, float]:
        """Move the policy from ``version`` to the next; return figures for the step's report."""
        shares = [
            (rows, self._peers.share(rows))
            for rows in minibatches(
                batch, count=self._algorithm.minibatches, seed=self._seed, version=version
            )
        ]
        targets = self._targets(batch, [mine for _, mine in shares])
        figures = torch.zeros(len(_FIGURES), device=self.policy.device)
        norms = []
        for rows, mine in shares:
            whole = Whole(
                num_tokens=batch.rows(rows).num_tokens,
                num_trajectories=len(rows),
                most_tokens=self._max_response_tokens,
            )
            for part in self._passes(batch, mine):
                figures += self._backward(batch, part, targets, whole)
            self._peers.add_up_gradients(self.policy.named_parameters().values())
            norms.append(self.optimizer.step(version=version))
        self._peers.add_up([figures])
        return {
            **dict(zip(_FIGURES, (figures / len(shares)).tolist(), strict=True)),
            "gradient_norm": sum(norms) / len(norms),
            "learning_rate": self.optimizer.learning_rate(version),
        }

    def _targets(self, batch: Batch, shares: list[Tensor]) -> _Targets:
        """Price the batch before the first minibatch moves the policy."""
        proximal_BR = self._log_probs(self.policy, batch, shares)
        reference_BR = self._log_probs(self._reference, batch, shares) if self._reference else None
        rewards_B = batch.rewards_B
        if reference_BR is not None and self._charges(KlPlacement.REWARD):
            strayed_B = summed(proximal_BR - reference_BR, batch.mask_BR)
            # Rows of other ranks are zero here, and groups are compared as wholes.
            self._peers.add_up([strayed_B])
            rewards_B = rewards_B - self._algorithm.kl_coefficient * strayed_B
        return _Targets(
            proximal_BR=proximal_BR,
            reference_BR=reference_BR,
            advantages_B=group_advantages(rewards_B, batch.groups_B, self._algorithm.advantage),
        )

    def _charges(self, placement: KlPlacement) -> bool:
        return self._algorithm.kl_placement is placement

    def _backward(self, batch: Batch, part: Tensor, targets: _Targets, whole: Whole) -> Tensor:
        """Add a part's gradients; return its share of the figures."""
        rows = batch.rows(part).trimmed().to(self.policy.device)
        mask_BR, width = rows.mask_BR, rows.num_response_positions
        proximal_BR = targets.proximal_BR[part, :width].to(self.policy.device)
        scores = self.policy.scores(rows)
        policy = decoupled_ppo(
            scores.log_probs_BR,
            proximal_BR=proximal_BR,
            behaviour_BR=rows.behaviour_BR,
            advantages_B=targets.advantages_B[part].to(self.policy.device),
            mask_BR=mask_BR,
            clip=self._clip,
        )
        kl_BR = torch.zeros_like(policy.losses_BR)
        if targets.reference_BR is not None:
            reference_BR = targets.reference_BR[part, :width].to(self.policy.device)
            kl_BR = kl_k3(scores.log_probs_BR, reference_BR, mask_BR)
        loss_BR = policy.losses_BR
        if self._charges(KlPlacement.LOSS):
            loss_BR = loss_BR + self._algorithm.kl_coefficient * kl_BR
        weights_BR = token_weights(mask_BR, whole, self._algorithm.loss_aggregation)
        loss = (weights_BR * loss_BR).sum()
        torch.autograd.backward(loss)
        values = (
            scores.entropies_BR,
            policy.is_clipped_BR.float(),
            policy.behaviour_weights_BR,
            kl_k3(rows.behaviour_BR, proximal_BR, mask_BR),
            kl_BR,
        )
        with torch.no_grad():
            means = [masked_mean(each, mask_BR, num_tokens=whole.num_tokens) for each in values]
            return torch.stack([loss, *means])

    @torch.no_grad()
    def _log_probs(self, policy: Policy, batch: Batch, shares: list[Tensor]) -> Tensor:
        """Return the log-probabilities ``(B, R)`` of some rows; the others stay zero."""
        found_BR = torch.zeros_like(batch.behaviour_BR)
        for part in self._passes(batch, torch.cat(shares)):
            rows = batch.rows(part).trimmed().to(policy.device)
            found_BR[part, : rows.num_response_positions] = policy.scores(rows).log_probs_BR.cpu()
        return found_BR

    def _passes(self, batch: Batch, rows: Tensor) -> Iterator[Tensor]:
        return passes(batch, rows, max_tokens=self.policy.max_tokens_per_pass)
