"""The critic: a value for every token, and its training.

It is a model of its own, initialized with the policy's layers and a head of zeros. It is trained in
the policy's processes, split as the policy is, or in processes of its own. ``valuation`` computes
returns and advantages from its values; the learner chooses batch and minibatches.
"""

# ruff: noqa: N803, N806  # shapes: B trajectories, R response positions

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from hetrl_core.job.algorithm import AlgorithmSpec, CriticSpec
from hetrl_core.job.spec import TrainingSpec
from hetrl_runtime.trainer.batch import Batch
from hetrl_runtime.trainer.losses.policy_loss import Whole, masked_mean, token_weights
from hetrl_runtime.trainer.losses.valuation import Valuation
from hetrl_runtime.trainer.losses.value_loss import clipped_value_loss
from hetrl_runtime.trainer.minibatch_metrics import MinibatchGradient, MinibatchMetrics
from hetrl_runtime.trainer.model.model import TrainedModel
from hetrl_runtime.trainer.model.optimizer import Optimizer
from hetrl_runtime.trainer.parallel.passes import Pass, by_row
from hetrl_runtime.trainer.parallel.stage import Stage
from hetrl_runtime.trainer.parallel.value_stage import ValueStage

CRITIC_FIGURES = ("value_loss", "value_clip_fraction")


class ValueModel(TrainedModel):
    """A causal LM that says what is still to come, before every sampled token."""

    STAGE: ClassVar[type[Stage]] = ValueStage

    def values(self, passes: Sequence[Pass]) -> Iterator[tuple[Pass, Tensor]]:
        """Yield each pass's values ``(B, R)``, without gradients; nothing but on last stages.

        All of it must be taken before anything else is asked of the model.
        """
        for each, (values_BR,) in self._forward(passes):
            yield each, values_BR

    def backward(self, passes: Sequence[Pass], loss: Callable[[Pass, Tensor], Tensor]) -> None:
        """Make the gradient of the sum of all passes' losses, over all replicas.

        ``loss`` is asked on last stages only.
        """
        self._backward(passes, lambda each, scores: loss(each, scores[0]))


def peak_rate(critic: CriticSpec, training: TrainingSpec) -> float:
    """Return the critic's learning rate once it has risen: the policy's, unless it has its own."""
    return training.learning_rate if critic.learning_rate is None else critic.learning_rate


class Critic:
    """The model, its optimizer, and its part of a step."""

    def __init__(
        self, model: ValueModel, *, algorithm: AlgorithmSpec, training: TrainingSpec
    ) -> None:
        self.model = model
        self.optimizer = Optimizer(model, learning_rate=peak_rate(algorithm.critic, training))
        self._spec = algorithm.critic
        self._aggregation = algorithm.loss_aggregation
        self.minibatch_metrics = MinibatchMetrics(CRITIC_FIGURES)

    def state(self) -> dict[str, Tensor]:
        """Return all that a checkpoint must hold: weights in float32, and the optimizer's state.

        Every process must call it; only the leader gets the result.
        """
        parameters = self.model.named_parameters().items()
        weights = self.model.gather({name: each.detach() for name, each in parameters})
        return weights | self.optimizer.state()

    def restore(self, state: Mapping[str, Tensor], *, source: str) -> None:
        """Go on from what ``state`` returned to the leader; with nothing, from the beginning.

        Raises:
            ModelError: it is another model's; ``source`` is named.
        """
        if not self.model.share_with_all(torch.tensor(bool(state))):
            self.model.copy_from_first_replica()
            return
        names = self.model.exchange.wholes
        weights = {name: each for name, each in state.items() if name in names}
        self.model.load_weights(weights, source=source)
        self.optimizer.load_state(state)

    def values(self, batch: Batch, parts: list[Tensor]) -> Tensor:
        """Say what to expect of every token ``(B, R)`` of this replica's rows; others stay zero.

        ``parts`` are each replica's rows of the batch. All stay zero but on last stages.
        """
        return by_row(self.model.values(self.model.passes(batch, parts)), batch)

    def backward(
        self, batch: Batch, parts: list[Tensor], whole: Whole, valuation: Valuation
    ) -> MinibatchGradient:
        """Make a minibatch's gradient towards its returns."""
        found = torch.zeros(len(CRITIC_FIGURES), device=self.model.device)

        def loss_of(each: Pass, values_BR: Tensor) -> Tensor:
            nonlocal found
            loss, clip_fraction = self._loss(each, values_BR, valuation, whole)
            found += torch.stack([loss.detach(), clip_fraction])
            return loss

        self.model.backward(self.model.passes(batch, parts), loss_of)
        return MinibatchGradient(figures=found.cpu(), norm=self.model.gradient_norm())

    def step(self, gradient: MinibatchGradient, *, version: int, is_skipped: bool) -> None:
        """Move along a minibatch's gradient, or forget it."""
        if is_skipped:
            self.optimizer.skip()
            return
        self.optimizer.step(gradient.norm, version=version)
        self.minibatch_metrics.add(gradient)

    def _loss(
        self, each: Pass, values_BR: Tensor, valuation: Valuation, whole: Whole
    ) -> tuple[Tensor, Tensor]:
        """Return a pass's share of the loss, and of the share of tokens that clipping held."""
        mask_BR = each.batch.mask_BR.to(self.model.device)
        rows, width = each.rows, each.batch.num_response_positions
        found = clipped_value_loss(
            values_BR,
            old_BR=valuation.values_BR[rows, :width].to(self.model.device),
            returns_BR=valuation.returns_BR[rows, :width].to(self.model.device),
            mask_BR=mask_BR,
            clip=self._spec.value_clip,
        )
        weights_BR = token_weights(mask_BR, whole, self._aggregation)
        clipped = masked_mean(found.is_clipped_BR.float(), mask_BR, num_tokens=whole.num_tokens)
        return (weights_BR * found.losses_BR).sum(), clipped
