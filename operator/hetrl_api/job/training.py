"""`spec.training` and `spec.storage`: the optimizer's run, and where it is kept."""

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from hetrl_api.job.source import ObjectName, Path, SubPath
from hetrl_api.validation.rules import ApiModel, Rule, not_yet, section
from hetrl_core.job.identity import Aspect


class Training(ApiModel):
    """The optimizer's run."""

    steps: Annotated[int, Field(ge=1, le=10_000_000)]
    """Policy versions to publish; then the job is complete."""

    learning_rate: Annotated[float, Field(ge=0, le=1)] = 1e-6
    """AdamW's learning rate, after a warm-up of five steps."""

    checkpoint_every_steps: Annotated[int, Field(ge=1, le=1_000_000)] = 20
    """Steps from one checkpoint to the next."""

    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1
    """Of prompt order and sampling."""


class Checkpoints(ApiModel):
    """Where checkpoints go."""

    persistent_volume_claim: ObjectName | None = None
    """A claim of the job's namespace; with several trainer nodes it must be ReadWriteMany."""

    uri: Annotated[str, StringConstraints(min_length=1, max_length=2048)] | None = None
    """Object storage. Not supported yet."""

    path: SubPath | None = None
    """Folder inside the claim; unset: the job's name."""

    keep_last: Annotated[int, Field(ge=1, le=1000)] = 3
    """Older checkpoints are deleted."""

    allow_changes: Annotated[tuple[Aspect, ...], Field(max_length=5)] = ()
    """In what the job may differ from the run whose checkpoints it continues. A job that differs in
    anything else fails. Remove it once the job
    goes on: its own checkpoints are of the job as it is."""

    rules: ClassVar[tuple[Rule, ...]] = (
        not_yet(
            "spec.storage.checkpoints.uri", path="self.uri", instead="use persistentVolumeClaim"
        ),
        Rule(
            condition="!has(self.path) || has(self.persistentVolumeClaim)",
            message=(
                "spec.storage.checkpoints.path needs spec.storage.checkpoints.persistentVolumeClaim"
            ),
            field=".path",
        ),
    )


class TensorBoard(ApiModel):
    """Event files, written by the coordinator for each step."""

    path: Path
    """Folder in the coordinator's container: of a volume that `spec.runtime.podTemplate` mounts, or
    lost with the pod. `hetrl run` takes it from the job's own folder."""


class Storage(ApiModel):
    """What outlives the pods."""

    checkpoints: Checkpoints = section(Checkpoints)
    """Unset claim: kept with the trainer's pod and lost with it."""

    tensorboard: Annotated[TensorBoard | None, Field(alias="tensorBoard")] = None
    """Unset: no event files."""
