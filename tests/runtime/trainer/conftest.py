from pathlib import Path

import pytest

from hetrl_core.job.spec import ModelFiles
from hetrl_runtime.compute import precision
from hetrl_runtime.tiny.model import make_model
from hetrl_runtime.tiny.warm_up import WarmUp


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> ModelFiles:
    """A model that was hardly trained: its weights are as good as random."""
    path: Path = tmp_path_factory.mktemp("models") / "tiny"
    make_model(path, seed=1, schedule=WarmUp(steps=2, batch_size=4))
    return ModelFiles(source=str(path))


@pytest.fixture(autouse=True)
def exact_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers are compared with a definition's: products in float32, whatever this CPU knows."""
    monkeypatch.setattr(precision, "cpu_multiplies_bfloat16", lambda: False)
