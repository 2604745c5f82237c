"""TRL's own trainers, on a small model with random weights: what they compute, against ours.

Known differences, applied here in closed form:

- A group's standard deviation is ours over n, theirs over n - 1 with 1e-4 added.
- TRL by default weights k3 by the policy's ratio, which we do not; here that is turned off.
- TRL's ``delta`` bounds ratios of good and bad actions alike; for good ones the clip is tighter, so
  it is the dual clip.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from hetrl_core.job.algorithm import Advantage, LossAggregation, StaleWeights
from hetrl_core.job.spec import ModelFiles
from hetrl_runtime.trainer.batch import Batch, collate
from hetrl_runtime.trainer.losses.advantage import group_advantages
from hetrl_runtime.trainer.losses.policy_loss import (
    Clip,
    Whole,
    decoupled_ppo,
    kl_k3,
    token_weights,
)
from hetrl_runtime.trainer.model.model import Policy
from tests.oracles.samples import SEEDS, assert_same
from tests.runtime.trainer.architectures import save_random
from tests.runtime.trainer.scores import scores_of
from tests.runtime.trainer.trajectories import a_trajectory

pytestmark = [
    pytest.mark.oracle,
    # What TRL warns of is its makers' business.
    pytest.mark.filterwarnings("ignore"),
]

TEMPERATURE = 0.7
MOST_TOKENS = 8
KL_COEFFICIENT = 0.05
CAP = 1.6
GROUP_SIZE = 4
TRLS_AGGREGATION = {
    LossAggregation.TOKEN_MEAN: "bnpo",
    LossAggregation.SEQUENCE_MEAN: "grpo",
    LossAggregation.LENGTH_BUDGET: "dr_grpo",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_random("Qwen3", tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def policy(folder: Path) -> Policy:
    found = Policy(
        ModelFiles(source=str(folder)), device=torch.device("cpu"), temperature=TEMPERATURE
    )
    found.model.double()
    return found


def noisy_rewards(completions: list[str], **_: object) -> list[float]:
    """Rewards that differ within a group, whatever was said."""
    return [len(each) + 0.37 * position for position, each in enumerate(completions)]


def settings_of(kind: type, folder: Path, **options: object) -> GRPOConfig | RLOOConfig:
    return kind(
        output_dir=str(folder / "trl"),
        use_cpu=True,
        bf16=False,
        report_to="none",
        activation_checkpointing=False,
        per_device_train_batch_size=2 * GROUP_SIZE,
        num_generations=GROUP_SIZE,
        max_completion_length=MOST_TOKENS,
        temperature=TEMPERATURE,
        **options,
    )


def open_trainer(kind: type, arguments: GRPOConfig | RLOOConfig, folder: Path) -> GRPOTrainer:
    return kind(
        model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64),
        processing_class=AutoTokenizer.from_pretrained(folder),
        reward_funcs=noisy_rewards,
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": ["1+2=", "17+4="]}),
    )


@pytest.fixture(scope="module")
def trainer(folder: Path) -> GRPOTrainer:
    arguments = settings_of(GRPOConfig, folder, beta=KL_COEFFICIENT, use_bias_correction_kl=False)
    return open_trainer(GRPOTrainer, arguments, folder)


@dataclass(frozen=True, kw_only=True)
class Question:
    """A batch, what older policies said of its tokens, and advantages."""

    batch: Batch
    proximal: Tensor
    behaviour: Tensor
    reference: Tensor
    advantages: Tensor


def a_question(seed: int, policy: Policy) -> Question:
    generator = torch.Generator().manual_seed(seed)

    def some_tokens(most: int) -> list[int]:
        size = int(torch.randint(1, most + 1, (), generator=generator))
        return torch.randint(3, 98, (size,), generator=generator).tolist()

    rows = [
        a_trajectory(member=member, prompt=some_tokens(5), response=some_tokens(MOST_TOKENS))
        for member in range(6)
    ]
    batch = collate(rows, rewards=[0.0] * len(rows))
    with torch.no_grad():
        current = scores_of(policy, batch).log_probs_BR.double()

    def older(spread: float) -> Tensor:
        return current + spread * torch.randn(
            current.shape, generator=generator, dtype=torch.float64
        )

    return Question(
        batch=batch,
        proximal=older(0.4),
        behaviour=older(0.8),
        reference=older(0.6),
        advantages=torch.randn(len(rows), generator=generator, dtype=torch.float64),
    )


def as_trl(question: Question) -> dict[str, Tensor]:
    batch, size = question.batch, question.batch.num_response_positions
    return {
        "prompt_ids": batch.tokens_BT[:, :-size],
        "prompt_mask": batch.is_token_BT[:, :-size].long(),
        "completion_ids": batch.responses_BR,
        "completion_mask": batch.mask_BR.long(),
        "advantages": question.advantages,
        "old_per_token_logps": question.proximal,
        "ref_per_token_logps": question.reference,
        "num_items_in_batch": batch.mask_BR.sum(),
    }


@contextmanager
def configured(trainer: GRPOTrainer, clip: Clip, loss_type: str) -> Iterator[None]:
    trainer.loss_type = loss_type
    trainer.epsilon_low, trainer.epsilon_high = clip.low, clip.high
    trainer.args.delta = clip.dual
    # The weights are given, so that no vLLM has to be there.
    trainer.use_vllm = trainer.vllm_importance_sampling_correction = True
    yield
    trainer.use_vllm = False


@settings(max_examples=20)
@given(seed=SEEDS)
def test_log_probabilities_and_entropies_are_trls(seed, policy, trainer):
    batch = a_question(seed, policy).batch

    with torch.no_grad():
        ours = scores_of(policy, batch)
        theirs, entropies, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model,
            batch.tokens_BT,
            batch.is_token_BT.long(),
            batch.num_response_positions,
            compute_entropy=True,
        )

    assert_same(ours.log_probs_BR[batch.mask_BR], theirs[batch.mask_BR])
    assert_same(ours.entropies_BR[batch.mask_BR], entropies[batch.mask_BR])


@settings(max_examples=30)
@given(
    seed=SEEDS,
    aggregation=st.sampled_from(LossAggregation),
    beyond=st.sampled_from(StaleWeights),
    dual=st.sampled_from([1.5, 3.0]),
)
def test_loss_and_every_gradient_are_trls(policy, trainer, *, seed, aggregation, beyond, dual):
    question = a_question(seed, policy)
    clip = Clip(low=0.2, high=0.28, dual=dual, behaviour_weight=CAP, beyond=beyond)
    weights = (question.proximal - question.behaviour).exp()
    weights = {
        StaleWeights.TRUNCATE: weights.clamp(max=CAP),
        StaleWeights.MASK: weights.masked_fill(weights > CAP, 0.0),
    }[beyond]

    loss = our_loss(question, policy, clip, aggregation)
    with configured(trainer, clip, TRLS_AGGREGATION[aggregation]):
        theirs = trainer._compute_loss(
            trainer.model, {**as_trl(question), "importance_sampling_ratio": weights}
        )
    ours_by_name = gradients(policy.model, loss)
    theirs_by_name = gradients(trainer.model, theirs)

    assert_same(loss, theirs)
    assert ours_by_name.keys() == theirs_by_name.keys()
    for name, gradient in ours_by_name.items():
        assert_same(gradient, theirs_by_name[name])


def our_loss(
    question: Question, policy: Policy, clip: Clip, aggregation: LossAggregation
) -> Tensor:
    mask = question.batch.mask_BR
    current = scores_of(policy, question.batch).log_probs_BR
    found = decoupled_ppo(
        current,
        proximal_BR=question.proximal,
        behaviour_BR=question.behaviour,
        advantages_B=question.advantages,
        mask_BR=mask,
        clip=clip,
    )
    losses = found.losses_BR + KL_COEFFICIENT * kl_k3(current, question.reference, mask)
    whole = Whole(num_tokens=int(mask.sum()), num_trajectories=len(mask), most_tokens=MOST_TOKENS)
    return (token_weights(mask, whole, aggregation) * losses).sum()


def gradients(model: torch.nn.Module, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    torch.autograd.backward(loss)
    return {name: each.grad for name, each in model.named_parameters()}


def rewards_and_advantages(trainer: GRPOTrainer) -> tuple[Tensor, Tensor]:
    """What a trainer made of completions that it sampled itself."""
    trainer.model.train()
    prompts = [{"prompt": each} for each in ["1+2="] * GROUP_SIZE + ["17+4="] * GROUP_SIZE]
    found = trainer._generate_and_score_completions(prompts)
    texts = trainer.processing_class.batch_decode(
        [
            ids[mask.bool()]
            for ids, mask in zip(found["completion_ids"], found["completion_mask"], strict=True)
        ],
        skip_special_tokens=True,
    )
    return torch.tensor(noisy_rewards(texts), dtype=torch.float64), found["advantages"]


@pytest.mark.parametrize(
    ("kind", "trainer_kind", "arguments_kind", "options"),
    [
        (Advantage.GROUP_NORMALISED, GRPOTrainer, GRPOConfig, {"scale_rewards": "group"}),
        (Advantage.GROUP_CENTRED, GRPOTrainer, GRPOConfig, {"scale_rewards": "none"}),
        (Advantage.LEAVE_ONE_OUT, RLOOTrainer, RLOOConfig, {"beta": 0.0}),
    ],
)
def test_advantages_are_trls(kind, trainer_kind, arguments_kind, options, folder):
    trainer = open_trainer(trainer_kind, settings_of(arguments_kind, folder, **options), folder)

    rewards, theirs = rewards_and_advantages(trainer)

    groups = torch.arange(2 * GROUP_SIZE) // GROUP_SIZE
    ours = group_advantages(rewards, groups, kind)
    if kind is Advantage.GROUP_NORMALISED:
        deviations = torch.stack([rewards[groups == group].std(correction=0) for group in groups])
        ours *= deviations / (deviations * math.sqrt(GROUP_SIZE / (GROUP_SIZE - 1)) + 1e-4)
    assert_same(ours, theirs)
