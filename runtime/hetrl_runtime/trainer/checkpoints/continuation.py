"""Continuation of checkpoints that a run finds: they must be of what the run is of."""

import logging
from collections.abc import Collection

from pydantic import ValidationError

from hetrl_core.job.identity import Aspect, Identity, differences, refusal
from hetrl_runtime.trainer.checkpoints import identity
from hetrl_runtime.trainer.checkpoints.checkpoint import (
    IDENTITY,
    CheckpointError,
    CheckpointFolder,
)

log = logging.getLogger(__name__)


def recorded_identity(
    folder: CheckpointFolder, present: Identity, *, allowed: Collection[Aspect]
) -> Identity:
    """Return what the newest checkpoint is of, once it is known that it may be continued.

    One of an earlier release does not say, and is continued with a warning; so is one that
    differs in what is allowed.

    Raises:
        CheckpointError: it is of something else.
    """
    path = folder.newest_path()
    if path is None:
        return {}
    try:
        recorded = identity.from_json((path / IDENTITY).read_bytes())
    except FileNotFoundError:
        log.warning(
            "checkpoint %s does not say of which model, data and reward it is, as an earlier "
            "release wrote it: it is continued unchecked; the next one will say",
            path,
        )
        return {}
    except (OSError, ValidationError) as error:
        raise CheckpointError(f"checkpoint {path} is damaged: {error}") from error
    found = differences(recorded, present)
    if refused := [each for each in found if each.aspect not in allowed]:
        raise CheckpointError(f"checkpoint {path} is of another run: {refusal(refused)}")
    for each in found:
        log.warning("checkpoint continued on purpose: path=%s: %s", path, each)
    return recorded
