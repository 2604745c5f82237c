"""One version's training: from a batch to a moved policy, the same on every rank.

Pure of I/O and of the run: where batches come from and what happens to the new weights is
the loop's business.
"""

# ruff: noqa: N803, N806  # shape suffixes, as in ``batch``

from collections.abc import Iterator

import torch
from torch import Tensor

from hetrl_core.job import AlgorithmSpec, TrainingSpec
from hetrl_runtime.trainer.batch import Batch, minibatches, passes
from hetrl_runtime.trainer.checkpoint import Checkpoint
from hetrl_runtime.trainer.loss import Clip, decoupled_ppo, kl_k3, masked_mean
from hetrl_runtime.trainer.model import Policy
from hetrl_runtime.trainer.optimizer import Optimizer
from hetrl_runtime.trainer.peers import Peers

_FIGURES = ("loss", "entropy", "clip_fraction", "behaviour_weight", "behaviour_kl", "reference_kl")
"""Means over the batch's tokens; ``behaviour_kl`` is how far the samplers were behind."""


class Learner:
    """The policy, its optimizer and, where a KL term asks for it, the frozen reference."""

    def __init__(
        self,
        policy: Policy,
        *,
        reference: Policy | None,
        algorithm: AlgorithmSpec,
        training: TrainingSpec,
        peers: Peers,
    ) -> None:
        self.policy = policy
        self.optimizer = Optimizer(policy.named_parameters(), learning_rate=training.learning_rate)
        self._reference = reference
        self._algorithm = algorithm
        self._seed = training.seed
        self._peers = peers
        self._clip = Clip(
            low=algorithm.clip_low,
            high=algorithm.clip_high,
            behaviour_weight=algorithm.behaviour_weight_cap,
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
        algorithm = self._algorithm
        shares = [
            (rows, self._peers.share(rows))
            for rows in minibatches(
                batch, count=algorithm.minibatches, seed=self._seed, version=version
            )
        ]
        proximal_BR = self._log_probs(self.policy, batch, [mine for _, mine in shares])
        reference_BR = (
            self._log_probs(self._reference, batch, [mine for _, mine in shares])
            if self._reference
            else None
        )
        figures = torch.zeros(len(_FIGURES), device=self.policy.device)
        norms = []
        for rows, mine in shares:
            num_tokens = batch.rows(rows).num_tokens
            for part in self._passes(batch, mine):
                figures += self._backward(
                    batch, part, proximal_BR=proximal_BR, reference_BR=reference_BR,
                    num_tokens=num_tokens,
                )  # fmt: skip
            self._peers.add_up_gradients(self.policy.named_parameters().values())
            norms.append(self.optimizer.step(version=version))
        self._peers.add_up([figures])
        return {
            **dict(zip(_FIGURES, (figures / len(shares)).tolist(), strict=True)),
            "gradient_norm": sum(norms) / len(norms),
            "learning_rate": self.optimizer.learning_rate(version),
        }

    def _backward(
        self,
        batch: Batch,
        part: Tensor,
        *,
        proximal_BR: Tensor,
        reference_BR: Tensor | None,
        num_tokens: int,
    ) -> Tensor:
        """Add a part's gradients; return its share of the figures."""
        rows = batch.rows(part).trimmed().to(self.policy.device)
        mask_BR, width = rows.mask_BR, rows.num_response_positions
        proximal = proximal_BR[part, :width].to(self.policy.device)
        scores = self.policy.scores(rows)
        policy = decoupled_ppo(
            scores.log_probs_BR,
            proximal_BR=proximal,
            behaviour_BR=rows.behaviour_BR,
            advantages_B=rows.advantages_B,
            mask_BR=mask_BR,
            clip=self._clip,
        )
        kl_BR = torch.zeros_like(policy.losses_BR)
        if reference_BR is not None:
            reference = reference_BR[part, :width].to(self.policy.device)
            kl_BR = kl_k3(scores.log_probs_BR, reference, mask_BR)
        loss_BR = policy.losses_BR + self._algorithm.kl_coefficient * kl_BR
        torch.autograd.backward(masked_mean(loss_BR, mask_BR, num_tokens=num_tokens))
        values = (
            loss_BR,
            scores.entropies_BR,
            policy.is_clipped_BR.float(),
            policy.behaviour_weights_BR,
            kl_k3(rows.behaviour_BR, proximal, mask_BR),
            kl_BR,
        )
        with torch.no_grad():
            return torch.stack(
                [masked_mean(each, mask_BR, num_tokens=num_tokens) for each in values]
            )

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
