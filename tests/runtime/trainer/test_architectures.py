"""Models as transformers has them: the same logits before and after a round trip through us."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from hetrl_core.job.spec import ModelFiles
from hetrl_runtime.trainer.batch import Batch, collate
from hetrl_runtime.trainer.model.model import Policy
from tests.runtime.trainer.architectures import ARCHITECTURES, save_random
from tests.runtime.trainer.scores import scores_of
from tests.runtime.trainer.trajectories import a_trajectory

NAMES = pytest.mark.parametrize("name", ARCHITECTURES)


def opened(folder: Path) -> Policy:
    return Policy(ModelFiles(source=str(folder)), device=torch.device("cpu"), temperature=0.9)


def a_ragged_batch() -> Batch:
    generator = torch.Generator().manual_seed(5)
    rows = [
        a_trajectory(
            member=member,
            prompt=torch.randint(3, 98, (prompt,), generator=generator).tolist(),
            response=torch.randint(3, 98, (response,), generator=generator).tolist(),
        )
        for member, (prompt, response) in enumerate([(1, 40), (25, 3), (9, 17), (30, 1)])
    ]
    return collate(rows, rewards=[0.0] * len(rows))


@torch.no_grad()
def by_transformers(folder: Path, batch: Batch) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies of each row by itself, without padding."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    log_probs, entropies = (
        torch.zeros_like(batch.behaviour_BR),
        torch.zeros_like(batch.behaviour_BR),
    )
    for row, (tokens, is_token) in enumerate(zip(batch.tokens_BT, batch.is_token_BT, strict=True)):
        sampled = tokens[is_token][None]
        size = int(batch.mask_BR[row].sum())
        scores = torch.log_softmax(model(sampled).logits[0, :-1] / 0.9, dim=-1)[-size:]
        log_probs[row, :size] = scores.gather(1, sampled[0, -size:, None])[:, 0]
        entropies[row, :size] = torch.distributions.Categorical(logits=scores).entropy()
    return log_probs, entropies


@NAMES
def test_scores_are_those_of_transformers_logits(name, tmp_path):
    folder, batch = save_random(name, tmp_path), a_ragged_batch()
    policy = opened(folder)

    with torch.no_grad():
        found = scores_of(policy, batch)

    log_probs, entropies = by_transformers(folder, batch)
    mask = batch.mask_BR
    torch.testing.assert_close(found.log_probs_BR[mask], log_probs[mask], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found.entropies_BR[mask], entropies[mask], rtol=1e-6, atol=1e-6)


@NAMES
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_round_trip_keeps_every_tensor_bit_for_bit(name, dtype, tmp_path):
    folder = save_random(name, tmp_path / "first", dtype=dtype)

    second, third = tmp_path / "second", tmp_path / "third"
    opened(folder).save(second)
    opened(second).save(third)

    original, saved, again = (
        load_file(each / "model.safetensors") for each in (folder, second, third)
    )
    assert original.keys() == saved.keys() == again.keys()
    for key, tensor in original.items():
        assert saved[key].dtype is again[key].dtype is dtype
        assert torch.equal(saved[key], tensor)
        assert torch.equal(again[key], tensor)


@NAMES
def test_transformers_reads_what_we_saved_to_the_same_logits(name, tmp_path):
    folder, moved = save_random(name, tmp_path / "first"), tmp_path / "moved"
    policy = opened(folder)
    with torch.no_grad():
        for parameter in policy.named_parameters().values():
            parameter.add_(0.01 * torch.randn_like(parameter))

    policy.save(moved)

    read = AutoModelForCausalLM.from_pretrained(moved, dtype="auto")
    tokens = a_ragged_batch().tokens_BT
    with torch.no_grad():
        torch.testing.assert_close(read(tokens).logits, policy.model(tokens).logits)
    assert read.config.to_diff_dict() == policy.model.config.to_diff_dict()
    assert AutoTokenizer.from_pretrained(moved).encode("1+2=") == (
        AutoTokenizer.from_pretrained(folder).encode("1+2=")
    )
