"""A model's folder on this machine, given or downloaded by hub id, and its check."""

import logging
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

from hetrl_core.job.spec import ModelFiles
from hetrl_core.model.check import ModelProblems, Use, checked
from hetrl_core.model.context import Lengths
from hetrl_core.model.folder import weight_files
from hetrl_runtime.model_files.errors import ModelError

log = logging.getLogger(__name__)

_WANTED = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja")
"""No pickled weights: loading those would execute them."""

_REFUSED = range(400, 500)
_TOO_MANY_REQUESTS = 429


def model_folder(model: ModelFiles) -> Path:
    """Return the folder that holds a model's files.

    Raises:
        ModelError: the folder is not there or holds no model, or the hub has none.
        ConnectionError: the hub does not answer.
    """
    folder = Path(model.source) if model.is_path else _downloaded(model)
    if not folder.is_dir():
        raise ModelError(f"model path {folder} is not a directory")
    if not (folder / "config.json").is_file():
        raise ModelError(f"model path {folder} has no config.json")
    return folder


def checked_folder(
    model: ModelFiles, *, use: Use = Use.CAUSAL, lengths: Lengths | None = None
) -> Path:
    """Return the folder of a model that can be used, after reading all but its weights.

    Raises:
        ModelError: it cannot; every reason in words.
        ConnectionError: the hub does not answer.
        OSError: a file cannot be opened.
    """
    folder = model_folder(model)
    found = checked(
        _names(folder), lambda name: (folder / name).open("rb"), use=use, lengths=lengths
    )
    if isinstance(found, ModelProblems):
        raise ModelError(found.of(model.source))
    for warning in found.warnings:
        log.warning("model %s: %s", model.source, warning)
    return folder


def files_of_weights(folder: Path) -> tuple[Path, ...]:
    """Return the files that hold the weights of a folder; others may lie beside them."""
    found = weight_files(_names(folder), lambda name: (folder / name).open("rb"))
    return tuple(folder / each for each in found)


def _names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def _downloaded(model: ModelFiles) -> Path:
    try:
        return Path(
            snapshot_download(
                model.source, revision=model.revision or None, allow_patterns=list(_WANTED)
            )
        )
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        revision = f" at revision {model.revision}" if model.revision else ""
        said = f"model {model.source}{revision} cannot be fetched from the hub: {error}"
        raise (ConnectionError if _may_pass(error) else ModelError)(said) from error


def _may_pass(error: Exception) -> bool:
    if isinstance(error, HfHubHTTPError) and error.response is not None:
        status = error.response.status_code
        return status not in _REFUSED or status == _TOO_MANY_REQUESTS
    return isinstance(error, LocalEntryNotFoundError | ConnectionError | TimeoutError)
