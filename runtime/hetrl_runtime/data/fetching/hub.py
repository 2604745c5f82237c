"""A data set of the Hugging Face hub: its files, fetched once, of one commit for the whole run.

The hub's own library downloads; ``open_prompts`` reads the files.
"""

import json
import os
import threading
from http import HTTPStatus
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
)

from hetrl_core.job.spec import HubDataset
from hetrl_runtime.data.fetching.retry import Failed, fetch_with_retries
from hetrl_runtime.data.prompt import Unusable

_PIN = "dataset.json"


def fetched(
    dataset: HubDataset,
    files: str,
    *,
    state_path: Path,
    timeout_seconds: float,
    stop: threading.Event,
) -> Path | Unusable:
    """Return where a data set's files are on this machine, or why they cannot be fetched.

    A request that the hub does not answer is retried. The run's state keeps the commit: a
    restarted coordinator reads the same files, even if the branch has moved on.

    Args:
        dataset: which.
        files: path or pattern inside it.
        state_path: the coordinator's own folder.
        timeout_seconds: how long to retry.
        stop: set when the answer is no longer needed.
    """

    def ask() -> Path | Failed:
        found = _snapshot(dataset, files, revision=_pinned(state_path, dataset))
        if isinstance(found, Failed):
            return found
        _pin(state_path, dataset, commit=found.name)
        return found / files

    return fetch_with_retries(ask, timeout_seconds=timeout_seconds, stop=stop)


def _snapshot(dataset: HubDataset, files: str, *, revision: str) -> Path | Failed:
    try:
        folder = snapshot_download(
            dataset.name,
            repo_type="dataset",
            revision=revision or None,
            allow_patterns=[files],
            endpoint=os.environ.get("HF_ENDPOINT"),
        )
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        # The library's own words for a hub that answers with an error are that there is no cache.
        cause = error.__cause__ if isinstance(error, LocalEntryNotFoundError) else error
        said = " ".join(str(cause or error).split())
        return Failed(
            message=f"data set {dataset} cannot be fetched from the hub: {said}",
            may_pass=_may_pass(cause or error),
        )
    return Path(str(folder))


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        return status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS
    # The hub is down or not reachable; the library's transport raises its own errors then.
    return not isinstance(error, OfflineModeIsEnabled | HFValidationError | PermissionError)


def _pinned(state_path: Path, dataset: HubDataset) -> str:
    """Return the commit that this run has read before, else the revision that is asked for."""
    try:
        kept = json.loads((state_path / _PIN).read_text())
    except (OSError, ValueError):
        return dataset.revision
    is_same = (kept.get("name"), kept.get("revision")) == (dataset.name, dataset.revision)
    return str(kept.get("commit")) if is_same else dataset.revision


def _pin(state_path: Path, dataset: HubDataset, *, commit: str) -> None:
    state_path.mkdir(parents=True, exist_ok=True)
    kept = {"name": dataset.name, "revision": dataset.revision, "commit": commit}
    fresh = state_path / f"{_PIN}.new"
    fresh.write_text(json.dumps(kept) + "\n")
    fresh.replace(state_path / _PIN)
