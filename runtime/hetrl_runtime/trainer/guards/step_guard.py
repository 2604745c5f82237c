"""Measurements of a step on all processes, on which these agree before a model moves."""

# ruff: noqa: N803, N806  # shapes: B trajectories, R response positions

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from hetrl_runtime.trainer.actor import Actor
from hetrl_runtime.trainer.batch import Batch
from hetrl_runtime.trainer.guards.engine_match import Comparison
from hetrl_runtime.trainer.guards.not_finite import Skipped, Source
from hetrl_runtime.trainer.losses.valuation import Valuation
from hetrl_runtime.trainer.minibatch_metrics import MinibatchGradient
from hetrl_runtime.trainer.model.model import TrainedModel
from hetrl_runtime.trainer.processes.peers import Peers


class StepGuard:
    """Asks all processes of all models; every process must ask the same in the same order."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def targets(
        self, batch: Batch, advantages_BR: Tensor, valuation: Valuation | None
    ) -> Skipped | None:
        """Return why nothing can be learned of a batch, with the rows that are to blame."""
        bad_B = self._peers.any_of(~batch.rewards_B.isfinite())
        source = Source.REWARD
        if not bad_B.any():
            source = Source.ADVANTAGE
            targets_BR = advantages_BR + (valuation.returns_BR if valuation else 0.0)
            is_bad_BR = ~targets_BR.isfinite() & batch.mask_BR
            bad_B = self._peers.any_of(is_bad_BR.any(dim=1))
        rows = tuple(bad_B.nonzero().flatten().tolist())
        return Skipped(source=source, rows=rows) if rows else None

    def gradients(self, *made: MinibatchGradient | None) -> Source | None:
        """Return what of a minibatch is not finite on any process; None: all is."""
        mine = [each for each in made if each]
        flags = {
            Source.LOSS: not all(each.has_finite_loss for each in mine),
            Source.GRADIENT: not all(each.is_finite for each in mine),
        }
        raised = self._peers.any_of(torch.tensor(list(flags.values()))).tolist()
        return next((source for source, is_bad in zip(flags, raised, strict=True) if is_bad), None)

    def weights(self, models: Iterable[TrainedModel]) -> list[Skipped]:
        """Return a step that spoiled the weights of any process, if one did."""
        is_bad = any(each.first_not_finite() for each in models)
        raised = self._peers.any_of(torch.tensor([is_bad]))
        return [Skipped(source=Source.WEIGHTS)] if raised.any() else []

    def compared(self, actor: Actor | None) -> Comparison:
        """Return the comparison of this version's tokens with the engine."""
        mine = actor.take_comparison() if actor else torch.zeros(4, dtype=torch.float64)
        num_tokens, trainer, engine, difference = self._peers.pooled(mine).tolist()
        if not math.isfinite(difference):
            # Log-probabilities that are not finite make a loss that is not, which says so.
            return Comparison()
        return Comparison(
            num_tokens=round(num_tokens),
            trainer_nats=trainer,
            engine_nats=engine,
            difference_nats=difference,
        )
