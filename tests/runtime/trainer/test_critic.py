"""PPO's critic beside the policy: what it learns, what it changes, and what of it is kept."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from hetrl_core.job.algorithm import AlgorithmType, CriticSpec, KlPlacement
from hetrl_core.job.spec import ModelFiles
from hetrl_core.launch import Launch
from hetrl_runtime.model_files.errors import ModelError
from hetrl_runtime.trainer.batch import Batch
from hetrl_runtime.trainer.checkpoints.checkpoint import CheckpointFolder
from hetrl_runtime.trainer.critic import Critic
from hetrl_runtime.trainer.learner import Learner
from hetrl_runtime.trainer.model.optimizer import learning_rate_at
from hetrl_runtime.wire.values import ResumePoint
from tests.runtime.trainer.scores import scores_of
from tests.runtime.trainer.test_learner import (
    a_batch,
    a_learner,
    policy_of,
    response_log_prob,
    weights,
)
from tests.runtime.trainer.test_learner import a_launch as a_grpo_launch

pytestmark = pytest.mark.slow


def a_launch(
    files: ModelFiles, *, replicas: int = 1, critic: dict[str, Any] | None = None, **algorithm: Any
) -> Launch:
    return a_grpo_launch(
        files,
        replicas=replicas,
        type=AlgorithmType.PPO,
        critic=CriticSpec(**critic or {}),
        **algorithm,
    )


def critic_of(learner: Learner) -> Critic:
    assert learner.critic
    return learner.critic


def values_of(learner: Learner, batch: Batch) -> torch.Tensor:
    """Return what the critic says of every token; nothing of padding."""
    model = critic_of(learner).model
    with torch.no_grad():
        (values,) = model.stage(
            batch.tokens_BT,
            is_token_BT=batch.is_token_BT,
            prompts_B=batch.prompts_B,
            responses_BR=batch.responses_BR,
        )
    return values.masked_fill(~batch.mask_BR, 0.0)


def test_new_critic_expects_nothing(tiny_model):
    learner = a_learner(a_launch(tiny_model))

    assert values_of(learner, a_batch(learner)).eq(0).all()


def test_critic_moves_toward_the_returns(tiny_model):
    # With lambda 1 the returns are the rewards, whatever the critic says.
    learner = a_learner(a_launch(tiny_model, critic={"trace_decay": 1.0, "learning_rate": 2e-3}))
    batch = a_batch(learner)

    figures = [learner.train(batch, version=version).figures for version in range(5, 15)]

    assert figures[0]["explained_variance"] == pytest.approx(0, abs=1e-5)
    assert figures[-1]["explained_variance"] > 0.8
    assert figures[-1]["value_loss"] < 0.1 * figures[0]["value_loss"]
    wanted = batch.rewards_B[:, None].expand_as(batch.mask_BR).masked_fill(~batch.mask_BR, 0.0)
    assert (values_of(learner, batch) - wanted).abs().max() < 0.4


def test_better_responses_become_likelier_though_nothing_is_compared_in_groups(tiny_model):
    learner = a_learner(a_launch(tiny_model))
    # Every group's rewards are equal: to GRPO they would say nothing.
    batch = a_batch(learner)
    batch = replace(batch, rewards_B=(batch.groups_B % 2).float())
    before = response_log_prob(learner, batch)

    learner.train(batch, version=10)

    change = response_log_prob(learner, batch) - before
    assert change[batch.rewards_B == 1].mean() > 0 > change[batch.rewards_B == 0].mean()


def test_policy_stays_while_the_critic_warms_up(tiny_model):
    learner = a_learner(a_launch(tiny_model, critic={"warm_up_steps": 2}))
    batch, before = a_batch(learner), weights(learner)

    first, second, third = (learner.train(batch, version=version).figures for version in range(3))

    assert "loss" not in first | second
    assert first["value_loss"] > 0
    # As slow as a first step is, for it is the policy's first.
    assert third["learning_rate"] == pytest.approx(learning_rate_at(0, peak=1e-3))
    assert not torch.equal(weights(learner), before)


def test_value_clip_too_narrow_to_move_in_holds_the_critic(tiny_model):
    launches = [a_launch(tiny_model, minibatches=4, critic={"value_clip": c}) for c in (1e-6, 10)]
    held, free = (a_learner(launch) for launch in launches)
    batch = a_batch(held)

    figures = [learner.train(batch, version=10).figures for learner in (held, free)]

    assert figures[0]["value_clip_fraction"] > 0.1
    assert figures[1]["value_clip_fraction"] == 0


def test_kl_term_in_the_reward_is_charged_token_by_token(tiny_model):
    algorithm = {"kl_coefficient": 0.5, "kl_placement": KlPlacement.REWARD}
    critic = {"trace_decay": 1.0, "whiten_advantages": False}
    learner = a_learner(a_launch(tiny_model, critic=critic, **algorithm), has_reference=True)
    batch = a_batch(learner)
    for _ in range(3):
        learner.train(batch, version=10)
    with torch.no_grad():
        now = scores_of(policy_of(learner), batch).log_probs_BR
        first = scores_of(learner._reference, batch).log_probs_BR
    kl = (now - first).masked_fill(~batch.mask_BR, 0.0)
    rows = torch.arange(len(batch))

    _, valuation = learner._compute_targets(batch, [learner._peers.shares(rows)])

    # What a token still has to come: the reward, less what it and later ones kl.
    to_come = kl.flip(1).cumsum(1).flip(1)
    expected = (batch.rewards_B[:, None] - 0.5 * to_come).masked_fill(~batch.mask_BR, 0.0)
    assert kl.abs().max() > 1e-3
    assert torch.allclose(valuation.returns_BR, expected, atol=1e-5)


def test_restored_critic_resumes_exactly(tiny_model, tmp_path):
    launch = a_launch(tiny_model, minibatches=2)
    unbroken = a_learner(launch)
    batch = a_batch(unbroken)
    unbroken.train(batch, version=0)
    folder = CheckpointFolder(tmp_path, keep_last=1)
    folder.write(
        ResumePoint(version=1),
        save_model=policy_of(unbroken).save,
        optimizer=unbroken.state(),
    )

    restored = a_learner(launch)
    restored.restore(folder.newest())
    figures = [each.train(batch, version=1).figures for each in (unbroken, restored)]

    assert figures[0] == figures[1]
    assert torch.equal(weights(restored), weights(unbroken))
    assert torch.equal(critic_weights(restored), critic_weights(unbroken))


def test_critic_of_another_model_is_refused(tiny_model):
    learner = a_learner(a_launch(tiny_model))
    state = critic_of(learner).state()
    state["score.weight"] = state["score.weight"][:, 1:]

    with pytest.raises(ModelError, match=r"old is of another model: score\.weight is \(1, 127\)"):
        critic_of(learner).restore(state, source="old")


def critic_weights(learner: Learner) -> torch.Tensor:
    model = critic_of(learner).model.model
    return torch.cat([each.detach().flatten() for each in model.parameters()])
