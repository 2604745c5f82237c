"""The policy in training: its log-probabilities of a batch, and its update by a minibatch.

The learner chooses batch and minibatches, and computes the targets: advantages, and
log-probabilities of the proximal policy and the reference.
"""

# ruff: noqa: N803, N806, N815  # shape suffixes, as in ``batch``

from dataclasses import dataclass

import torch
from torch import Tensor

from hetrl_core.job.algorithm import AlgorithmSpec, KlPlacement, ProximalPolicy
from hetrl_core.job.spec import TrainingSpec
from hetrl_runtime.trainer.batch import Batch
from hetrl_runtime.trainer.losses.policy_loss import (
    Clip,
    Whole,
    decoupled_ppo,
    kl_k3,
    masked_mean,
    summed,
    token_weights,
)
from hetrl_runtime.trainer.minibatch_metrics import MinibatchGradient, MinibatchMetrics
from hetrl_runtime.trainer.model.model import Policy, TokenScores
from hetrl_runtime.trainer.model.optimizer import Optimizer
from hetrl_runtime.trainer.parallel.passes import Pass

ACTOR_FIGURES = (
    "loss",
    "entropy",
    "clip_fraction",
    "behaviour_weight",
    "behaviour_kl",
    "reference_kl",
)
"""The loss, and means over the batch's tokens; ``behaviour_kl`` is how far samplers were behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Targets shared by a version's minibatches; zero where no row of this rank needs them."""

    proximal_BR: Tensor | None
    """None: of one minibatch, whose own forward pass says it."""

    reference_BR: Tensor | None
    advantages_BR: Tensor


class Actor:
    """The policy, its optimizer, and its part of a step."""

    def __init__(self, policy: Policy, *, algorithm: AlgorithmSpec, training: TrainingSpec) -> None:
        self.policy = policy
        self.optimizer = Optimizer(policy, learning_rate=training.learning_rate)
        self._algorithm = algorithm
        self._clip = Clip(
            low=algorithm.clip_low,
            high=algorithm.clip_high,
            behaviour_weight=algorithm.behaviour_weight_cap,
            beyond=algorithm.stale_weights,
        )
        self._is_near_behaviour = algorithm.proximal_policy is ProximalPolicy.BEHAVIOUR
        self.minibatch_metrics = MinibatchMetrics(ACTOR_FIGURES)
        self._compared = torch.zeros(4, dtype=torch.float64, device=policy.device)
        self._has_moved = False
        """Since the version began."""

    def state(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold in addition to the policy's files.

        Every process must call it; only the leader gets the result.
        """
        return self.optimizer.state()

    def restore(self, state: dict[str, Tensor], weights: dict[str, Tensor], source: str) -> None:
        """Go on from what ``state`` returned to the leader, and the policy's files.

        Without weights: from the beginning. Only the leader's arguments count.
        """
        if not self.policy.share_with_all(torch.tensor(bool(weights))):
            self.policy.copy_from_first_replica()
            return
        self.policy.load_weights(Optimizer.masters(state) or weights, source=source)
        self.optimizer.load_state(state)

    def backward(
        self, batch: Batch, parts: list[Tensor], whole: Whole, targets: Targets
    ) -> MinibatchGradient:
        """Make a minibatch's gradient."""
        figures = torch.zeros(len(ACTOR_FIGURES), device=self.policy.device)

        def loss_of(each: Pass, scores: TokenScores) -> Tensor:
            nonlocal figures
            loss, means = self._loss(each, scores, targets, whole)
            figures += torch.stack([loss.detach(), *means])
            return loss

        self.policy.backward(self.policy.passes(batch, parts), loss_of)
        return MinibatchGradient(figures=figures.cpu(), norm=self.policy.gradient_norm())

    def step(self, gradient: MinibatchGradient, *, version: int, is_skipped: bool) -> None:
        """Move along a minibatch's gradient, or forget it."""
        if is_skipped:
            self.optimizer.skip()
            return
        self.optimizer.step(gradient.norm, version=version)
        self.minibatch_metrics.add(gradient)
        self._has_moved = True

    def take_comparison(self) -> Tensor:
        """Return the sums over tokens of this version's ``Comparison``, here; begin the next's."""
        found, self._compared = self._compared.cpu(), torch.zeros_like(self._compared)
        self._has_moved = False
        return found

    def _loss(
        self, each: Pass, scores: TokenScores, targets: Targets, whole: Whole
    ) -> tuple[Tensor, list[Tensor]]:
        """Return a pass's share of the loss, and of the other figures."""
        batch = each.batch.to(self.policy.device)
        mask_BR, width = batch.mask_BR, batch.num_response_positions
        if targets.proximal_BR is None:
            proximal_BR = scores.log_probs_BR.detach()
        else:
            proximal_BR = targets.proximal_BR[each.rows, :width].to(self.policy.device)
        policy = decoupled_ppo(
            scores.log_probs_BR,
            proximal_BR=proximal_BR,
            behaviour_BR=batch.behaviour_BR,
            advantages_B=targets.advantages_BR[each.rows, :width].to(self.policy.device),
            mask_BR=mask_BR,
            clip=self._clip,
        )
        kl_BR = torch.zeros_like(policy.losses_BR)
        if targets.reference_BR is not None:
            reference_BR = targets.reference_BR[each.rows, :width].to(self.policy.device)
            kl_BR = kl_k3(scores.log_probs_BR, reference_BR, mask_BR)
        loss_BR = policy.losses_BR
        if self._algorithm.kl_placement is KlPlacement.LOSS:
            loss_BR = loss_BR + self._algorithm.kl_coefficient * kl_BR
        weights_BR = token_weights(mask_BR, whole, self._algorithm.loss_aggregation)
        found_BR = scores.log_probs_BR.detach() if self._is_near_behaviour else proximal_BR
        values = (
            scores.entropies_BR,
            policy.is_clipped_BR.float(),
            policy.behaviour_weights_BR,
            kl_k3(batch.behaviour_BR, found_BR, mask_BR),
            kl_BR.detach(),
        )
        if not (self._is_near_behaviour and self._has_moved):
            self._compare(found_BR, batch)
        means = [masked_mean(value, mask_BR, num_tokens=whole.num_tokens) for value in values]
        return (weights_BR * loss_BR).sum(), means

    def _compare(self, mine_BR: Tensor, batch: Batch) -> None:
        """Add the tokens that the weights of now sampled to the comparison with the engine."""
        mask_BR = batch.mask_BR & batch.is_current_B[:, None]
        engine_BR = batch.behaviour_BR
        values = (torch.ones_like(mine_BR), mine_BR, engine_BR, (mine_BR - engine_BR).abs())
        self._compared += torch.stack([summed(each, mask_BR).double().sum() for each in values])
