"""One version's training: from a batch to moved models, the same on every rank.

No I/O: the loop fetches batches and publishes weights. ``actor`` and ``critic`` update the models.
A process has a part of one of these, or of both, and gets the values of the other from its peers:
all that a step needs of the whole batch is summed over processes, in the same order on each.
"""

# ruff: noqa: N803, N806  # shape suffixes, as in ``batch``

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from hetrl_core.job.algorithm import AlgorithmSpec, AlgorithmType, KlPlacement, ProximalPolicy
from hetrl_core.job.spec import TrainingSpec
from hetrl_runtime.trainer.actor import ACTOR_FIGURES, Actor, Targets
from hetrl_runtime.trainer.batch import Batch, minibatches
from hetrl_runtime.trainer.checkpoints.checkpoint import Checkpoint
from hetrl_runtime.trainer.critic import CRITIC_FIGURES, Critic, peak_rate
from hetrl_runtime.trainer.guards.engine_match import Comparison, Limit
from hetrl_runtime.trainer.guards.not_finite import Skipped
from hetrl_runtime.trainer.guards.step_guard import StepGuard
from hetrl_runtime.trainer.losses.advantage import group_advantages
from hetrl_runtime.trainer.losses.gae import rewards_at_the_end
from hetrl_runtime.trainer.losses.policy_loss import Whole, summed
from hetrl_runtime.trainer.losses.valuation import Valuation, valued
from hetrl_runtime.trainer.minibatch_metrics import means
from hetrl_runtime.trainer.model.model import Policy, TrainedModel
from hetrl_runtime.trainer.model.optimizer import learning_rate_at
from hetrl_runtime.trainer.processes.peers import Peers

_OF_CRITIC = "critic/"
"""Before the names of its tensors in a checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What a version's training came to, the same on every rank."""

    figures: Mapping[str, float]
    """Of the optimizer steps that were made, for the step's report; all finite."""

    skipped: tuple[Skipped, ...] = ()
    """Optimizer steps that were not made; with ``Source.WEIGHTS``, one that spoiled the weights."""

    comparison: Comparison = field(default_factory=Comparison)
    has_moved: bool = True
    """Whether the policy is another than before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Minibatch:
    rows: Tensor
    parts: list[Tensor]
    """Every replica's part of the rows."""

    whole: Whole


class Learner:
    """What this process trains, and where it is asked for a frozen reference."""

    def __init__(
        self,
        *,
        actor: Actor | None,
        critic: Critic | None = None,
        reference: Policy | None = None,
        is_reference_given: bool = False,
        algorithm: AlgorithmSpec,
        training: TrainingSpec,
        max_response_tokens: int,
        peers: Peers,
    ) -> None:
        """Train loaded models.

        ``is_reference_given`` says that batches bring the reference's words, which then needs not
        be anywhere.
        """
        self.actor = actor
        self.critic = critic
        self._reference = reference
        self._is_reference_given = is_reference_given
        self._has_reference = (
            bool(reference)
            or is_reference_given
            or (peers.gang.is_apart and algorithm.kl_coefficient > 0)
        )
        self._has_critic = algorithm.type is AlgorithmType.PPO
        self._warm_up_steps = algorithm.critic.warm_up_steps if self._has_critic else 0
        self._algorithm = algorithm
        self._training = training
        self._max_response_tokens = max_response_tokens
        self._peers = peers
        self._guard = StepGuard(peers)
        self._is_near_behaviour = algorithm.proximal_policy is ProximalPolicy.BEHAVIOUR

    @property
    def match_limit(self) -> Limit:
        """How far an engine's log-probabilities may be from the policy's."""
        is_exact = self.actor is not None and self.actor.policy.is_exact
        return Limit.FLOAT32 if is_exact else Limit.BFLOAT16

    def restore(self, checkpoint: Checkpoint | None) -> None:
        """Go on from the leader's checkpoint, or from the beginning; others bring None."""
        state = checkpoint.optimizer if checkpoint else {}
        source = str(checkpoint.path) if checkpoint else "the leader's checkpoint"
        start = len(_OF_CRITIC)
        found: Mapping[str, Tensor] = {
            name[start:]: each for name, each in state.items() if name.startswith(_OF_CRITIC)
        }
        if self._has_critic:
            found = self._peers.from_leader(found)
        if self.critic:
            self.critic.restore(found, source=source)
        if self.actor:
            self.actor.restore(state, checkpoint.weights if checkpoint else {}, source)

    def state(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold in addition to the policy's files, a critic included.

        Every process must call it; only the leader gets the result.
        """
        found = self.actor.state() if self.actor else {}
        if not self._has_critic:
            return found
        mine = self.critic.state() if self.critic else {}
        named = {_OF_CRITIC + name: each for name, each in self._peers.to_leader(mine).items()}
        return found | named

    def weights(self) -> memoryview:
        """Return the policy's weights as ``Policy.to_safetensors`` does; nothing where it is not.

        For the leader; the other processes must call it as well.
        """
        return self.actor.policy.to_safetensors() if self.actor else memoryview(b"")

    def save_policy(self, folder: Path, weights: memoryview) -> None:
        """Write a folder that any engine loads, of what ``weights`` returned; for the leader."""
        if self.actor:
            self.actor.policy.save(folder, weights=weights)

    # consumes: one batch   waits for: the slowest process, at every sum   unblocks: the loop
    def train(self, batch: Batch, *, version: int) -> Trained:
        """Move the models from ``version`` to the next, by each minibatch whose numbers are finite.

        A minibatch moves all models on all processes, or none on any.
        """
        shares = self._minibatches(batch, version)
        targets, valuation = self._compute_targets(batch, [each.parts for each in shares])
        if bad := self._guard.targets(batch, targets.advantages_BR, valuation):
            return Trained(figures={}, skipped=(bad,), has_moved=False)
        steps = [self._step(batch, each, targets, valuation, version=version) for each in shares]
        num_made = steps.count(None)
        comparison = self._guard.compared(self.actor)
        figures = self._figures(batch, valuation, num_made, version) if num_made else {}
        return Trained(
            figures=figures | comparison.figures(),
            skipped=(*(each for each in steps if each), *self._guard.weights(self._models)),
            comparison=comparison,
            has_moved=num_made > 0 and version >= self._warm_up_steps,
        )

    def _minibatches(self, batch: Batch, version: int) -> list[_Minibatch]:
        seed = self._training.seed
        return [
            _Minibatch(
                rows=rows,
                parts=self._peers.shares(rows),
                whole=Whole(
                    num_tokens=batch.rows(rows).num_tokens,
                    num_trajectories=len(rows),
                    most_tokens=self._max_response_tokens,
                ),
            )
            for rows in minibatches(
                batch, count=self._algorithm.minibatches, seed=seed, version=version
            )
        ]

    def _step(
        self,
        batch: Batch,
        some: _Minibatch,
        targets: Targets,
        valuation: Valuation | None,
        *,
        version: int,
    ) -> Skipped | None:
        """Move along a minibatch's gradients, or nowhere if any process's are not finite."""
        actor = self.actor if version >= self._warm_up_steps else None
        critic = self.critic if valuation else None
        by_actor = actor.backward(batch, some.parts, some.whole, targets) if actor else None
        by_critic = (
            critic.backward(batch, some.parts, some.whole, valuation)
            if critic and valuation
            else None
        )
        source = self._guard.gradients(by_actor, by_critic)
        if actor and by_actor:
            actor.step(by_actor, version=version - self._warm_up_steps, is_skipped=bool(source))
        if critic and by_critic:
            critic.step(by_critic, version=version, is_skipped=bool(source))
        return Skipped(source=source, rows=tuple(some.rows.tolist())) if source else None

    @property
    def _models(self) -> list[TrainedModel]:
        found = (self.actor and self.actor.policy, self.critic and self.critic.model)
        return [each for each in found if each]

    def _figures(
        self, batch: Batch, valuation: Valuation | None, num_steps: int, version: int
    ) -> dict[str, float]:
        """Return the figures of the steps that were made."""
        found: dict[str, float] = {}
        if version >= self._warm_up_steps:
            found |= self._actor_metrics(num_steps, version)
        if valuation:
            found |= self._critic_metrics(num_steps, version) | valuation.figures(batch)
        # The coordinator takes finite ones; of huge rewards, squares are not.
        return {name: each for name, each in found.items() if math.isfinite(each)}

    def _compute_targets(
        self, batch: Batch, shares: list[list[Tensor]]
    ) -> tuple[Targets, Valuation | None]:
        """Compute the batch's targets before the first minibatch moves a model."""
        parts = [torch.cat(each) for each in zip(*shares, strict=True)]
        penalizes = self._has_reference and self._algorithm.kl_placement is KlPlacement.REWARD
        # Separate models score the batch at the same time, before any process waits for others.
        proximal_BR = None
        if self.actor and (penalizes or (len(shares) > 1 and not self._is_near_behaviour)):
            proximal_BR = self.actor.policy.log_probs(batch, parts)
        zeros_BR = torch.zeros_like(batch.behaviour_BR)
        by_reference_BR = self._reference.log_probs(batch, parts) if self._reference else zeros_BR
        by_critic_BR = self.critic.values(batch, parts) if self.critic else zeros_BR

        reference_BR = self._reference_log_probs(batch, parts, by_reference_BR)
        kl_penalty_BR = self._kl_penalty(batch, proximal_BR, reference_BR) if penalizes else None
        valuation = (
            self._valuation(batch, by_critic_BR, kl_penalty_BR) if self._has_critic else None
        )
        targets = Targets(
            proximal_BR=batch.behaviour_BR if self._is_near_behaviour else proximal_BR,
            reference_BR=reference_BR,
            advantages_BR=(
                valuation.advantages_BR
                if valuation
                else self._group_advantages(batch, kl_penalty_BR)
            ),
        )
        return targets, valuation

    def _reference_log_probs(
        self, batch: Batch, parts: list[Tensor], scores_BR: Tensor
    ) -> Tensor | None:
        """Return the reference's log-probabilities of this replica's rows; None: not needed."""
        if not self._has_reference:
            return None
        if self._is_reference_given:
            scores_BR = batch.reference_BR
        elif self._peers.gang.is_apart:
            # It is in the processes of the policy or of the critic; the others contribute zeros.
            scores_BR = self._peers.pooled(scores_BR)
        mine = parts[self._peers.place.replica]
        mine_BR = torch.zeros_like(scores_BR)
        mine_BR[mine] = scores_BR[mine]
        return mine_BR

    def _kl_penalty(
        self, batch: Batch, policy_BR: Tensor | None, reference_BR: Tensor | None
    ) -> Tensor:
        """Return the KL penalty on each token's reward, of all rows."""
        kl_BR = torch.zeros_like(batch.behaviour_BR)
        if policy_BR is not None and reference_BR is not None:
            kl_BR = (policy_BR - reference_BR).masked_fill(~batch.mask_BR, 0.0)
        # Rows of other replicas are zero here, and advantages are of the whole batch.
        return self._algorithm.kl_coefficient * self._peers.pooled(kl_BR)

    def _valuation(
        self, batch: Batch, values_BR: Tensor, kl_penalty_BR: Tensor | None
    ) -> Valuation:
        """Return returns and advantages of the whole batch from the critic's values."""
        rewards_BR = rewards_at_the_end(batch.rewards_B, batch.mask_BR)
        if kl_penalty_BR is not None:
            rewards_BR = rewards_BR - kl_penalty_BR
        return valued(
            batch,
            values_BR=self._peers.pooled(values_BR),
            rewards_BR=rewards_BR,
            critic=self._algorithm.critic,
        )

    def _group_advantages(self, batch: Batch, kl_penalty_BR: Tensor | None) -> Tensor:
        """Return advantages relative to the rewards of the same group."""
        rewards_B = batch.rewards_B
        if kl_penalty_BR is not None:
            rewards_B = rewards_B - summed(kl_penalty_BR, batch.mask_BR)
        advantages_B = group_advantages(rewards_B, batch.groups_B, self._algorithm.advantage)
        return advantages_B[:, None].expand_as(batch.behaviour_BR)

    def _actor_metrics(self, num_minibatches: int, version: int) -> dict[str, float]:
        """Return the metrics of the policy's minibatches, from all processes."""
        minibatch_metrics = self.actor.minibatch_metrics if self.actor else None
        found, norm = means(
            ACTOR_FIGURES, minibatch_metrics, self._peers, num_minibatches=num_minibatches
        )
        rate = learning_rate_at(version - self._warm_up_steps, peak=self._training.learning_rate)
        return {**found, "gradient_norm": norm, "learning_rate": rate}

    def _critic_metrics(self, num_minibatches: int, version: int) -> dict[str, float]:
        """Return the metrics of the critic's minibatches, from all processes."""
        minibatch_metrics = self.critic.minibatch_metrics if self.critic else None
        found, norm = means(
            CRITIC_FIGURES, minibatch_metrics, self._peers, num_minibatches=num_minibatches
        )
        rate = learning_rate_at(version, peak=peak_rate(self._algorithm.critic, self._training))
        return {**found, "critic_gradient_norm": norm, "critic_learning_rate": rate}
