"""`spec.runtime`: what runs in the pods, and what a cluster wants added to them.

The pod template is a curated subset: what is not here is the operator's to decide.
"""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from hetrl_api.job.resources import Labels
from hetrl_api.job.source import ObjectName, SubPath
from hetrl_api.validation.lists import Keyed
from hetrl_api.validation.rules import ApiModel, Rule, exactly_one, section, value_not_yet
from hetrl_core.job.spec import Engine, WeightTransport
from hetrl_core.task import Role

Image = Annotated[str, StringConstraints(min_length=1, max_length=512)]
VolumeName = Annotated[
    str, StringConstraints(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
]
Quantity = Annotated[
    str, StringConstraints(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$")
]


class Images(ApiModel):
    """Images of the pods; unset: those that the operator was installed with."""

    trainer: Image | None = None
    """Trainer pods."""

    rollout: Image | None = None
    """Rollout pods, and trainer pods that generate as well."""

    coordinator: Image | None = None
    """The coordinator's pod."""

    inference: Image | None = None
    """Inference pods; unset: the trainer's."""

    def of(self, role: Role) -> str | None:
        """Return the image of a role's pods; None: the operator's."""
        given: str | None = getattr(self, role)
        return self.trainer if given is None and role is Role.INFERENCE else given


class TrajectoryTransport(StrEnum):
    """How trajectories travel."""

    GRPC = "Grpc"
    PROCESS_GROUP = "ProcessGroup"


class Transport(ApiModel):
    """How tensors travel between pods."""

    trajectories: TrajectoryTransport = TrajectoryTransport.GRPC
    """Grpc, up to the trainer's first process, which gives them to its others by process group.
    ProcessGroup is refused: what a dead worker had sent would be lost."""

    weights: WeightTransport = WeightTransport.GRPC
    """How weights reach rollouts of the trainer's region: each fetches them over mutual TLS (Grpc),
    or the trainer broadcasts them to all at once (Nccl: by NCCL between GPUs, by gloo otherwise),
    faster but in the clear. Into other regions it always is Grpc."""

    rules: ClassVar[tuple[Rule, ...]] = (
        value_not_yet(
            "spec.runtime.transport.trajectories",
            name="trajectories",
            value="ProcessGroup",
            instead="trajectories travel by Grpc",
        ),
    )


class TolerationOperator(StrEnum):
    """How a toleration matches a taint."""

    EQUAL = "Equal"
    EXISTS = "Exists"


class TaintEffect(StrEnum):
    """What a taint does."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(ApiModel):
    """A taint that the pods tolerate, as in a pod."""

    key: Annotated[str, StringConstraints(max_length=317)] | None = None
    """Taint key; unset with Exists: all."""

    operator: TolerationOperator = TolerationOperator.EQUAL
    """Equal or Exists."""

    value: Annotated[str, StringConstraints(max_length=63)] | None = None
    """Taint value, with Equal."""

    effect: TaintEffect | None = None
    """Unset: all effects."""


class SecretKey(ApiModel):
    """One value of a Secret of the job's namespace."""

    name: ObjectName
    """The Secret."""

    key: Annotated[str, StringConstraints(max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
    """Which of its values."""


class EnvironmentSource(ApiModel):
    """What sets a variable when a pod starts."""

    secret_key_ref: SecretKey
    """A Secret, which the kubelet reads and the operator does not; `hetrl run` takes the variable
    from its own environment."""


class EnvironmentVariable(ApiModel):
    """A variable of every container."""

    name: Annotated[str, StringConstraints(max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    """Of the variable; names that begin with HETRL_ are the operator's."""

    value: Annotated[str, StringConstraints(max_length=4096)] = ""
    """Its value."""

    value_from: EnvironmentSource | None = None
    """Where its value comes from, instead of `value`: tokens and keys belong in a Secret."""


class ClaimVolume(ApiModel):
    """A PersistentVolumeClaim as a volume."""

    claim_name: ObjectName
    """The claim."""

    read_only: bool = False
    """Mount read-only."""


class ConfigMapVolume(ApiModel):
    """A ConfigMap as a volume."""

    name: ObjectName
    """The ConfigMap."""


class EmptyDirVolume(ApiModel):
    """A folder that lives as long as its pod."""

    memory: bool = False
    """Keep it in memory."""

    size_limit: Quantity | None = None
    """Such as 8Gi."""


class Volume(ApiModel):
    """A volume of every pod; exactly one source."""

    name: VolumeName
    """Of the volume; names that begin with hetrl are the operator's."""

    persistent_volume_claim: ClaimVolume | None = None
    """A PersistentVolumeClaim."""

    config_map: ConfigMapVolume | None = None
    """A ConfigMap."""

    empty_dir: EmptyDirVolume | None = None
    """A folder that lives as long as its pod."""


class VolumeMount(ApiModel):
    """Where every container sees a volume."""

    name: VolumeName
    """The volume."""

    mount_path: Annotated[str, StringConstraints(max_length=1024, pattern=r"^/[^:]+$")]
    """Absolute; paths below /hetrl are the operator's."""

    sub_path: SubPath | None = None
    """Path inside the volume; unset: its root."""

    read_only: bool = False
    """Mount read-only."""


class Compute(ApiModel):
    """Requests, and limits of memory, of one container; GPUs come from the plan."""

    cpu: Quantity | None = None
    """Requested cores, such as 4 or 500m."""

    memory: Quantity | None = None
    """Requested and most memory, such as 16Gi."""


class RoleCompute(ApiModel):
    """CPU and memory by role."""

    trainer: Compute | None = None
    """Trainer pods."""

    rollout: Compute | None = None
    """Rollout pods."""

    coordinator: Compute | None = None
    """The coordinator's pod."""

    inference: Compute | None = None
    """Inference pods."""


class PodTemplate(ApiModel):
    """What is added to every pod of the job."""

    labels: Labels = Field(default={})
    """Labels; those of hetrl.dev and app.kubernetes.io are the operator's."""

    annotations: Annotated[
        dict[
            Annotated[str, StringConstraints(min_length=1, max_length=317)],
            Annotated[str, StringConstraints(max_length=4096)],
        ],
        Field(max_length=32),
    ] = Field(default={})
    """Annotations; those of hetrl.dev are the operator's."""

    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=16)] = ()
    """Taints that the pods tolerate; nvidia.com/gpu always is."""

    env: Annotated[tuple[EnvironmentVariable, ...], Keyed(("name",), most=64)] = ()
    """Variables of every container."""

    volumes: Annotated[tuple[Volume, ...], Keyed(("name",), most=16)] = ()
    """Volumes of every pod."""

    volume_mounts: Annotated[tuple[VolumeMount, ...], Keyed(("mountPath",), most=16)] = ()
    """Where every container sees them."""

    resources: RoleCompute = section(RoleCompute)
    """CPU and memory by role."""

    image_pull_secrets: Annotated[tuple[ObjectName, ...], Field(max_length=8)] = ()
    """Secrets to pull the images with."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            condition=(
                "!has(self.labels) || self.labels.all(key, "
                "!key.startsWith('hetrl.dev/') && !key.startsWith('app.kubernetes.io/'))"
            ),
            message=(
                "spec.runtime.podTemplate.labels must not begin with hetrl.dev/ or "
                "app.kubernetes.io/"
            ),
            field=".labels",
        ),
        Rule(
            condition=(
                "!has(self.annotations) || self.annotations.all(key, !key.startsWith('hetrl.dev/'))"
            ),
            message="spec.runtime.podTemplate.annotations must not begin with hetrl.dev/",
            field=".annotations",
        ),
        Rule(
            condition="!has(self.env) || self.env.all(each, !each.name.startsWith('HETRL_'))",
            message="spec.runtime.podTemplate.env names must not begin with HETRL_",
            field=".env",
        ),
        Rule(
            condition=(
                "!has(self.env) || self.env.all(each, "
                "!has(each.valueFrom) || !has(each.value) || each.value == '')"
            ),
            message="spec.runtime.podTemplate.env must not set both value and valueFrom",
            field=".env",
        ),
        Rule(
            condition=(
                "!has(self.volumes) || self.volumes.all(each, !each.name.startsWith('hetrl'))"
            ),
            message="spec.runtime.podTemplate.volumes names must not begin with hetrl",
            field=".volumes",
        ),
        Rule(
            condition="!has(self.volumes) || self.volumes.all(each, "
            + exactly_one(
                "", ("persistentVolumeClaim", "configMap", "emptyDir"), of="each"
            ).condition
            + ")",
            message=(
                "spec.runtime.podTemplate.volumes must each set exactly one of "
                "persistentVolumeClaim, configMap, emptyDir"
            ),
            field=".volumes",
        ),
        Rule(
            condition=(
                "!has(self.volumeMounts) || self.volumeMounts.all(mount, "
                "mount.mountPath != '/hetrl' && !mount.mountPath.startsWith('/hetrl/'))"
            ),
            message="spec.runtime.podTemplate.volumeMounts must not lie below /hetrl",
            field=".volumeMounts",
        ),
        # Other ways to write a path would pass the rule above and lie below /hetrl all the same.
        Rule(
            condition=(
                "!has(self.volumeMounts) || self.volumeMounts.all(mount, "
                "!mount.mountPath.contains('//') && !mount.mountPath.contains('/./') && "
                "!mount.mountPath.contains('/../') && !mount.mountPath.endsWith('/.') && "
                "!mount.mountPath.endsWith('/..'))"
            ),
            message=(
                "spec.runtime.podTemplate.volumeMounts must have paths without //, /./ and /../"
            ),
            field=".volumeMounts",
            spares_stored=True,
        ),
        Rule(
            condition=(
                "!has(self.volumeMounts) || self.volumeMounts.all(mount, has(self.volumes) && "
                "self.volumes.exists(volume, volume.name == mount.name))"
            ),
            message=(
                "spec.runtime.podTemplate.volumeMounts must name volumes of "
                "spec.runtime.podTemplate.volumes"
            ),
            field=".volumeMounts",
        ),
    )


class Traces(ApiModel):
    """Spans of trajectories and steps, sent by OTLP over HTTP."""

    endpoint: Annotated[
        str, StringConstraints(max_length=2048, pattern=r"^https?://[^/?#\s]+(/[^?#\s]*)?$")
    ]
    """Of a collector, such as http://otel-collector.monitoring:4318; /v1/traces is added."""

    sample_ratio: Annotated[float, Field(ge=0, le=1)] = 0.01
    """Share of prompts whose trajectories are traced, all of a group or none; steps always are."""


class Telemetry(ApiModel):
    """What the pods tell of themselves beside metrics and logs."""

    traces: Traces | None = None
    """Unset: no spans."""


class Runtime(ApiModel):
    """What runs in the pods."""

    images: Images = section(Images)
    """Images; unset: those that the operator was installed with."""

    engine: Engine = Engine.VLLM
    """What generates: vllm, or transformers for small models."""

    transport: Transport = section(Transport)
    """How tensors travel between pods."""

    pod_template: PodTemplate = section(PodTemplate)
    """What is added to every pod."""

    telemetry: Telemetry | None = None
    """What the pods tell of themselves beside metrics and logs."""
