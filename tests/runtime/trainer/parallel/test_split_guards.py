"""A gradient that is not finite on one of several real processes: none of them moves."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from hetrl_core.job.spec import ModelFiles
from hetrl_core.launch import Address, Launch
from hetrl_core.plan.pod_sets import Rank
from hetrl_core.plan.training_split import TrainingSplit
from hetrl_core.task import Task
from hetrl_runtime.trainer.batch import Batch
from hetrl_runtime.trainer.guards.not_finite import Skipped, Source
from hetrl_runtime.trainer.learner import Learner
from hetrl_runtime.trainer.loading import learner_of
from hetrl_runtime.trainer.model.model import TrainedModel
from hetrl_runtime.trainer.parallel.place import Place
from hetrl_runtime.trainer.parallel.tensors import local
from hetrl_runtime.trainer.processes.gang import Gang
from hetrl_runtime.trainer.processes.peers import Peers
from tests.runtime.launches import free_port
from tests.runtime.trainer.parallel.crew import CPU, Crew
from tests.runtime.trainer.parallel.test_split_critic import FULL, ranks_of
from tests.runtime.trainer.test_critic import a_launch
from tests.runtime.trainer.test_learner import a_batch, a_learner

pytestmark = pytest.mark.slow

IN_TWO = TrainingSplit(shares=(3, 1), mode=FULL)


def train_with_one_spoiled(
    rank: Rank, launch: Launch, batch: Batch
) -> list[tuple[tuple[Skipped, ...], bool]]:
    """Train a version for each process whose gradient is spoiled, and two for none.

    Return of each what was skipped, and whether weights of this process moved.
    """
    torch.set_num_threads(1)
    gang = Gang.of(launch, trains_critic_apart=rank.task is Task.CRITIC_TRAINING)
    peers = Peers(launch, place=Place.of(rank, gang.split), device=CPU, gang=gang)
    learner = learner_of(launch, rank, peers, device=CPU)
    found = []
    with peers:
        learner.restore(None)
        for version in range(gang.num_ranks + 2):
            before = weights_of(model_of(learner))
            with pytest.MonkeyPatch.context() as patch:
                if version == peers.rank:
                    spoil_gradient(patch, model_of(learner))
                trained = learner.train(batch, version=version)
            after = weights_of(model_of(learner))
            found.append((trained.skipped, not torch.equal(after, before)))
    return found


def spoil_gradient(patch: pytest.MonkeyPatch, model: TrainedModel) -> None:
    """Make one number of this process's gradient none, before processes add theirs up."""
    backward = model._runner.backward

    def spoiled(*arguments: Any) -> None:
        backward(*arguments)
        gradients = [each.grad for each in model.stage.parameters() if each.grad is not None]
        next(local(each) for each in gradients if local(each).numel()).view(-1)[0] = math.nan

    patch.setattr(model._runner, "backward", spoiled)


def weights_of(model: TrainedModel) -> torch.Tensor:
    mine = [local(each.detach()).flatten() for each in model.named_parameters().values()]
    return torch.cat(mine)


def model_of(learner: Learner) -> TrainedModel:
    if learner.actor:
        return learner.actor.policy
    assert learner.critic
    return learner.critic.model


@pytest.mark.parametrize(
    "splits",
    [
        pytest.param(
            (TrainingSplit(tensor=2), TrainingSplit(stage_layers=(2, 1))), id="tp2, critic pp2"
        ),
        pytest.param((IN_TWO, IN_TWO), id="dp2 all sharded, critic likewise"),
    ],
)
def test_gradient_not_finite_on_one_rank_moves_no_other(
    crew: Crew, tiny_model: ModelFiles, splits: tuple[TrainingSplit, TrainingSplit]
) -> None:
    launch: Any = a_launch(tiny_model)
    batch = a_batch(a_learner(launch))
    launch = replace(
        launch,
        ranks=tuple(
            each
            for each in ranks_of(splits, Task.ACTOR_TRAINING)
            if each.task is not Task.REFERENCE_INFERENCE
        ),
        training_split=splits[0],
        critic_split=splits[1],
        rendezvous=Address(host="127.0.0.1", port=free_port()),
    )

    by_rank = crew.do(train_with_one_spoiled, [(rank, launch, batch) for rank in launch.ranks])

    for found in by_rank:
        # The critic's head of zeros lets no gradient through in the first step that is made.
        *spoiled, _, (good, has_moved) = found
        assert len(spoiled) == 4
        for skipped, moved in spoiled:
            assert [each.source for each in skipped] == [Source.GRADIENT]
            assert not moved
        assert (good, has_moved) == ((), True)
