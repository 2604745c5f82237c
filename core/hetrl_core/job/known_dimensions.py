"""Dimensions of well-known Hub models, for planning before anything has read their files."""

from dataclasses import dataclass

from hetrl_core.job.architecture import ModelArchitecture, from_hugging_face
from hetrl_core.job.spec import ModelFiles
from hetrl_core.model.hub_models import HUB_MODELS, HubModel, similar_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDimensions:
    """Dimensions from the table of known models."""

    architecture: ModelArchitecture
    origin: str
    """Where they come from, for users: the commit, and whether the job names another revision."""


def known_dimensions(model: ModelFiles) -> KnownDimensions | None:
    """Return the dimensions of a Hub model that the table lists; None for other models."""
    known = None if model.is_path else HUB_MODELS.get(model.source)
    if known is None:
        return None
    return KnownDimensions(
        architecture=from_hugging_face(known.config), origin=_origin(known, model.revision)
    )


def similar_known_models(model: ModelFiles) -> str:
    """Return the end of a message about a Hub model that the table does not list."""
    similar = () if model.is_path else similar_ids(model.source)
    return f"; known Hub ids that are similar: {', '.join(similar)}" if similar else ""


def _origin(known: HubModel, revision: str) -> str:
    text = (
        f"the dimensions of {known.id} come from the table of known models "
        f"(docs/known-models.md), as of commit {known.commit[:12]}"
    )
    if not revision or revision == known.commit:
        return text
    return (
        f"{text}, and the job names revision {revision}: give spec.model.architecture if that "
        "revision has others"
    )
