"""The reference says what the trainer's own reference would."""

from pathlib import Path

import numpy as np
import pytest
import torch

from hetrl_core.job.algorithm import AlgorithmSpec
from hetrl_core.job.spec import ModelFiles
from hetrl_runtime.inference.reference import ReferenceModel, Response
from hetrl_runtime.rollout.engine import Generation
from hetrl_runtime.trainer.batch import of_responses
from hetrl_runtime.trainer.model.model import Policy
from tests.runtime.inference.workers import a_reference
from tests.runtime.launches import a_launch
from tests.runtime.rollout.reference import Reference

TEMPERATURE = 0.7


@pytest.fixture(scope="module")
def model(a_model: ModelFiles, tmp_path_factory: pytest.TempPathFactory) -> ReferenceModel:
    algorithm = AlgorithmSpec(temperature=TEMPERATURE, group_size=2, global_batch_size=4)
    folder: Path = tmp_path_factory.mktemp("launch")
    return a_reference(a_launch(folder, model=a_model, algorithm=algorithm))


def some_responses(model: ReferenceModel, *sizes: tuple[int, int]) -> list[Response]:
    rng = np.random.default_rng(1)
    return [
        Response(*(rng.integers(2, model.vocab_size, size, dtype=np.int32) for size in pair))
        for pair in sizes
    ]


def test_tokens_have_the_log_probability_of_transformers(
    model: ReferenceModel, a_model: ModelFiles
) -> None:
    responses = some_responses(model, (5, 9), (1, 1), (12, 30), (5, 2))

    found = model.look(responses)

    plain = Reference({0: Path(a_model.source)}, temperature=TEMPERATURE)
    for log_probs, (prompt, response) in zip(found, responses, strict=True):
        generation = Generation(
            tokens=tuple(response.tolist()),
            log_probs=(),
            versions=(0,) * response.size,
            finish_reason="stop",
        )
        expected = plain.chosen(prompt.tolist(), generation)
        assert log_probs.tolist() == pytest.approx(expected, abs=1e-4)


def test_policy_that_has_not_moved_agrees_to_the_last_bit(
    model: ReferenceModel, a_model: ModelFiles
) -> None:
    responses = some_responses(model, (5, 9), (7, 4))
    policy = Policy(a_model, device=torch.device("cpu"), temperature=TEMPERATURE)
    batch = of_responses(responses)

    (whole,) = policy.passes(batch, [torch.arange(2)])
    ((_, scores),) = policy.score([whole])

    for number, found in enumerate(model.look(responses)):
        (row,) = (whole.rows == number).nonzero().flatten().tolist()
        assert found.tolist() == scores.log_probs_BR[row, : found.size].tolist()


def test_excess_over_a_pass_is_cut_into_several(
    model: ReferenceModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    responses = some_responses(model, *[(4, 10)] * 6)
    at_once = model.look(responses)
    monkeypatch.setattr(Policy, "max_tokens_per_pass", 20)

    for found, expected in zip(model.look(responses), at_once, strict=True):
        assert found == pytest.approx(expected, abs=1e-5)


def test_reference_model_keeps_no_gradients(model: ReferenceModel) -> None:
    assert not any(each.requires_grad for each in model._policy.stage.parameters())
