"""What a trainer computes on one GPU, in bfloat16 products, beside one CPU in float32."""

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from hetrl_core.job.spec import ModelFiles
from hetrl_runtime.trainer.batch import Batch, collate
from hetrl_runtime.trainer.model.model import Policy, TokenScores
from hetrl_runtime.trainer.parallel.passes import Pass
from tests.gpu.conftest import GPU, needs_a_gpu
from tests.runtime.trainer.trajectories import a_trajectory

pytestmark = needs_a_gpu

CPU = torch.device("cpu")
FAMILIES = ("llama", "qwen2", "qwen3")
MEAN_TOLERANCE = 0.01
"""Of log-probabilities that are 5 on average."""

LEAST_LIKENESS = 0.999
"""The cosine of the angle between a tensor's two gradients."""


def a_batch() -> Batch:
    """Groups that share prompts, of different lengths: what a pass packs."""
    trajectories = [
        a_trajectory(
            group=index // 4,
            member=index % 4,
            prompt=[10 + index // 4] * (1 + 3 * (index // 4)),
            response=[30 + index % 7] * (1 + 5 * index % 16),
        )
        for index in range(32)
    ]
    return collate(trajectories, rewards=[0.0] * len(trajectories))


def found_on(
    device: torch.device, files: ModelFiles, *, recompute: bool = False
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return the log-probabilities of all response tokens, and the gradient of their sum."""
    policy = Policy(files, device=device, temperature=0.7, recompute=recompute)
    batch = a_batch()
    passes = policy.passes(batch, [torch.arange(len(batch))])
    scores = [found.log_probs_BR.cpu()[each.batch.mask_BR] for each, found in policy.score(passes)]

    def likelihood(each: Pass, found: TokenScores) -> torch.Tensor:
        log_probs = found.log_probs_BR
        return log_probs.masked_fill(~each.batch.mask_BR.to(log_probs.device), 0.0).sum()

    policy.backward(passes, likelihood)
    gradients = {name: each.grad for name, each in policy.named_parameters().items()}
    return torch.cat(scores), {
        name: each.cpu() for name, each in gradients.items() if each is not None
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_log_probabilities_and_gradients_are_a_cpus_but_for_roundings(
    models: dict[str, ModelFiles], family: str
) -> None:
    expected, expected_gradients = found_on(CPU, models[family])

    found, gradients = found_on(GPU, models[family])

    assert found.dtype == torch.float32
    assert {each.dtype for each in gradients.values()} == {torch.float32}
    assert (found - expected).abs().mean() < MEAN_TOLERANCE
    assert gradients.keys() == expected_gradients.keys()
    for name, each in gradients.items():
        likeness = F.cosine_similarity(each.flatten(), expected_gradients[name].flatten(), dim=0)
        assert likeness > LEAST_LIKENESS, name


def test_activations_that_are_computed_again_give_the_same_gradient(
    models: dict[str, ModelFiles],
) -> None:
    _, kept = found_on(GPU, models["qwen3"])

    _, again = found_on(GPU, models["qwen3"], recompute=True)

    for name, each in kept.items():
        assert F.cosine_similarity(each.flatten(), again[name].flatten(), dim=0) > 0.99999, name
