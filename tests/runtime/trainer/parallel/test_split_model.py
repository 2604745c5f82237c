"""One model on up to four real processes over gloo, beside the same model on one."""

import re
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import safetensors.torch
import torch
import torch.distributed as dist

from hetrl_core.job.spec import ModelFiles
from hetrl_core.plan.plan import Sharding, TrainingMode
from hetrl_core.plan.training_split import TrainingSplit
from hetrl_runtime.compute import precision
from hetrl_runtime.model_files.errors import ModelError
from hetrl_runtime.trainer.model.model import Policy, TokenScores
from hetrl_runtime.trainer.model.optimizer import Optimizer
from hetrl_runtime.trainer.parallel.mesh import Mesh
from hetrl_runtime.trainer.parallel.passes import Pass
from hetrl_runtime.trainer.parallel.place import dealt
from tests.runtime.trainer.parallel.crew import CPU, Crew
from tests.runtime.trainer.parallel.gradients import a_batch, found_by, likelihood

pytestmark = pytest.mark.slow

OPTIMIZER, FULL = (TrainingMode(sharding=each) for each in (Sharding.OPTIMIZER, Sharding.FULL))
SPLITS = {
    "dp2 uneven": TrainingSplit(shares=(3, 1)),
    "tp2": TrainingSplit(tensor=2),
    "pp2 uneven": TrainingSplit(stage_layers=(2, 1)),
    "dp2 pp2": TrainingSplit(shares=(1, 1), stage_layers=(1, 2)),
    "tp2 pp2": TrainingSplit(tensor=2, stage_layers=(2, 1)),
    "dp2 uneven tp2": TrainingSplit(shares=(2, 1), tensor=2),
    "dp2 uneven, optimizer sharded": TrainingSplit(shares=(3, 1), mode=OPTIMIZER),
    "dp2 uneven pp2, optimizer sharded": TrainingSplit(
        shares=(3, 1), stage_layers=(2, 1), mode=OPTIMIZER
    ),
    "dp2 tp2, all sharded, a replica without rows": TrainingSplit(
        shares=(17, 1), tensor=2, mode=FULL
    ),
}
RECOMPUTED = {"tp2 pp2", "dp2 tp2, all sharded, a replica without rows"}
"""Activations are computed again: between them these meet every axis."""


def found_of_each(
    mesh: Mesh | None, first: ModelFiles, second: ModelFiles, recompute: bool
) -> list[Any]:
    return [found_by(mesh, each, recompute=recompute) for each in (first, second)]


@pytest.mark.parametrize(
    ("name", "families"),
    [
        # Every family meets every axis; each case costs a second a family.
        pytest.param(name, ("qwen3", ("llama", "qwen2")[number % 2]), id=name)
        for number, name in enumerate(SPLITS)
    ],
)
def test_gradients_of_a_split_model_are_those_of_one_process(
    crew: Crew, models: dict[str, ModelFiles], name: str, families: tuple[str, ...]
) -> None:
    files = [models[family] for family in families]

    together = crew.run(found_of_each, SPLITS[name], *files, name in RECOMPUTED)[0]

    for (gradients, norm, weights), each in zip(together, files, strict=True):
        expected, expected_norm, _ = found_by(None, each)
        assert gradients.keys() == expected.keys()
        for parameter, gradient in gradients.items():
            assert np.abs(gradient - expected[parameter]).max() < 1e-5
        assert norm == pytest.approx(expected_norm, rel=1e-5)
        own = safetensors.torch.load_file(f"{each.source}/model.safetensors")
        read = safetensors.torch.load(weights)
        assert read.keys() == own.keys()
        assert all(torch.equal(read[parameter], own[parameter]) for parameter in own)


def found_with_half_products(
    mesh: Mesh | None, files: ModelFiles, recompute: bool
) -> tuple[dict[str, Any], float, bytes]:
    with patch.object(precision, "halves_products", return_value=True):
        return found_by(mesh, files, recompute=recompute)


@pytest.mark.parametrize(
    "name", ["tp2 pp2", "dp2 uneven tp2", "dp2 tp2, all sharded, a replica without rows"]
)
def test_split_model_whose_products_are_in_bfloat16_differs_by_roundings(
    crew: Crew, models: dict[str, ModelFiles], name: str
) -> None:
    files = models["qwen3"]

    together = crew.run(found_with_half_products, SPLITS[name], files, name in RECOMPUTED)[0][0]

    def apart(other: dict[str, Any]) -> float:
        one, two = (
            np.concatenate([each[parameter].ravel() for parameter in together])
            for each in (together, other)
        )
        return float(np.linalg.norm(one - two) / np.linalg.norm(two))

    alone, _, _ = found_with_half_products(None, files, recompute=False)
    exactly, _, _ = found_by(None, files)
    assert all(each.dtype == np.float32 for each in together.values())
    assert apart(alone) < 4 * 2**-8
    assert 2**-12 < apart(exactly) < 4 * 2**-8


def trained(
    mesh: Mesh | None, files: ModelFiles, state: dict[str, Any], weights: bytes, steps: range
) -> tuple[list[float], dict[str, Any], bytes]:
    """Go on from a state; return the loss of each step, and the state after them."""
    policy = Policy(files, device=CPU, temperature=1.0, mesh=mesh)
    optimizer = Optimizer(policy, learning_rate=3e-3)
    if steps.start:
        policy.load_weights(safetensors.torch.load(weights), source="the checkpoint")
        optimizer.load_state({name: torch.from_numpy(each) for name, each in state.items()})
    batch = a_batch()
    parts = dealt(torch.arange(len(batch)), policy.place.split.shares)
    losses = []
    for step in steps:
        loss = torch.zeros(())

        def noted(each: Pass, scores: TokenScores, loss: torch.Tensor = loss) -> torch.Tensor:
            found = likelihood(each, scores)
            loss += found.detach() if policy.place.speaks else 0.0
            return found

        policy.backward(policy.passes(batch, parts), noted)
        if mesh:
            dist.all_reduce(loss)
        losses.append(float(loss))
        optimizer.step(policy.gradient_norm(), version=step)
    after = {name: each.numpy() for name, each in optimizer.state().items()}
    return losses, after, bytes(policy.to_safetensors())


def test_fifty_steps_under_two_splits_match_one_process(
    crew: Crew, models: dict[str, ModelFiles]
) -> None:
    files = models["qwen3"]
    alone, _, _ = trained(None, files, {}, b"", range(50))

    half, state, weights = crew.run(trained, SPLITS["dp2 pp2"], files, {}, b"", range(25))[0]
    rest, _, _ = crew.run(trained, SPLITS["tp2 pp2"], files, state, weights, range(25, 50))[0]

    assert half + rest == pytest.approx(alone, rel=2e-3)
    assert alone[-1] < 0.5 * alone[0]


def refused(mesh: Mesh, files: ModelFiles) -> str:
    with pytest.raises(ModelError) as caught:
        Policy(files, device=CPU, temperature=1.0, mesh=mesh)
    return str(caught.value)


def test_stages_of_other_layers_than_the_models_are_refused(
    crew: Crew, models: dict[str, ModelFiles]
) -> None:
    for said in crew.run(refused, TrainingSplit(stage_layers=(2, 2)), models["llama"]):
        assert re.search(r"stages of \(2, 2\) layers; the model has 3", said)
