"""Every family divided among real processes, beside the same model in one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetrl_core.job.spec import ModelFiles
from hetrl_core.plan.plan import Sharding, TrainingMode
from hetrl_core.plan.training_split import TrainingSplit
from hetrl_runtime.trainer.parallel.mesh import Mesh
from tests.runtime.families.models import MODELS, save_family
from tests.runtime.trainer.parallel.crew import Crew
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


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", MODELS)
def test_family_in_every_split_has_the_gradients_of_one_process(
    crew: Crew, tmp_path: Path, name: str, split: str
) -> None:
    (files,) = saved((name,), tmp_path)

    (found,) = crew.run(found_of_each, SPLITS[split], files)[0]

    assert differ(found, found_by(None, files)) < 1e-5
