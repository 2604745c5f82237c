"""Steps that are not finite: no model moves, and the number and its trajectories are named."""

# ruff: noqa: N806  # shapes: B trajectories, R response positions

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch.utils.hooks import RemovableHandle

from hetrl_core.job.algorithm import Advantage, AlgorithmType, ProximalPolicy
from hetrl_core.job.spec import ModelFiles
from hetrl_runtime.trainer.batch import Batch
from hetrl_runtime.trainer.guards.not_finite import Skipped, Source
from hetrl_runtime.trainer.learner import Learner
from hetrl_runtime.trainer.model.model import ModelError, Policy
from tests.runtime.trainer.test_learner import a_batch, a_launch, a_learner, policy_of, weights

Change = Callable[[Batch], Batch]


@pytest.fixture(scope="module")
def learner(tiny_model: ModelFiles) -> Learner:
    """One that no test moves."""
    return a_learner(a_launch(tiny_model, advantage=Advantage.LEAVE_ONE_OUT))


@pytest.fixture(scope="module")
def batch(learner: Learner) -> Batch:
    return a_batch(learner)


def rewarded(row: int, *rewards: float) -> Change:
    def change(batch: Batch) -> Batch:
        rewards_B = batch.rewards_B.clone()
        rewards_B[row : row + len(rewards)] = torch.tensor(rewards)
        return replace(batch, rewards_B=rewards_B)

    return change


def sampled_at(value: float) -> Change:
    def change(batch: Batch) -> Batch:
        behaviour_BR = batch.behaviour_BR.clone()
        behaviour_BR[3, 0] = value
        return replace(batch, behaviour_BR=behaviour_BR)

    return change


def spoil_gradient(
    learner: Learner, value: float = math.nan, *, times: int = 99
) -> RemovableHandle:
    """Make one parameter's next gradients what ``value`` is."""
    left = [times]

    def spoiled(gradient: torch.Tensor) -> torch.Tensor:
        left[0] -= 1
        return torch.full_like(gradient, value) if left[0] >= 0 else gradient

    parameter = next(iter(policy_of(learner).named_parameters().values()))
    handle: RemovableHandle = parameter.register_hook(spoiled)
    return handle


@pytest.mark.parametrize(
    ("change", "skipped"),
    [
        (rewarded(1, math.inf), Skipped(source=Source.REWARD, rows=(1,))),
        (rewarded(4, math.nan, -math.inf), Skipped(source=Source.REWARD, rows=(4, 5))),
        (rewarded(2, 3e38, -3e38), Skipped(source=Source.ADVANTAGE, rows=(2, 3))),
    ],
    ids=["infinite reward", "rewards that are no numbers", "advantages that float32 cannot hold"],
)
def test_step_on_rewards_that_are_not_finite_is_skipped(learner, batch, change, skipped):
    before = weights(learner)

    trained = learner.train(change(batch), version=10)

    assert trained.skipped == (skipped,)
    assert (trained.figures, trained.has_moved) == ({}, False)
    assert torch.equal(weights(learner), before)


def test_step_of_a_loss_that_is_not_finite_is_skipped(learner, batch):
    before = weights(learner)

    trained = learner.train(sampled_at(math.nan)(batch), version=10)

    (skipped,) = trained.skipped
    assert (skipped.source, sorted(skipped.rows)) == (Source.LOSS, list(range(8)))
    assert (trained.figures, trained.has_moved) == ({}, False)
    assert torch.equal(weights(learner), before)


@pytest.mark.parametrize("log_prob", [-math.inf, -100.0])
def test_step_of_samples_at_any_distance_is_finite(tiny_model, log_prob):
    learner = a_learner(a_launch(tiny_model))
    before = weights(learner)

    trained = learner.train(sampled_at(log_prob)(a_batch(learner)), version=10)

    assert (trained.skipped, trained.has_moved) == ((), True)
    assert torch.isfinite(weights(learner)).all()
    assert not torch.equal(weights(learner), before)


@pytest.mark.parametrize("value", [math.nan, math.inf, 3e38])
def test_step_of_a_gradient_that_is_not_finite_is_skipped(learner, batch, value):
    before = weights(learner)

    with spoil_gradient(learner, value):
        trained = learner.train(batch, version=10)

    assert [each.source for each in trained.skipped] == [Source.GRADIENT]
    assert torch.equal(weights(learner), before)
    assert not learner.state()


def test_minibatch_that_is_skipped_leaves_the_others(tiny_model):
    learner = a_learner(a_launch(tiny_model, minibatches=2))
    batch, before = a_batch(learner), weights(learner)
    spoil_gradient(learner, times=1)

    trained = learner.train(batch, version=10)

    (skipped,) = trained.skipped
    assert (skipped.source, len(skipped.rows)) == (Source.GRADIENT, 4)
    assert trained.has_moved
    assert trained.figures["gradient_norm"] > 0
    assert all(map(math.isfinite, trained.figures.values()))
    assert not torch.equal(weights(learner), before)


def test_weights_that_a_step_spoiled_are_found(tiny_model):
    launch = a_launch(tiny_model)
    learner = a_learner(replace(launch, training=replace(launch.training, learning_rate=1e39)))

    trained = learner.train(a_batch(learner), version=10)

    assert [each.source for each in trained.skipped] == [Source.WEIGHTS]


def test_weights_beyond_their_files_precision_are_not_finite(tiny_model):
    policy = Policy(tiny_model, device=torch.device("cpu"), temperature=1.0)
    name, parameter = next(iter(policy.named_parameters().items()))
    with torch.no_grad():
        parameter.view(-1)[0] = 7e4
    assert not policy.first_not_finite()

    policy.model.config.dtype = torch.float16

    assert policy.first_not_finite() == name


@pytest.mark.slow
def test_policy_stays_where_its_critic_is_not_finite(tiny_model):
    learner = a_learner(a_launch(tiny_model, type=AlgorithmType.PPO))
    batch, before = a_batch(learner), weights(learner)
    head = list(learner.critic.model.named_parameters().values())[-1]
    critic = head.detach().clone()
    head.register_hook(lambda gradient: gradient * math.nan)

    trained = learner.train(batch, version=10)

    assert [each.source for each in trained.skipped] == [Source.GRADIENT]
    assert torch.equal(weights(learner), before)
    assert torch.equal(head, critic)


@pytest.mark.parametrize("minibatches", [1, 2])
@pytest.mark.parametrize("proximal", ProximalPolicy)
def test_engine_is_compared_over_tokens_of_the_same_weights(tiny_model, minibatches, proximal):
    learner = a_learner(a_launch(tiny_model, minibatches=minibatches, proximal_policy=proximal))
    batch = a_batch(learner)
    is_current_B = torch.arange(8) % 4 != 0
    # What older weights sampled is far off, and no fault of the engine's.
    behaviour_BR = batch.behaviour_BR - torch.where(is_current_B, 0.25, 9.0)[:, None]
    batch = replace(batch, is_current_B=is_current_B, behaviour_BR=behaviour_BR)

    trained = learner.train(batch, version=10)

    found = trained.comparison
    num_tokens = int((batch.mask_BR & is_current_B[:, None]).sum())
    is_first_alone = proximal is ProximalPolicy.BEHAVIOUR and minibatches == 2
    assert found.num_tokens < num_tokens if is_first_alone else found.num_tokens == num_tokens
    assert found.mean_nats == pytest.approx(0.25, abs=1e-5)
    assert found.trainer_nats - found.engine_nats == pytest.approx(
        0.25 * found.num_tokens, rel=1e-4
    )
    assert trained.figures["engine_difference"] == found.mean_nats
    again = learner.train(replace(batch, is_current_B=is_current_B & False), version=11)
    assert again.comparison.num_tokens == 0
    assert "engine_difference" not in again.figures


def test_model_with_a_value_that_is_not_finite_is_refused(tiny_model, tmp_path):
    policy = Policy(tiny_model, device=torch.device("cpu"), temperature=1.0)
    name, parameter = list(policy.named_parameters().items())[3]
    with torch.no_grad():
        parameter.view(-1)[5] = math.inf
    policy.save(tmp_path)

    with pytest.raises(ModelError, match=f"not finite: tensor {name} of model.safetensors;"):
        Policy(ModelFiles(source=str(tmp_path)), device=torch.device("cpu"), temperature=1.0)
