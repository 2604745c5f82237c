"""A model's files on this machine: a given folder, or a download by hub id."""

from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

from hetrl_core.job.spec import ModelFiles
from hetrl_runtime.rollout.errors import ModelNotFoundError

_WANTED = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja")
"""No pickled weights: loading those would execute them."""


def model_folder(model: ModelFiles) -> Path:
    """Return the folder that holds a model's files.

    Raises:
        ModelNotFoundError: the folder is not there or holds no model, or the hub has none.
    """
    folder = Path(model.source) if model.is_path else _downloaded(model)
    if not folder.is_dir():
        raise ModelNotFoundError(f"model path {folder} is not a directory")
    if not (folder / "config.json").is_file():
        raise ModelNotFoundError(f"model path {folder} has no config.json")
    return folder


def _downloaded(model: ModelFiles) -> Path:
    try:
        return Path(
            snapshot_download(
                model.source, revision=model.revision or None, allow_patterns=list(_WANTED)
            )
        )
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        revision = f" at revision {model.revision}" if model.revision else ""
        raise ModelNotFoundError(
            f"model {model.source}{revision} cannot be fetched from the hub: {error}"
        ) from error
