"""A critic on up to four real processes over gloo, beside the same critic on one."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
import torch.distributed as dist

from hetrl_core.job.algorithm import KlPlacement
from hetrl_core.job.spec import ModelFiles
from hetrl_core.launch import Address, Launch
from hetrl_core.plan.pod_sets import Rank
from hetrl_core.plan.training_split import TrainingSplit
from hetrl_core.task import Task
from hetrl_runtime.trainer.batch import Batch
from hetrl_runtime.trainer.checkpoints.checkpoint import Checkpoint
from hetrl_runtime.trainer.critic import ValueModel
from hetrl_runtime.trainer.learner import Learner
from hetrl_runtime.trainer.loading import learner_of
from hetrl_runtime.trainer.losses.value_loss import clipped_value_loss
from hetrl_runtime.trainer.parallel.mesh import Mesh
from hetrl_runtime.trainer.parallel.passes import Pass, by_row, cut
from hetrl_runtime.trainer.parallel.place import Place, dealt
from hetrl_runtime.trainer.processes.gang import Gang
from hetrl_runtime.trainer.processes.peers import Order, Peers
from hetrl_runtime.wire.values import ResumePoint
from tests.runtime.launches import free_port
from tests.runtime.trainer.parallel.crew import CPU, Crew
from tests.runtime.trainer.parallel.gradients import MAX_TOKENS
from tests.runtime.trainer.parallel.test_split_model import FULL, SPLITS, a_batch
from tests.runtime.trainer.test_critic import a_launch, critic_of, critic_weights
from tests.runtime.trainer.test_learner import a_batch as a_scored_batch
from tests.runtime.trainer.test_learner import a_learner, assert_same_step, policy_of, weights

CRITIC_SPLITS = (
    "dp2 uneven",
    "dp2 uneven, optimizer sharded",
    "tp2 pp2",
    "dp2 tp2, all sharded, a replica without rows",
)
"""Every axis once; what a head of one number changes is the same in the others."""

pytestmark = pytest.mark.slow


def found_by(mesh: Mesh | None, files: ModelFiles) -> tuple[dict[str, Any], float, Any]:
    """Return the full gradients of a value loss, their norm, and the values of every row."""
    model = ValueModel(files, device=CPU, mesh=mesh)
    state = model.gather({name: each.detach() for name, each in model.named_parameters().items()})
    if state:
        # A head of zeros would let no gradient through.
        size = state["score.weight"].numel()
        state["score.weight"] = torch.linspace(-1, 1, size).reshape(1, size)
    model.load_weights(state, source="the test")
    batch, place = a_batch(), model.place
    parts = dealt(torch.arange(len(batch)), place.split.shares)
    passes = cut(batch, parts, place.replica, split=place.split, max_tokens=MAX_TOKENS)
    values = by_row(model.values(passes), batch)
    if not place.speaks:
        values = torch.zeros_like(values)
    if mesh:
        dist.all_reduce(values)
    returns = torch.linspace(-1, 2, batch.mask_BR.numel()).reshape(batch.mask_BR.shape)

    def loss(each: Pass, said: torch.Tensor) -> torch.Tensor:
        rows, width = each.rows, each.batch.num_response_positions
        found = clipped_value_loss(
            said,
            old_BR=values[rows, :width] + 0.1,
            returns_BR=returns[rows, :width],
            mask_BR=each.batch.mask_BR,
            clip=0.2,
        )
        return found.losses_BR.sum() / 16

    model.backward(passes, loss)
    norm = float(model.gradient_norm())
    gradients = model.gather({name: each.grad for name, each in model.named_parameters().items()})
    # As arrays: tensors would come back through shared memory, which is not always there.
    return {name: each.numpy() for name, each in gradients.items()}, norm, values.numpy()


@pytest.mark.parametrize(
    ("name", "family"),
    [
        pytest.param(name, ("qwen3", "llama")[number % 2], id=name)
        for number, name in enumerate(CRITIC_SPLITS)
    ],
)
def test_split_critic_values_and_gradients_match_one_process(
    crew: Crew, models: dict[str, ModelFiles], name: str, family: str
) -> None:
    files = models[family]

    gradients, norm, values = crew.run(found_by, SPLITS[name], files)[0]

    expected, expected_norm, expected_values = found_by(None, files)
    mask = a_batch().mask_BR.numpy()
    assert np.abs(values - expected_values)[mask].max() < 1e-5
    assert gradients.keys() == expected.keys()
    assert "score.weight" in gradients
    for parameter, gradient in gradients.items():
        assert np.abs(gradient - expected[parameter]).max() < 1e-5
    assert norm == pytest.approx(expected_norm, rel=1e-5)


def trained_as_ordered(learner: Learner, peers: Peers, order: Order) -> dict[str, float]:
    """Train what the leader gives, as the loop does it; ``order`` is the leader's."""
    if peers.rank == 0:
        peers.give(order)
    else:
        order = peers.await_order()
    assert order.batch
    return learner.train(order.batch, version=order.version).figures


def train_as_rank(rank: int, launch: Launch, batch: Batch) -> tuple[Any, Any, dict[str, float]]:
    """What one replica does, as the loop does it; both return weights, and the last figures."""
    torch.set_num_threads(1)
    learner = a_learner(launch, rank=rank, has_reference=bool(launch.algorithm.kl_coefficient))
    figures: dict[str, float] = {}
    with learner._peers as peers:
        learner.restore(None)
        for version in (10, 11):
            figures = trained_as_ordered(learner, peers, Order(version=version, batch=batch))
        if rank == 0:
            peers.give(Order(version=12, batch=None))
        else:
            assert peers.await_order().batch is None
    return weights(learner).numpy(), critic_weights(learner).numpy(), figures


def test_two_replicas_train_policy_and_critic_as_one_does(
    crew: Crew, tiny_model: ModelFiles
) -> None:
    algorithm: dict[str, Any] = {
        "minibatches": 3,
        "kl_coefficient": 0.1,
        "kl_placement": KlPlacement.REWARD,
        "critic": {"learning_rate": 3e-4},
    }
    alone = a_learner(a_launch(tiny_model, **algorithm), has_reference=True)
    before, batch = (weights(alone), critic_weights(alone)), a_scored_batch(alone)
    for version in (10, 11):
        expected = alone.train(batch, version=version).figures
    launch = replace(
        a_launch(tiny_model, replicas=2, **algorithm),
        rendezvous=Address(host="127.0.0.1", port=free_port()),
    )

    both = crew.do(train_as_rank, [(0, launch, batch), (1, launch, batch)])

    (policy, critic, figures), (other_policy, other_critic, other_figures) = both
    assert np.array_equal(policy, other_policy)
    assert np.array_equal(critic, other_critic)
    assert figures == other_figures
    assert figures == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert_same_step(torch.from_numpy(policy), weights(alone), before=before[0])
    assert_same_step(torch.from_numpy(critic), critic_weights(alone), before=before[1])


UNDIVIDED, IN_TWO = TrainingSplit(), TrainingSplit(shares=(3, 1))
APART = {
    "both undivided, reference beside critic": ((UNDIVIDED, UNDIVIDED), Task.CRITIC_TRAINING),
    "policy dp2 uneven, reference beside it": ((IN_TWO, UNDIVIDED), Task.ACTOR_TRAINING),
    "critic dp2 uneven, reference beside it": ((UNDIVIDED, IN_TWO), Task.CRITIC_TRAINING),
    "policy tp2, critic pp2": (
        (TrainingSplit(tensor=2), TrainingSplit(stage_layers=(2, 1))),
        Task.ACTOR_TRAINING,
    ),
    "policy pp2 all sharded, critic tp2, reference beside it": (
        (TrainingSplit(stage_layers=(1, 2), mode=FULL), TrainingSplit(tensor=2)),
        Task.CRITIC_TRAINING,
    ),
}
"""How policy and critic are split, and which of them has the reference beside it."""


def ranks_of(splits: tuple[TrainingSplit, TrainingSplit], reference_with: Task) -> tuple[Rank, ...]:
    """Return a rank table, a pod set for each model, as if they had one pod for each process."""
    found = []
    tasks = (Task.ACTOR_TRAINING, Task.CRITIC_TRAINING)
    places = [
        (task, *place)
        for split, task in zip(splits, tasks, strict=True)
        for place in product(
            range(split.num_replicas), range(split.num_stages), range(split.tensor)
        )
    ]
    for ordinal, (task, replica, stage, tensor_rank) in enumerate(places):
        beside = (Task.REFERENCE_INFERENCE,) if task is reference_with else ()
        found += [
            Rank(
                ordinal=ordinal,
                local_gpu=0,
                task=each,
                replica=replica,
                stage=stage,
                tensor_rank=tensor_rank,
            )
            for each in (task, *beside)
        ]
    return tuple(found)


def train_apart(rank: Rank, launch: Launch, batch: Batch) -> tuple[Any, dict[str, float]]:
    """What a process of either model does; the leader returns what it would keep, and figures."""
    torch.set_num_threads(1)
    gang = Gang.of(launch, trains_critic_apart=rank.task is Task.CRITIC_TRAINING)
    peers = Peers(launch, place=Place.of(rank, gang.split), device=CPU, gang=gang)
    learner = learner_of(launch, rank, peers, device=CPU)
    figures: dict[str, float] = {}
    kept: dict[str, Any] = {}
    with peers:
        learner.restore(None)
        for version in (10, 11):
            figures = trained_as_ordered(learner, peers, Order(version=version, batch=batch))
            if version == 10:
                # Between the two, all of it is kept, lost and restored.
                state, saved = learner.state(), learner.weights()
                learner.restore(checkpoint_of(state, saved) if peers.rank == 0 else None)
        kept = {name: each.numpy() for name, each in learner.state().items()}
        kept["weights"] = bytes(learner.weights())
    return kept if peers.rank == 0 else None, figures


def checkpoint_of(state: dict[str, torch.Tensor], weights: memoryview) -> Checkpoint:
    return Checkpoint(
        path=Path("step-1"),
        resume=ResumePoint(version=1),
        weights=safetensors.torch.load(bytes(weights)),
        optimizer=state,
    )


@pytest.mark.parametrize("name", APART)
def test_critic_apart_trains_as_one_beside_its_policy(
    crew: Crew, tiny_model: ModelFiles, name: str
) -> None:
    splits, reference_with = APART[name]
    algorithm: dict[str, Any] = {
        "minibatches": 3,
        "kl_coefficient": 0.1,
        "kl_placement": KlPlacement.REWARD,
        "critic": {"learning_rate": 3e-4},
    }
    alone = a_learner(a_launch(tiny_model, **algorithm), has_reference=True)
    models = policy_of(alone), critic_of(alone).model
    before, batch = [flat(each.named_parameters()) for each in models], a_scored_batch(alone)
    for version in (10, 11):
        expected = alone.train(batch, version=version).figures
    launch = replace(
        a_launch(tiny_model, **algorithm),
        ranks=ranks_of(splits, reference_with),
        training_split=splits[0],
        critic_split=splits[1],
        rendezvous=Address(host="127.0.0.1", port=free_port()),
    )
    trained = [each for each in launch.ranks if each.task is not Task.REFERENCE_INFERENCE]

    (kept, figures), *_ = crew.do(train_apart, [(rank, launch, batch) for rank in trained])

    assert figures == pytest.approx(expected, rel=1e-3, abs=1e-5)
    policy = safetensors.torch.load(kept.pop("weights"))
    assert kept.keys() == alone.state().keys()
    critic = {
        name: torch.from_numpy(kept[f"critic/{name}"]) for name in models[1].named_parameters()
    }
    for mine, model, was in zip((policy, critic), models, before, strict=True):
        assert mine.keys() == model.named_parameters().keys()
        assert_same_step(flat(mine), flat(model.named_parameters()), before=was)


def flat(tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensors[name].detach().flatten() for name in sorted(tensors)])
