"""Sources of models and data sets: a union with exactly one member set."""

from typing import Annotated

from pydantic import StringConstraints

from hetrl_api.validation.rules import ApiModel

ObjectName = Annotated[
    str,
    StringConstraints(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"),
]
"""The name of another Kubernetes object."""

Path = Annotated[str, StringConstraints(min_length=1, max_length=1024)]

SubPath = Annotated[
    str,
    StringConstraints(max_length=1024, pattern=r"^\.?[^/.][^/]*(/\.?[^/.][^/]*)*/?$"),
]
"""A path inside a volume: relative, and not upwards from its root."""


class Claim(ApiModel):
    """A file or folder on a PersistentVolumeClaim of the job's namespace."""

    name: ObjectName
    """The claim. `hetrl run` maps it to a folder with `--claim NAME=FOLDER`."""

    path: SubPath | None = None
    """Path inside the claim; unset: its root."""


class Source(ApiModel):
    """Exactly one of path, hub, claim and uri."""

    path: Path | None = None
    """Path in the image or a mounted volume; `hetrl run` takes it from the job's own folder."""

    hub: (
        Annotated[
            str, StringConstraints(max_length=256, pattern=r"^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$")
        ]
        | None
    ) = None
    """Hugging Face id, `owner/name`."""

    claim: Claim | None = None
    """On a PersistentVolumeClaim."""

    uri: Annotated[str, StringConstraints(min_length=1, max_length=2048)] | None = None
    """An object of S3, Google Cloud Storage, Azure or a web server: `s3://bucket/train.jsonl`,
    `gs://...`, `az://container/...`, `https://...`. Only for prompts so far."""


SOURCE_MEMBERS = ("path", "hub", "claim", "uri")
