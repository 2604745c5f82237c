"""Log-probabilities and entropies of sampled tokens against what TRL and verl make of logits."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from trl.trainer.utils import entropy_from_logits, selective_log_softmax
from verl.utils import torch_functional as verls

from hetrl_core.job.spec import ModelFiles
from hetrl_runtime.trainer.batch import collate
from hetrl_runtime.trainer.losses.policy_loss import token_entropy
from hetrl_runtime.trainer.model.model import Policy
from tests.oracles.samples import SEEDS, assert_same
from tests.runtime.trainer.architectures import ARCHITECTURES, save_random
from tests.runtime.trainer.scores import scores_of
from tests.runtime.trainer.trajectories import a_trajectory

pytestmark = pytest.mark.oracle

TEMPERATURE = 0.7


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_scores_are_what_both_make_of_the_models_logits(name: str, tmp_path: Path) -> None:
    files = ModelFiles(source=str(save_random(name, tmp_path)))
    policy = Policy(files, device=torch.device("cpu"), temperature=TEMPERATURE)
    rows = [a_trajectory(member=size, response=range(5, 5 + size)) for size in (1, 4, 9)]
    batch = collate(rows, rewards=[0.0] * len(rows))

    with torch.no_grad():
        found = scores_of(policy, batch)
        # Prompts are equally long here, so that nothing but padding at the end is in the way.
        logits = policy.model(batch.tokens_BT).logits[:, -batch.num_response_positions - 1 : -1]

    mask, scaled = batch.mask_BR, logits / TEMPERATURE
    for theirs in (
        selective_log_softmax(logits, batch.responses_BR, TEMPERATURE),
        verls.logprobs_from_logits(scaled, batch.responses_BR),
    ):
        assert_same(found.log_probs_BR[mask], theirs[mask])
    for entropies in (entropy_from_logits(scaled), verls.entropy_from_logits(scaled)):
        assert_same(found.entropies_BR[mask], entropies[mask])


@given(seed=SEEDS)
def test_entropies_are_those_of_both(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 5 * torch.randn(3, 4, 11, generator=generator, dtype=torch.float64)

    ours = token_entropy(torch.log_softmax(logits, dim=-1))

    assert_same(ours, entropy_from_logits(logits))
    assert_same(ours, verls.entropy_from_logits(logits))
