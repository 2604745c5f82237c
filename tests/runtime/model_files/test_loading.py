"""Errors of loading: those that a restart may mend, and those of the model."""

import errno
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)

from hetrl_core.job.spec import ModelFiles
from hetrl_runtime.model_files import folder
from hetrl_runtime.model_files.errors import ModelError
from hetrl_runtime.model_files.folder import model_folder
from hetrl_runtime.model_files.loading import loading


@pytest.mark.parametrize(
    "error",
    [
        ImportError("Loading an AWQ quantized model requires gptqmodel"),
        RuntimeError("size mismatch"),
        OSError("it has no file named model.safetensors"),
        FileNotFoundError(errno.ENOENT, "no such file"),
        KeyError("model.norm.weight"),
        AttributeError("no rope_theta"),
        TypeError("unexpected keyword"),
        NotImplementedError("no such activation"),
    ],
    ids=repr,
)
def test_error_of_a_library_is_the_models(error: Exception) -> None:
    with pytest.raises(ModelError) as caught, loading("model /m"):
        raise error

    assert str(caught.value) == f"model /m cannot be loaded: {type(error).__name__}: {error}"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        OSError(errno.EIO, "input/output error"),
        OSError(errno.ESTALE, "stale file handle"),
        ConnectionResetError(),
        TimeoutError(),
    ],
    ids=repr,
)
def test_error_that_a_restart_may_mend_stays_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, loading("model /m"):
        raise error

    assert not isinstance(caught.value, ModelError)


def test_error_of_the_model_keeps_its_words() -> None:
    with pytest.raises(ModelError, match=r"^it is of another family$"), loading("model /m"):
        raise ModelError("it is of another family")


class Response:
    """As much of a hub's answer as its errors need."""

    def __init__(self, status_code: int) -> None:
        self.status_code = status_code
        self.headers: dict[str, str] = {}
        self.request = None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(RepositoryNotFoundError("none", response=Response(404)), ModelError, id="404"),  # type: ignore[arg-type]
        pytest.param(GatedRepoError("gated", response=Response(403)), ModelError, id="403"),  # type: ignore[arg-type]
        pytest.param(HfHubHTTPError("busy", response=Response(503)), ConnectionError, id="503"),  # type: ignore[arg-type]
        pytest.param(HfHubHTTPError("slow", response=Response(429)), ConnectionError, id="429"),  # type: ignore[arg-type]
        pytest.param(LocalEntryNotFoundError("no network"), ConnectionError, id="no network"),
        pytest.param(PermissionError("cache"), ModelError, id="cache of others"),
    ],
)
def test_hub_that_does_not_answer_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[Exception]
) -> None:
    def failing(*_: object, **__: object) -> Path:
        raise error

    monkeypatch.setattr(folder, "snapshot_download", failing)

    with pytest.raises(kind, match="model owner/name at revision v1 cannot be fetched"):
        model_folder(ModelFiles(source="owner/name", is_path=False, revision="v1"))
