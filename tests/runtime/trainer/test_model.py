import pytest
import safetensors.torch
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from hetrl_core.job.spec import ModelFiles
from hetrl_runtime.compute import precision
from hetrl_runtime.model_files.errors import ModelError
from hetrl_runtime.trainer.batch import collate
from hetrl_runtime.trainer.model.model import Policy
from tests.runtime.trainer.scores import scores_of
from tests.runtime.trainer.trajectories import a_trajectory

CPU = torch.device("cpu")
TRAJECTORIES = [
    a_trajectory(member=0, prompt=[10, 11, 12, 13], response=[20, 21]),
    a_trajectory(member=1, prompt=[14], response=[22, 23, 24, 25, 26]),
    a_trajectory(member=2, prompt=[15, 16], response=[27]),
]


def log_probs_one_by_one(files: ModelFiles, *, temperature: float) -> list[list[float]]:
    """The definition: each sequence alone, without padding, all logits computed."""
    model = AutoModelForCausalLM.from_pretrained(files.source)
    found = []
    for each in TRAJECTORIES:
        tokens = torch.tensor([[*each.prompt_tokens.tolist(), *each.response_tokens.tolist()]])
        with torch.no_grad():
            logits = model(tokens).logits[0, :-1] / temperature
        scores = torch.log_softmax(logits, dim=-1).gather(1, tokens[0, 1:, None])[:, 0]
        found.append(scores[each.prompt_tokens.size - 1 :].tolist())
    return found


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probabilities_are_those_of_each_sequence_alone(tiny_model, temperature):
    policy = Policy(tiny_model, device=CPU, temperature=temperature)
    batch = collate(TRAJECTORIES, rewards=[0.0, 1.0, 0.0])

    with torch.no_grad():
        found = scores_of(policy, batch).log_probs_BR

    expected = log_probs_one_by_one(tiny_model, temperature=temperature)
    for row, each in enumerate(expected):
        assert found[row, : len(each)].tolist() == pytest.approx(each, abs=1e-4)
    assert torch.isfinite(found).all()


def test_products_are_close_in_bfloat16_and_training_is_float32(tiny_model, monkeypatch):
    batch = collate(TRAJECTORIES, rewards=[0.0, 1.0, 0.0])

    def scores_and_gradient() -> tuple[torch.Tensor, torch.Tensor]:
        policy = Policy(tiny_model, device=CPU, temperature=1.0)
        scores = scores_of(policy, batch).log_probs_BR[batch.mask_BR]
        torch.autograd.backward(scores.sum())
        gradients = [each.grad for each in policy.stage.parameters()]
        assert {each.dtype for each in (scores, *gradients)} == {torch.float32}
        return scores.detach(), torch.cat([each.flatten() for each in gradients])

    exact_scores, exact_gradient = scores_and_gradient()
    monkeypatch.setattr(precision, "cpu_multiplies_bfloat16", lambda: True)

    scores, gradient = scores_and_gradient()

    torch.testing.assert_close(scores, exact_scores, rtol=0, atol=0.1)
    assert not torch.allclose(scores, exact_scores, rtol=0, atol=1e-5)
    assert torch.cosine_similarity(gradient, exact_gradient, dim=0) > 0.99


def test_published_weights_have_the_models_own_names_and_values(tiny_model):
    policy = Policy(tiny_model, device=CPU, temperature=1.0)

    published = safetensors.torch.load(bytes(policy.to_safetensors()))

    own = safetensors.torch.load_file(f"{tiny_model.source}/model.safetensors")
    assert published.keys() == own.keys()
    assert all(torch.equal(published[name], own[name]) for name in own)


def test_saved_policy_is_an_ordinary_model_in_its_own_precision(tiny_model, tmp_path):
    half = tmp_path / "half"
    AutoModelForCausalLM.from_pretrained(tiny_model.source, dtype=torch.bfloat16).save_pretrained(
        half
    )
    AutoTokenizer.from_pretrained(tiny_model.source).save_pretrained(half)

    policy = Policy(ModelFiles(source=str(half)), device=CPU, temperature=1.0)
    policy.save(tmp_path)

    assert next(policy.model.parameters()).dtype is torch.float32
    saved = AutoModelForCausalLM.from_pretrained(tmp_path, dtype="auto")
    assert saved.dtype is torch.bfloat16
    assert AutoTokenizer.from_pretrained(tmp_path).encode("1+2=")


def test_missing_model_is_named(tmp_path):
    with pytest.raises(ModelError, match=f"model path {tmp_path}/nowhere is not a directory"):
        Policy(ModelFiles(source=str(tmp_path / "nowhere")), device=CPU, temperature=1.0)


def test_weights_of_another_model_are_refused(tiny_model):
    policy = Policy(tiny_model, device=CPU, temperature=1.0)

    with pytest.raises(ModelError, match=r"there is of another model: extra is in one of them"):
        policy.load_weights({**policy.named_parameters(), "extra": torch.ones(1)}, source="there")
