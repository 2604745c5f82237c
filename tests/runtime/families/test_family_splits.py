"""Every family divided among real processes, beside the same model in one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bench.proof.families import record
from hetrl_core.job.spec import ModelFiles
from hetrl_core.plan.plan import Sharding, TrainingMode
from hetrl_core.plan.training_split import TrainingSplit
from hetrl_runtime.trainer.model.model import Policy
from hetrl_runtime.trainer.parallel.mesh import Mesh
from hetrl_runtime.trainer.parallel.place import dealt
from tests.runtime.families.models import MODELS, save_family
from tests.runtime.families.reference import SAMPLES, a_batch, apart, by_response, log_probs_of
from tests.runtime.trainer.parallel.crew import CPU, Crew
from tests.runtime.trainer.parallel.gradients import found_by

FULL = TrainingMode(sharding=Sharding.FULL)
TENSOR = TrainingSplit(tensor=2)
SPLITS = {
    "tp2": TENSOR,
    "pp2": TrainingSplit(stage_layers=(2, 1)),
    "sharded": TrainingSplit(shares=(3, 1), mode=FULL),
    "tp2 pp2": TrainingSplit(tensor=2, stage_layers=(1, 2)),
    "sharded tp2": TrainingSplit(shares=(1, 1), tensor=2, mode=FULL),
}
GATHERED = ("phi3", "olmo2", "glm4")
"""Tensor ranks of these exchange what others do not; stages are tested without processes."""

Found = tuple[dict[str, Any], float, bytes]


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    with Crew() as crew:
        yield crew


def found_of_each(mesh: Mesh | None, first: ModelFiles, *others: ModelFiles) -> list[Found]:
    return [found_by(mesh, each) for each in (first, *others)]


def differ(found: Found, expected: Found) -> float:
    """Return the largest difference in a gradient."""
    assert found[0].keys() == expected[0].keys()
    return max(float(np.abs(found[0][name] - expected[0][name]).max()) for name in expected[0])


def saved(names: tuple[str, ...], root: Path) -> list[ModelFiles]:
    return [ModelFiles(source=str(save_family(each, root / each))) for each in names]


@pytest.mark.slow
@pytest.mark.parametrize("names", [GATHERED, ("gemma2", "gemma3_text", "granite")], ids=str)
def test_tensor_ranks_have_the_gradients_of_one_process(
    crew: Crew, tmp_path: Path, names: tuple[str, ...]
) -> None:
    files = saved(names, tmp_path)

    for each, found in zip(files, crew.run(found_of_each, TENSOR, *files)[0], strict=True):
        assert differ(found, found_by(None, each)) < 1e-5, each.source


def scored_and_found(mesh: Mesh, files: ModelFiles) -> tuple[Any, Found]:
    """Return the log-probabilities of this process's rows, those of others zero, and gradients."""
    policy = Policy(files, device=CPU, temperature=0.7, mesh=mesh)
    batch = a_batch()
    parts = dealt(torch.arange(len(batch)), policy.place.split.shares)
    return policy.log_probs(batch, parts).numpy(), found_by(mesh, files)


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("how", SPLITS)
@pytest.mark.parametrize("name", MODELS)
def test_family_in_every_split_computes_as_in_one_process(
    crew: Crew, tmp_path: Path, name: str, how: str
) -> None:
    (files,), split = saved((name,), tmp_path), SPLITS[how]

    found = crew.run(scored_and_found, split, files)

    # Only last stages have log-probabilities, and all tensor ranks of one the same.
    scores_BR = sum(each for each, _ in found[:: split.tensor])  # noqa: N806
    difference = apart(
        by_response(torch.as_tensor(scores_BR)),
        log_probs_of(Path(files.source), SAMPLES, temperature=0.7),
    )
    record(name, how, difference)
    assert difference < 1e-4
    assert differ(found[0][1], found_by(None, files)) < 1e-5
