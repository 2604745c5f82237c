"""The files of a job's data: here already, or fetched from a hub or a store."""

import threading
from functools import partial
from pathlib import Path

from hetrl_core.job.spec import DataSpec, HubDataset, ObjectStore, PromptSet
from hetrl_runtime.data.prompt import Unusable


def fetched(
    data: DataSpec,
    *,
    state_path: Path,
    timeout_seconds: float,
    stop: threading.Event,
    accepts_changes: bool = False,
) -> DataSpec | Unusable:
    """Return the same data with their files on this machine, if need be once they have come.

    Args:
        data: the data of a job.
        state_path: a folder of the caller's own, which keeps the revision that was fetched.
        timeout_seconds: how long to retry.
        stop: set when the answer is no longer needed.
        accepts_changes: whether a store's objects may differ from those that were fetched before.
    """
    places: list[str] = []
    for each in data.prompt_sets:
        place = _place(
            each,
            # What is kept of a set's revision is its own.
            state_path=state_path / "sets" / each.name if each.name else state_path,
            timeout_seconds=timeout_seconds,
            stop=stop,
            accepts_changes=accepts_changes,
        )
        if isinstance(place, Unusable):
            return place
        places.append(str(place))
    return data.found_at(places)


def _place(
    prompt_set: PromptSet,
    *,
    state_path: Path,
    timeout_seconds: float,
    stop: threading.Event,
    accepts_changes: bool,
) -> Path | Unusable:
    # Imported where they are needed: they would be half of a coordinator's start.
    match prompt_set.dataset:
        case None:
            return Path(prompt_set.prompts)
        case HubDataset() as dataset:
            from hetrl_runtime.data.fetching import hub  # noqa: PLC0415

            fetch = partial(hub.fetched, dataset)
        case ObjectStore() as source:
            from hetrl_runtime.data.fetching import store  # noqa: PLC0415

            fetch = partial(store.fetched, source, accepts_changes=accepts_changes)
    return fetch(
        prompt_set.prompts, state_path=state_path, timeout_seconds=timeout_seconds, stop=stop
    )
