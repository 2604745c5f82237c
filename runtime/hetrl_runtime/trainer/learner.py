"""One version's training: from a batch to a moved policy, the same on every rank.

Pure of I/O and of the run: where batches come from and what happens to the new weights is
the loop's business.
"""

# ruff: noqa: N803, N806, N815  # shape suffixes, as in ``batch``

from dataclasses import dataclass

import torch
from torch import Tensor

from hetrl_core.algorithm import AlgorithmSpec, KlPlacement, ProximalPolicy
from hetrl_core.job import TrainingSpec
from hetrl_runtime.trainer.advantage import group_advantages
from hetrl_runtime.trainer.batch import Batch, minibatches
from hetrl_runtime.trainer.checkpoint import Checkpoint
from hetrl_runtime.trainer.critic import Critic, Valuation
from hetrl_runtime.trainer.gae import rewards_at_the_end
from hetrl_runtime.trainer.loss import (
    Clip,
    Whole,
    decoupled_ppo,
    kl_k3,
    masked_mean,
    summed,
    token_weights,
)
from hetrl_runtime.trainer.model import Policy, TokenScores
from hetrl_runtime.trainer.optimizer import Optimizer
from hetrl_runtime.trainer.parallel.passes import Pass, by_row
from hetrl_runtime.trainer.peers import Peers

_FIGURES = ("loss", "entropy", "clip_fraction", "behaviour_weight", "behaviour_kl", "reference_kl")
"""The loss, and means over the batch's tokens; ``behaviour_kl`` is how far samplers were behind."""

_OF_CRITIC = "critic/"
"""Before the names of its tensors in a checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Targets:
    """What a version's minibatches have in common; what no row of this rank's needs is zero."""

    proximal_BR: Tensor | None
    """None: of one minibatch, whose own forward pass says it."""

    reference_BR: Tensor | None
    advantages_BR: Tensor
    valuation: Valuation | None
    """What the critic said, where there is one."""


class Learner:
    """The policy, its optimizer and, where these are asked for, a critic and a frozen reference."""

    def __init__(
        self,
        policy: Policy,
        *,
        reference: Policy | None,
        is_reference_given: bool = False,
        critic: Critic | None = None,
        algorithm: AlgorithmSpec,
        training: TrainingSpec,
        max_response_tokens: int,
        peers: Peers,
    ) -> None:
        """Train a loaded policy.

        ``is_reference_given`` says that batches bring the reference's words, which then needs not
        be here.
        """
        self.policy = policy
        self.optimizer = Optimizer(policy, learning_rate=training.learning_rate)
        self._reference = reference
        self._is_reference_given = is_reference_given
        self._critic = critic
        self._warm_up_steps = algorithm.critic.warm_up_steps if critic else 0
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
        self._is_near_behaviour = algorithm.proximal_policy is ProximalPolicy.BEHAVIOUR

    def restore(self, checkpoint: Checkpoint | None) -> None:
        """Go on from the leader's checkpoint, or from the beginning; others bring None."""
        state = checkpoint.optimizer if checkpoint else {}
        source = str(checkpoint.path) if checkpoint else ""
        if self._critic:
            start = len(_OF_CRITIC)
            found = {n[start:]: each for n, each in state.items() if n.startswith(_OF_CRITIC)}
            self._critic.restore(found, source=source)
        is_there = torch.tensor(bool(checkpoint))
        if not self.policy.share_with_all(is_there):
            self.policy.copy_from_first_replica()
            return
        weights = Optimizer.masters(state) or (checkpoint.weights if checkpoint else {})
        self.policy.load_weights(weights, source=source)
        self.optimizer.load_state(state)

    def state(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold beside the policy's files, a critic included.

        To the leader; others must ask as well, and get nothing.
        """
        critic = self._critic.state() if self._critic else {}
        return self.optimizer.state() | {_OF_CRITIC + name: each for name, each in critic.items()}

    def train(self, batch: Batch, *, version: int) -> dict[str, float]:
        """Move the policy from ``version`` to the next; return figures for the step's report."""
        shares = [
            (rows, self._peers.shares(rows))
            for rows in minibatches(
                batch, count=self._algorithm.minibatches, seed=self._seed, version=version
            )
        ]
        targets = self._targets(batch, [parts for _, parts in shares])
        figures = torch.zeros(len(_FIGURES), device=self.policy.device)
        norms = []
        for rows, parts in shares:
            whole = Whole(
                num_tokens=batch.rows(rows).num_tokens,
                num_trajectories=len(rows),
                most_tokens=self._max_response_tokens,
            )
            if version >= self._warm_up_steps:
                figures += self._backward(self.policy.passes(batch, parts), targets, whole)
                norms.append(self.optimizer.step(version=version - self._warm_up_steps))
            if self._critic and targets.valuation:
                self._critic.step(batch, parts, whole, targets.valuation, version=version)
        found = self._figures(figures, norms, version=version) if norms else {}
        if self._critic and targets.valuation:
            found |= self._critic.report(batch, targets.valuation, version=version)
        return found

    def _figures(self, sums: Tensor, norms: list[float], *, version: int) -> dict[str, float]:
        """Return the minibatches' figures, from this process's share of their sums."""
        self._peers.add_up([sums])
        return {
            **dict(zip(_FIGURES, (sums / len(norms)).tolist(), strict=True)),
            "gradient_norm": sum(norms) / len(norms),
            "learning_rate": self.optimizer.learning_rate(version - self._warm_up_steps),
        }

    def _targets(self, batch: Batch, shares: list[list[Tensor]]) -> _Targets:
        """Price the batch before the first minibatch moves the policy."""
        parts = [torch.cat(each) for each in zip(*shares, strict=True)]
        reference_BR = self._reference_log_probs(batch, parts)
        proximal_BR = None
        charged_BR = torch.zeros_like(batch.behaviour_BR)
        charges_reward = reference_BR is not None and self._charges(KlPlacement.REWARD)
        if charges_reward or (len(shares) > 1 and not self._is_near_behaviour):
            proximal_BR = self._log_probs(self.policy, batch, parts)
        if charges_reward and proximal_BR is not None and reference_BR is not None:
            charged_BR = self._charged(batch, proximal_BR - reference_BR)
        valuation = None
        if self._critic:
            rewards_BR = rewards_at_the_end(batch.rewards_B, batch.mask_BR) - charged_BR
            valuation = self._critic.value(batch, parts, rewards_BR=rewards_BR)
            advantages_BR = valuation.advantages_BR
        else:
            rewards_B = batch.rewards_B - summed(charged_BR, batch.mask_BR)
            advantages_B = group_advantages(rewards_B, batch.groups_B, self._algorithm.advantage)
            advantages_BR = advantages_B[:, None].expand_as(batch.behaviour_BR)
        return _Targets(
            proximal_BR=batch.behaviour_BR if self._is_near_behaviour else proximal_BR,
            reference_BR=reference_BR,
            advantages_BR=advantages_BR,
            valuation=valuation,
        )

    def _charged(self, batch: Batch, strayed_BR: Tensor) -> Tensor:
        """Return what each token's reward loses for straying from the reference, of all rows."""
        found_BR = strayed_BR.masked_fill(~batch.mask_BR, 0.0)
        if not self.policy.place.speaks:
            found_BR = torch.zeros_like(found_BR)
        # Rows of other replicas are zero here, and advantages are of the whole batch.
        self._peers.add_up([found_BR])
        return self._algorithm.kl_coefficient * found_BR

    def _charges(self, placement: KlPlacement) -> bool:
        return self._algorithm.kl_placement is placement

    def _backward(self, passes: list[Pass], targets: _Targets, whole: Whole) -> Tensor:
        """Make a minibatch's gradient; return this process's share of the figures."""
        figures = torch.zeros(len(_FIGURES), device=self.policy.device)

        def loss_of(each: Pass, scores: TokenScores) -> Tensor:
            nonlocal figures
            loss, means = self._loss(each, scores, targets, whole)
            figures += torch.stack([loss.detach(), *means])
            return loss

        self.policy.backward(passes, loss_of)
        return figures if self.policy.place.speaks else torch.zeros_like(figures)

    def _loss(
        self, each: Pass, scores: TokenScores, targets: _Targets, whole: Whole
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
        if self._charges(KlPlacement.LOSS):
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
        means = [masked_mean(value, mask_BR, num_tokens=whole.num_tokens) for value in values]
        return (weights_BR * loss_BR).sum(), means

    def _reference_log_probs(self, batch: Batch, parts: list[Tensor]) -> Tensor | None:
        """Return the reference's log-probabilities, as ``_log_probs`` does; None: of no use."""
        if self._reference:
            return self._log_probs(self._reference, batch, parts)
        if not self._is_reference_given:
            return None
        mine = parts[self.policy.place.replica]
        found_BR = torch.zeros_like(batch.reference_BR)
        found_BR[mine] = batch.reference_BR[mine]
        return found_BR

    def _log_probs(self, policy: Policy, batch: Batch, parts: list[Tensor]) -> Tensor:
        """Return the log-probabilities ``(B, R)`` of this replica's rows; the others stay zero.

        All stay zero but on last stages, where losses are computed.
        """
        scored = policy.score(policy.passes(batch, parts))
        return by_row(((each, scores.log_probs_BR) for each, scores in scored), batch)
