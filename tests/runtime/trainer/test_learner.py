import math
import multiprocessing
import socket
import threading
from dataclasses import replace
from multiprocessing.pool import Pool
from pathlib import Path

import pytest
import torch
from prometheus_client import CollectorRegistry

from hetrl_core.job.algorithm import (
    Advantage,
    AlgorithmSpec,
    AlgorithmType,
    KlPlacement,
    LossAggregation,
    ProximalPolicy,
)
from hetrl_core.job.spec import DataSpec, Engine, ModelFiles, TrainingSpec
from hetrl_core.launch import Address, JobIdentity, Launch
from hetrl_core.plan.training_split import TrainingSplit
from hetrl_core.task import Role, Task
from hetrl_runtime.metrics.trainer import TrainerMetrics
from hetrl_runtime.trainer.actor import Actor
from hetrl_runtime.trainer.batch import Batch, collate
from hetrl_runtime.trainer.checkpoints.checkpoint import CheckpointFolder
from hetrl_runtime.trainer.checkpoints.writer import CheckpointWriter
from hetrl_runtime.trainer.critic import Critic, ValueModel
from hetrl_runtime.trainer.learner import Learner
from hetrl_runtime.trainer.model.model import Policy
from hetrl_runtime.trainer.parallel.place import Place
from hetrl_runtime.trainer.processes.peers import Order, Peers
from hetrl_runtime.wire.values import ResumePoint
from tests.runtime.trainer.exact import multiply_exactly
from tests.runtime.trainer.scores import scores_of
from tests.runtime.trainer.trajectories import a_trajectory

CPU = torch.device("cpu")
HERE = Address(host="127.0.0.1", port=1)


def a_launch(files: ModelFiles, *, replicas: int = 1, **algorithm: object) -> Launch:
    return Launch(
        job=JobIdentity(namespace="default", name="job", uid="1"),
        pod_set="trainer",
        role=Role.TRAINER,
        training_split=TrainingSplit(shares=(1.0,) * replicas),
        coordinator=HERE,
        weights=HERE,
        rendezvous=HERE,
        model=files,
        engine=Engine.TRANSFORMERS,
        algorithm=AlgorithmSpec(group_size=2, global_batch_size=8, **algorithm),
        data=DataSpec(prompts=""),
        training=TrainingSpec(steps=4, learning_rate=1e-3),
        state_path="",
        checkpoint_path="",
        startup_deadline_seconds=60,
    )


def a_learner(
    launch: Launch, *, rank: int = 0, has_reference: bool = False, is_reference_given: bool = False
) -> Learner:
    peers = Peers(launch, place=Place(split=launch.training_split, replica=rank), device=CPU)
    policy, reference = (
        Policy(launch.model, device=CPU, temperature=1.0, mesh=peers.mesh) for _ in range(2)
    )
    return Learner(
        actor=Actor(policy, algorithm=launch.algorithm, training=launch.training),
        critic=a_critic(launch, peers) if launch.algorithm.type is AlgorithmType.PPO else None,
        reference=reference if has_reference else None,
        is_reference_given=is_reference_given,
        algorithm=launch.algorithm,
        training=launch.training,
        max_response_tokens=launch.data.max_response_tokens,
        peers=peers,
    )


def policy_of(learner: Learner) -> Policy:
    assert learner.actor
    return learner.actor.policy


def a_critic(launch: Launch, peers: Peers) -> Critic:
    return Critic(
        ValueModel(launch.model, device=CPU, mesh=peers.mesh),
        algorithm=launch.algorithm,
        training=launch.training,
    )


def a_batch(learner: Learner) -> Batch:
    """Groups of two, one right, of different lengths, scored by the policy as it is now."""
    trajectories = [
        a_trajectory(
            group=index // 2,
            member=index % 2,
            prompt=[10 + index] * (index + 1),
            response=[30 + index] * (1 + index % 3),
        )
        for index in range(8)
    ]
    batch = collate(trajectories, rewards=[float(index % 2) for index in range(8)])
    with torch.no_grad():
        return replace(batch, behaviour_BR=scores_of(policy_of(learner), batch).log_probs_BR)


def weights(learner: Learner) -> torch.Tensor:
    return torch.cat([each.detach().flatten() for each in policy_of(learner).model.parameters()])


def assert_same_step(one: torch.Tensor, other: torch.Tensor, *, before: torch.Tensor) -> None:
    # Adam moves a weight whose gradient is pure rounding as far as any other, so the two may
    # differ in some; not in where they go.
    assert (one - other).norm() < 0.02 * (one - before).norm()


def response_log_prob(learner: Learner, batch: Batch) -> torch.Tensor:
    with torch.no_grad():
        scores = scores_of(policy_of(learner), batch).log_probs_BR
    return scores.masked_fill(~batch.mask_BR, 0).sum(dim=1)


def test_step_makes_better_responses_likelier_and_worse_ones_rarer(tiny_model):
    learner = a_learner(a_launch(tiny_model))
    batch = a_batch(learner)
    before = response_log_prob(learner, batch)

    figures = learner.train(batch, version=10).figures

    change = response_log_prob(learner, batch) - before
    assert (change * (batch.rewards_B - 0.5) > 0).all()
    assert figures["behaviour_weight"] == pytest.approx(1, abs=1e-4)
    assert figures["behaviour_kl"] == pytest.approx(0, abs=1e-5)
    assert figures["gradient_norm"] > 0


def test_learning_rate_of_zero_moves_nothing(tiny_model):
    launch = a_launch(tiny_model)
    learner = a_learner(replace(launch, training=replace(launch.training, learning_rate=0.0)))
    before = weights(learner)

    learner.train(a_batch(learner), version=10)

    assert torch.equal(weights(learner), before)


def test_passes_of_a_minibatch_do_not_change_the_result(tiny_model, monkeypatch):
    whole, cut = a_learner(a_launch(tiny_model)), a_learner(a_launch(tiny_model))
    batch = a_batch(whole)

    before = weights(whole)

    in_one = whole.train(batch, version=10).figures
    monkeypatch.setattr(Policy, "max_tokens_per_pass", 12)
    in_parts = cut.train(batch, version=10).figures

    assert in_parts == pytest.approx(in_one, rel=1e-3, abs=1e-6)
    assert_same_step(weights(whole), weights(cut), before=before)


def test_kl_term_is_zero_at_reference_and_grows_with_distance(tiny_model):
    learner = a_learner(a_launch(tiny_model, kl_coefficient=0.1), has_reference=True)
    batch = a_batch(learner)

    first, second = (learner.train(batch, version=10).figures["reference_kl"] for _ in range(2))

    assert first == pytest.approx(0, abs=1e-5)
    assert second > first


@pytest.mark.slow
def test_kl_term_in_the_reward_makes_far_responses_rarer(tiny_model):
    algorithm = {
        "kl_coefficient": 1.0,
        "kl_placement": KlPlacement.REWARD,
        "advantage": Advantage.GROUP_CENTRED,
    }
    learner = a_learner(a_launch(tiny_model, **algorithm), has_reference=True)
    batch = a_batch(learner)
    for _ in range(3):
        learner.train(batch, version=10)
    same_rewards = replace(batch, rewards_B=torch.zeros(8))
    before = response_log_prob(learner, batch)
    untouched = response_log_prob(a_learner(a_launch(tiny_model)), batch)
    kl = before - untouched

    learner.train(same_rewards, version=10)

    change = response_log_prob(learner, batch) - before
    pairs = torch.arange(8).reshape(4, 2)
    farther = kl[pairs].argmax(dim=1)
    more, less = (change[pairs].gather(1, each[:, None]) for each in (farther, 1 - farther))
    assert (more < less).all()


def test_restored_learner_resumes_exactly(tiny_model, tmp_path):
    unbroken = a_learner(a_launch(tiny_model, minibatches=2))
    batch = a_batch(unbroken)
    unbroken.train(batch, version=0)
    folder = CheckpointFolder(tmp_path, keep_last=1)
    folder.write(
        ResumePoint(version=1),
        save_model=policy_of(unbroken).save,
        optimizer=unbroken.state(),
    )

    restored = a_learner(a_launch(tiny_model, minibatches=2))
    restored.restore(folder.newest())
    for each in (unbroken, restored):
        each.train(batch, version=1)

    assert torch.equal(weights(restored), weights(unbroken))


def test_checkpoint_written_during_training_is_unaffected_by_it(tiny_model, tmp_path):
    unbroken = a_learner(a_launch(tiny_model, minibatches=2))
    batch = a_batch(unbroken)
    unbroken.train(batch, version=0)
    folder = CheckpointFolder(tmp_path, keep_last=1)
    writer = CheckpointWriter(folder, TrainerMetrics(CollectorRegistry()))
    may_write, published = threading.Event(), policy_of(unbroken).to_safetensors()

    def save_model(path: Path) -> None:
        assert may_write.wait(60)
        policy_of(unbroken).save(path, weights=published)

    writer.begin(ResumePoint(version=1), save_model=save_model, state=unbroken.state)
    unbroken.train(batch, version=1)
    may_write.set()
    writer.finish()
    restored = a_learner(a_launch(tiny_model, minibatches=2))
    restored.restore(folder.newest())
    restored.train(batch, version=1)

    assert policy_of(restored).to_safetensors() == policy_of(unbroken).to_safetensors()


def train_as_rank(rank: int, launch: Launch, batch: Batch) -> torch.Tensor:
    """Train as one replica: the leader gives orders, the other follows; both return weights."""
    is_precomputed = Task.REFERENCE_INFERENCE in launch.inference_tasks
    has_reference = launch.algorithm.kl_coefficient > 0 and not is_precomputed
    learner = a_learner(
        launch, rank=rank, has_reference=has_reference, is_reference_given=is_precomputed
    )
    with learner._peers as peers:
        learner.restore(None)
        for version in (10, 11):
            if rank == 0:
                peers.give(Order(version=version, batch=batch))
                learner.train(batch, version=version)
            else:
                order = peers.await_order()
                learner.train(order.batch, version=order.version)
        if rank == 0:
            peers.give(Order(version=12, batch=None))
        else:
            assert peers.await_order().batch is None
    return weights(learner)


@pytest.mark.parametrize("kind", AlgorithmType)
@pytest.mark.parametrize("placement", KlPlacement)
@pytest.mark.slow
def test_remote_reference_makes_the_same_step_as_a_local_one(tiny_model, kind, placement):
    launch = a_launch(
        tiny_model, type=kind, kl_coefficient=0.1, kl_placement=placement, minibatches=2
    )
    here = a_learner(launch, has_reference=True)
    elsewhere = a_learner(launch, is_reference_given=True)
    batch = given_words(a_batch(here))

    # In the second step the policy has left its reference.
    for version in (10, 11):
        figures = [each.train(batch, version=version).figures for each in (here, elsewhere)]
        assert figures[0] == figures[1]
    assert figures[0]["reference_kl"] > 0
    assert torch.equal(weights(here), weights(elsewhere))


def given_words(batch: Batch) -> Batch:
    """Give a batch that was scored by a policy which has not moved its reference's words."""
    return replace(batch, reference_BR=batch.behaviour_BR)


IN_REWARD = {
    "kl_coefficient": 0.1,
    "kl_placement": KlPlacement.REWARD,
    "advantage": Advantage.LEAVE_ONE_OUT,
    "loss_aggregation": LossAggregation.SEQUENCE_MEAN,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "asked"),
    [
        pytest.param({}, (), id="by default"),
        pytest.param(IN_REWARD, (), id="a KL term in the reward, trajectories counting alike"),
        pytest.param(
            IN_REWARD, (Task.REFERENCE_INFERENCE,), id="the reference's words, from elsewhere"
        ),
    ],
)
def test_two_replicas_make_the_same_steps_as_one(tiny_model, algorithm, asked):
    has_reference = "kl_coefficient" in algorithm
    alone = a_learner(a_launch(tiny_model, minibatches=3, **algorithm), has_reference=has_reference)
    before, batch = weights(alone), given_words(a_batch(alone))
    for version in (10, 11):
        alone.train(batch, version=version)
    with socket.create_server(("127.0.0.1", 0)) as server:
        rendezvous = Address(host="127.0.0.1", port=server.getsockname()[1])
    launch = replace(
        a_launch(tiny_model, replicas=2, minibatches=3, **algorithm),
        rendezvous=rendezvous,
        inference_tasks=asked,
    )

    pool: Pool
    with multiprocessing.get_context("spawn").Pool(2, multiply_exactly) as pool:
        first, second = pool.starmap(train_as_rank, [(0, launch, batch), (1, launch, batch)], 1)

    assert torch.equal(first, second)
    assert_same_step(first, weights(alone), before=before)


def test_stale_samples_hold_policy_back_when_clipped_around_behaviour(tiny_model):
    launch = a_launch(tiny_model, minibatches=2)
    naive = replace(
        launch, algorithm=replace(launch.algorithm, proximal_policy=ProximalPolicy.BEHAVIOUR)
    )
    figures = {}
    for name, each in {"decoupled": launch, "naive": naive}.items():
        learner = a_learner(each)
        batch = a_batch(learner)
        # Half as likely, says who sampled: the policy has moved on by more than clipping allows.
        stale = replace(batch, behaviour_BR=batch.behaviour_BR - math.log(2))
        figures[name] = learner.train(stale, version=10).figures

    assert figures["decoupled"]["clip_fraction"] < 0.1 < figures["naive"]["clip_fraction"]
    assert figures["decoupled"]["behaviour_weight"] == pytest.approx(2, abs=0.1)
    assert figures["naive"]["behaviour_weight"] == pytest.approx(1)
    assert figures["naive"]["behaviour_kl"] > 0.1


@pytest.mark.parametrize("type", AlgorithmType)
@pytest.mark.slow
def test_tool_output_moves_nothing_but_is_read_afterwards(tiny_model, type):  # noqa: A002
    launch = a_launch(tiny_model, type=type)

    def trained(result: tuple[int, int], log_prob: float) -> dict[str, torch.Tensor]:
        learner = a_learner(launch)
        rows = [
            a_trajectory(
                group=member // 2,
                member=member % 2,
                prompt=[5, 6],
                response=[7 + member, *result, 9],
                versions=[0, -1, -1, 0],
                log_probs=[-1, log_prob, log_prob, -1],
            )
            for member in range(4)
        ]
        learner.train(collate(rows, rewards=[1.0, 0.0, 1.0, 0.0]), version=10)
        return {name: each.clone() for name, each in policy_of(learner).named_parameters().items()}

    first, same, other = trained((40, 41), 0.0), trained((40, 41), -9.0), trained((50, 41), 0.0)

    assert all(torch.equal(first[name], same[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
