"""The check of a job's models: by headers of their weights, wherever their files are.

A model of the hub is not downloaded: its small files are, and of its weights the headers are read.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from huggingface_hub import HfFileSystem, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

from hetrl_core.job.spec import ModelFiles
from hetrl_core.model.check import ModelFacts, ModelProblems, Use, checked
from hetrl_core.model.context import Lengths
from hetrl_core.model.folder import Open
from hetrl_core.preflight import MODEL_INVALID
from hetrl_runtime.preflight.fault import Fault

_TOKENIZER_FILES = ("*.json", "*.txt", "*.model", "*.jinja")
_LASTING = range(400, 500)
_TOO_MANY_REQUESTS = 429


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedModel:
    """A model that can be used."""

    facts: ModelFacts
    folder: Path
    """Where its configuration and tokenizer are on this machine."""


def checked_model(
    model: ModelFiles, use: Use, lengths: Lengths | None = None
) -> CheckedModel | Fault:
    """Return what a model is, or why it cannot be used.

    Raises:
        ConnectionError: the hub does not answer, so that nothing is known of the model.
    """
    try:
        names, opened = _files(model)
        found = checked(names, opened, use=use, lengths=lengths)
        if isinstance(found, ModelProblems):
            return Fault(reason=MODEL_INVALID, message=found.of(model.source))
        return CheckedModel(facts=found, folder=tokenizer_folder(model))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        said = f"model {_name(model)} cannot be read: {' '.join(str(error).split())}"
        if not model.is_path and _may_pass(error):
            raise ConnectionError(said) from error
        return Fault(reason=MODEL_INVALID, message=said)


def _files(model: ModelFiles) -> tuple[Collection[str], Open]:
    """Return the names of a model's files, and what opens one of them."""
    if model.is_path:
        folder = Path(model.source)
        return [each.name for each in folder.iterdir()], lambda name: (folder / name).open("rb")
    files = HfFileSystem()
    root = f"{model.source}@{model.revision}" if model.revision else model.source
    paths = [str(each) for each in files.ls(root, detail=False)]
    by_name = {path.rpartition("/")[2]: path for path in paths}
    return by_name.keys(), lambda name: cast("BinaryIO", files.open(by_name[name], "rb"))


def tokenizer_folder(model: ModelFiles) -> Path:
    """Return where a model's configuration and tokenizer are on this machine, fetched if need be.

    Raises:
        OSError: they cannot be fetched.
    """
    if model.is_path:
        return Path(model.source)
    found = snapshot_download(
        model.source, revision=model.revision or None, allow_patterns=list(_TOKENIZER_FILES)
    )
    return Path(str(found))


def _name(model: ModelFiles) -> str:
    return f"{model.source} at revision {model.revision}" if model.revision else model.source


def _may_pass(error: Exception) -> bool:
    if isinstance(error, HfHubHTTPError) and error.response is not None:
        status = error.response.status_code
        return status not in _LASTING or status == _TOO_MANY_REQUESTS
    return not isinstance(error, HFValidationError | FileNotFoundError | PermissionError)
