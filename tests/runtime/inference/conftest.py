"""Models for the tests of this folder."""

import pytest

from hetrl_core.job.spec import ModelFiles
from hetrl_runtime.compute import precision
from tests.runtime.rollout.models import save_tiny_qwen3


@pytest.fixture(scope="session")
def a_model(tmp_path_factory: pytest.TempPathFactory) -> ModelFiles:
    """A tiny Qwen3 with random weights."""
    return ModelFiles(source=str(save_tiny_qwen3(tmp_path_factory.mktemp("reference") / "model")))


@pytest.fixture(autouse=True)
def exact_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers are compared with a definition's: products in float32, whatever this CPU knows."""
    monkeypatch.setattr(precision, "cpu_multiplies_bfloat16", lambda: False)
