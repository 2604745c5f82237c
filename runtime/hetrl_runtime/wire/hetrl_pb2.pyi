from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    ACCEPTED: _ClassVar[Outcome]
    DUPLICATE: _ClassVar[Outcome]
    EXPIRED: _ClassVar[Outcome]
    STALE: _ClassVar[Outcome]
    FENCED: _ClassVar[Outcome]
    MALFORMED: _ClassVar[Outcome]
    FAILED: _ClassVar[Outcome]
    UNSCORED: _ClassVar[Outcome]
    UNJUDGED: _ClassVar[Outcome]
    LEFT_OUT: _ClassVar[Outcome]
OUTCOME_UNSPECIFIED: Outcome
ACCEPTED: Outcome
DUPLICATE: Outcome
EXPIRED: Outcome
STALE: Outcome
FENCED: Outcome
MALFORMED: Outcome
FAILED: Outcome
UNSCORED: Outcome
UNJUDGED: Outcome
LEFT_OUT: Outcome

class JobIdentity(_message.Message):
    __slots__ = ("namespace", "name", "uid")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    uid: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ...) -> None: ...

class RegisterRequest(_message.Message):
    __slots__ = ("job", "process", "role", "instance", "resume", "concurrency", "pod_set", "region", "relay_address", "inference", "needs_reference", "data")
    JOB_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    POD_SET_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    RELAY_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INFERENCE_FIELD_NUMBER: _ClassVar[int]
    NEEDS_REFERENCE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    job: JobIdentity
    process: str
    role: str
    instance: str
    resume: ResumePoint
    concurrency: int
    pod_set: str
    region: str
    relay_address: str
    inference: InferenceEndpoint
    needs_reference: bool
    data: DataIdentity
    def __init__(self, job: _Optional[_Union[JobIdentity, _Mapping]] = ..., process: _Optional[str] = ..., role: _Optional[str] = ..., instance: _Optional[str] = ..., resume: _Optional[_Union[ResumePoint, _Mapping]] = ..., concurrency: _Optional[int] = ..., pod_set: _Optional[str] = ..., region: _Optional[str] = ..., relay_address: _Optional[str] = ..., inference: _Optional[_Union[InferenceEndpoint, _Mapping]] = ..., needs_reference: _Optional[bool] = ..., data: _Optional[_Union[DataIdentity, _Mapping]] = ...) -> None: ...

class DataIdentity(_message.Message):
    __slots__ = ("name", "digest")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    name: str
    digest: str
    def __init__(self, name: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class InferenceEndpoint(_message.Message):
    __slots__ = ("address", "tasks")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    address: str
    tasks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, address: _Optional[str] = ..., tasks: _Optional[_Iterable[str]] = ...) -> None: ...

class ResumePoint(_message.Message):
    __slots__ = ("version", "next_group", "open_groups")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NEXT_GROUP_FIELD_NUMBER: _ClassVar[int]
    OPEN_GROUPS_FIELD_NUMBER: _ClassVar[int]
    version: int
    next_group: int
    open_groups: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, version: _Optional[int] = ..., next_group: _Optional[int] = ..., open_groups: _Optional[_Iterable[int]] = ...) -> None: ...

class RegisterReply(_message.Message):
    __slots__ = ("epoch", "version", "data")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    version: int
    data: DataIdentity
    def __init__(self, epoch: _Optional[int] = ..., version: _Optional[int] = ..., data: _Optional[_Union[DataIdentity, _Mapping]] = ...) -> None: ...

class LeaseRequest(_message.Message):
    __slots__ = ("epoch", "process", "version", "max_trajectories", "wait_seconds")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MAX_TRAJECTORIES_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    process: str
    version: int
    max_trajectories: int
    wait_seconds: float
    def __init__(self, epoch: _Optional[int] = ..., process: _Optional[str] = ..., version: _Optional[int] = ..., max_trajectories: _Optional[int] = ..., wait_seconds: _Optional[float] = ...) -> None: ...

class LeaseReply(_message.Message):
    __slots__ = ("leases", "register_again")
    LEASES_FIELD_NUMBER: _ClassVar[int]
    REGISTER_AGAIN_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[Lease]
    register_again: bool
    def __init__(self, leases: _Optional[_Iterable[_Union[Lease, _Mapping]]] = ..., register_again: _Optional[bool] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("group", "members", "question", "answer", "traceparents", "columns", "messages")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENTS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    group: int
    members: _containers.RepeatedScalarFieldContainer[int]
    question: str
    answer: str
    traceparents: _containers.RepeatedScalarFieldContainer[str]
    columns: str
    messages: str
    def __init__(self, group: _Optional[int] = ..., members: _Optional[_Iterable[int]] = ..., question: _Optional[str] = ..., answer: _Optional[str] = ..., traceparents: _Optional[_Iterable[str]] = ..., columns: _Optional[str] = ..., messages: _Optional[str] = ...) -> None: ...

class Trajectory(_message.Message):
    __slots__ = ("group", "member", "epoch", "process", "prompt_tokens", "response_tokens", "behaviour_log_probs", "token_versions", "reward", "finish_reason", "generation_seconds", "response_text", "question", "answer", "error", "traceparent", "reference_log_probs", "unjudged", "left_out", "reward_parts")
    class RewardPartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    BEHAVIOUR_LOG_PROBS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    GENERATION_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_TEXT_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_LOG_PROBS_FIELD_NUMBER: _ClassVar[int]
    UNJUDGED_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    REWARD_PARTS_FIELD_NUMBER: _ClassVar[int]
    group: int
    member: int
    epoch: int
    process: str
    prompt_tokens: bytes
    response_tokens: bytes
    behaviour_log_probs: bytes
    token_versions: bytes
    reward: float
    finish_reason: str
    generation_seconds: float
    response_text: str
    question: str
    answer: str
    error: str
    traceparent: str
    reference_log_probs: bytes
    unjudged: str
    left_out: str
    reward_parts: _containers.ScalarMap[str, float]
    def __init__(self, group: _Optional[int] = ..., member: _Optional[int] = ..., epoch: _Optional[int] = ..., process: _Optional[str] = ..., prompt_tokens: _Optional[bytes] = ..., response_tokens: _Optional[bytes] = ..., behaviour_log_probs: _Optional[bytes] = ..., token_versions: _Optional[bytes] = ..., reward: _Optional[float] = ..., finish_reason: _Optional[str] = ..., generation_seconds: _Optional[float] = ..., response_text: _Optional[str] = ..., question: _Optional[str] = ..., answer: _Optional[str] = ..., error: _Optional[str] = ..., traceparent: _Optional[str] = ..., reference_log_probs: _Optional[bytes] = ..., unjudged: _Optional[str] = ..., left_out: _Optional[str] = ..., reward_parts: _Optional[_Mapping[str, float]] = ...) -> None: ...

class Trajectories(_message.Message):
    __slots__ = ("trajectories",)
    TRAJECTORIES_FIELD_NUMBER: _ClassVar[int]
    trajectories: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, trajectories: _Optional[_Iterable[bytes]] = ...) -> None: ...

class DeliveryReceipts(_message.Message):
    __slots__ = ("receipts",)
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    receipts: _containers.RepeatedCompositeFieldContainer[DeliveryReceipt]
    def __init__(self, receipts: _Optional[_Iterable[_Union[DeliveryReceipt, _Mapping]]] = ...) -> None: ...

class DeliveryReceipt(_message.Message):
    __slots__ = ("group", "member", "outcome", "detail")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    group: int
    member: int
    outcome: Outcome
    detail: str
    def __init__(self, group: _Optional[int] = ..., member: _Optional[int] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., detail: _Optional[str] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("epoch", "process", "version", "running", "generated_tokens", "idle_seconds", "busy_seconds", "weight_sync_seconds", "holding", "leaving")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    GENERATED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    IDLE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    BUSY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_SYNC_SECONDS_FIELD_NUMBER: _ClassVar[int]
    HOLDING_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    process: str
    version: int
    running: int
    generated_tokens: int
    idle_seconds: float
    busy_seconds: float
    weight_sync_seconds: float
    holding: _containers.RepeatedCompositeFieldContainer[TrajectoryId]
    leaving: bool
    def __init__(self, epoch: _Optional[int] = ..., process: _Optional[str] = ..., version: _Optional[int] = ..., running: _Optional[int] = ..., generated_tokens: _Optional[int] = ..., idle_seconds: _Optional[float] = ..., busy_seconds: _Optional[float] = ..., weight_sync_seconds: _Optional[float] = ..., holding: _Optional[_Iterable[_Union[TrajectoryId, _Mapping]]] = ..., leaving: _Optional[bool] = ...) -> None: ...

class TrajectoryId(_message.Message):
    __slots__ = ("group", "member")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    group: int
    member: int
    def __init__(self, group: _Optional[int] = ..., member: _Optional[int] = ...) -> None: ...

class HeartbeatReply(_message.Message):
    __slots__ = ("register_again", "withdrawn")
    REGISTER_AGAIN_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    register_again: bool
    withdrawn: _containers.RepeatedCompositeFieldContainer[TrajectoryId]
    def __init__(self, register_again: _Optional[bool] = ..., withdrawn: _Optional[_Iterable[_Union[TrajectoryId, _Mapping]]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("process",)
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    process: str
    def __init__(self, process: _Optional[str] = ...) -> None: ...

class Announcement(_message.Message):
    __slots__ = ("epoch", "version", "weights_address", "finished", "reason", "relay_address", "inference_endpoints")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RELAY_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INFERENCE_ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    version: int
    weights_address: str
    finished: bool
    reason: str
    relay_address: str
    inference_endpoints: _containers.RepeatedCompositeFieldContainer[InferenceEndpoint]
    def __init__(self, epoch: _Optional[int] = ..., version: _Optional[int] = ..., weights_address: _Optional[str] = ..., finished: _Optional[bool] = ..., reason: _Optional[str] = ..., relay_address: _Optional[str] = ..., inference_endpoints: _Optional[_Iterable[_Union[InferenceEndpoint, _Mapping]]] = ...) -> None: ...

class BatchRequest(_message.Message):
    __slots__ = ("epoch", "version", "wait_seconds")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    version: int
    wait_seconds: float
    def __init__(self, epoch: _Optional[int] = ..., version: _Optional[int] = ..., wait_seconds: _Optional[float] = ...) -> None: ...

class CommitRequest(_message.Message):
    __slots__ = ("epoch", "version", "consumed", "discarded", "report", "finished", "reason", "message")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_FIELD_NUMBER: _ClassVar[int]
    DISCARDED_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    version: int
    consumed: _containers.RepeatedCompositeFieldContainer[TrajectoryId]
    discarded: _containers.RepeatedCompositeFieldContainer[TrajectoryId]
    report: StepReport
    finished: bool
    reason: str
    message: str
    def __init__(self, epoch: _Optional[int] = ..., version: _Optional[int] = ..., consumed: _Optional[_Iterable[_Union[TrajectoryId, _Mapping]]] = ..., discarded: _Optional[_Iterable[_Union[TrajectoryId, _Mapping]]] = ..., report: _Optional[_Union[StepReport, _Mapping]] = ..., finished: _Optional[bool] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class StepReport(_message.Message):
    __slots__ = ("step_seconds", "wait_seconds", "metrics")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    STEP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    step_seconds: float
    wait_seconds: float
    metrics: _containers.ScalarMap[str, float]
    def __init__(self, step_seconds: _Optional[float] = ..., wait_seconds: _Optional[float] = ..., metrics: _Optional[_Mapping[str, float]] = ...) -> None: ...

class CommitReply(_message.Message):
    __slots__ = ("resume", "finished", "reason")
    RESUME_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    resume: ResumePoint
    finished: bool
    reason: str
    def __init__(self, resume: _Optional[_Union[ResumePoint, _Mapping]] = ..., finished: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class ProgressRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Progress(_message.Message):
    __slots__ = ("step", "total_steps", "version", "samples_per_second", "reward_mean", "staleness_mean", "staleness_p95", "staleness_max", "eta_seconds", "buffered", "running", "finished", "outcome", "reason", "message", "processes", "waiting_for", "notices", "reward_parts")
    class RewardPartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    REWARD_MEAN_FIELD_NUMBER: _ClassVar[int]
    STALENESS_MEAN_FIELD_NUMBER: _ClassVar[int]
    STALENESS_P95_FIELD_NUMBER: _ClassVar[int]
    STALENESS_MAX_FIELD_NUMBER: _ClassVar[int]
    ETA_SECONDS_FIELD_NUMBER: _ClassVar[int]
    BUFFERED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    REWARD_PARTS_FIELD_NUMBER: _ClassVar[int]
    step: int
    total_steps: int
    version: int
    samples_per_second: float
    reward_mean: float
    staleness_mean: float
    staleness_p95: float
    staleness_max: float
    eta_seconds: float
    buffered: int
    running: int
    finished: bool
    outcome: str
    reason: str
    message: str
    processes: _containers.RepeatedCompositeFieldContainer[ProcessProgress]
    waiting_for: str
    notices: _containers.RepeatedScalarFieldContainer[str]
    reward_parts: _containers.ScalarMap[str, float]
    def __init__(self, step: _Optional[int] = ..., total_steps: _Optional[int] = ..., version: _Optional[int] = ..., samples_per_second: _Optional[float] = ..., reward_mean: _Optional[float] = ..., staleness_mean: _Optional[float] = ..., staleness_p95: _Optional[float] = ..., staleness_max: _Optional[float] = ..., eta_seconds: _Optional[float] = ..., buffered: _Optional[int] = ..., running: _Optional[int] = ..., finished: _Optional[bool] = ..., outcome: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., processes: _Optional[_Iterable[_Union[ProcessProgress, _Mapping]]] = ..., waiting_for: _Optional[str] = ..., notices: _Optional[_Iterable[str]] = ..., reward_parts: _Optional[_Mapping[str, float]] = ...) -> None: ...

class ProcessProgress(_message.Message):
    __slots__ = ("process", "role", "pod_set", "version", "running", "tokens_per_second", "idle_ratio")
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    POD_SET_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    TOKENS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    IDLE_RATIO_FIELD_NUMBER: _ClassVar[int]
    process: str
    role: str
    pod_set: str
    version: int
    running: int
    tokens_per_second: float
    idle_ratio: float
    def __init__(self, process: _Optional[str] = ..., role: _Optional[str] = ..., pod_set: _Optional[str] = ..., version: _Optional[int] = ..., running: _Optional[int] = ..., tokens_per_second: _Optional[float] = ..., idle_ratio: _Optional[float] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("job", "process", "have_version", "resume_version", "offset_bytes", "wait_seconds", "as_patches", "base_sha256", "least_version", "epoch")
    JOB_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    HAVE_VERSION_FIELD_NUMBER: _ClassVar[int]
    RESUME_VERSION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_BYTES_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    AS_PATCHES_FIELD_NUMBER: _ClassVar[int]
    BASE_SHA256_FIELD_NUMBER: _ClassVar[int]
    LEAST_VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    job: JobIdentity
    process: str
    have_version: int
    resume_version: int
    offset_bytes: int
    wait_seconds: float
    as_patches: bool
    base_sha256: bytes
    least_version: int
    epoch: int
    def __init__(self, job: _Optional[_Union[JobIdentity, _Mapping]] = ..., process: _Optional[str] = ..., have_version: _Optional[int] = ..., resume_version: _Optional[int] = ..., offset_bytes: _Optional[int] = ..., wait_seconds: _Optional[float] = ..., as_patches: _Optional[bool] = ..., base_sha256: _Optional[bytes] = ..., least_version: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class WeightChunk(_message.Message):
    __slots__ = ("version", "total_bytes", "offset_bytes", "data", "crc32c", "sha256", "is_patches", "base_sha256")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    OFFSET_BYTES_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    IS_PATCHES_FIELD_NUMBER: _ClassVar[int]
    BASE_SHA256_FIELD_NUMBER: _ClassVar[int]
    version: int
    total_bytes: int
    offset_bytes: int
    data: bytes
    crc32c: int
    sha256: bytes
    is_patches: bool
    base_sha256: bytes
    def __init__(self, version: _Optional[int] = ..., total_bytes: _Optional[int] = ..., offset_bytes: _Optional[int] = ..., data: _Optional[bytes] = ..., crc32c: _Optional[int] = ..., sha256: _Optional[bytes] = ..., is_patches: _Optional[bool] = ..., base_sha256: _Optional[bytes] = ...) -> None: ...

class AttendRequest(_message.Message):
    __slots__ = ("job", "process", "instance", "have_version", "wait_seconds", "gpu")
    JOB_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    HAVE_VERSION_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    job: JobIdentity
    process: str
    instance: str
    have_version: int
    wait_seconds: float
    gpu: str
    def __init__(self, job: _Optional[_Union[JobIdentity, _Mapping]] = ..., process: _Optional[str] = ..., instance: _Optional[str] = ..., have_version: _Optional[int] = ..., wait_seconds: _Optional[float] = ..., gpu: _Optional[str] = ...) -> None: ...

class BroadcastNotice(_message.Message):
    __slots__ = ("invitation", "outcome")
    INVITATION_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    invitation: BroadcastInvitation
    outcome: BroadcastOutcome
    def __init__(self, invitation: _Optional[_Union[BroadcastInvitation, _Mapping]] = ..., outcome: _Optional[_Union[BroadcastOutcome, _Mapping]] = ...) -> None: ...

class BroadcastInvitation(_message.Message):
    __slots__ = ("group", "store_host", "store_port", "rank", "size", "over_nccl", "version", "total_bytes")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    STORE_HOST_FIELD_NUMBER: _ClassVar[int]
    STORE_PORT_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    OVER_NCCL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    group: str
    store_host: str
    store_port: int
    rank: int
    size: int
    over_nccl: bool
    version: int
    total_bytes: int
    def __init__(self, group: _Optional[str] = ..., store_host: _Optional[str] = ..., store_port: _Optional[int] = ..., rank: _Optional[int] = ..., size: _Optional[int] = ..., over_nccl: _Optional[bool] = ..., version: _Optional[int] = ..., total_bytes: _Optional[int] = ...) -> None: ...

class BroadcastOutcome(_message.Message):
    __slots__ = ("crc32c", "problem")
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    crc32c: int
    problem: str
    def __init__(self, crc32c: _Optional[int] = ..., problem: _Optional[str] = ...) -> None: ...

class ReferenceRequest(_message.Message):
    __slots__ = ("job", "process", "prompt_tokens", "response_tokens")
    JOB_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    job: JobIdentity
    process: str
    prompt_tokens: bytes
    response_tokens: bytes
    def __init__(self, job: _Optional[_Union[JobIdentity, _Mapping]] = ..., process: _Optional[str] = ..., prompt_tokens: _Optional[bytes] = ..., response_tokens: _Optional[bytes] = ...) -> None: ...

class ReferenceReply(_message.Message):
    __slots__ = ("log_probs",)
    LOG_PROBS_FIELD_NUMBER: _ClassVar[int]
    log_probs: bytes
    def __init__(self, log_probs: _Optional[bytes] = ...) -> None: ...

class RewardRequest(_message.Message):
    __slots__ = ("job", "process", "question", "response")
    JOB_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    job: JobIdentity
    process: str
    question: str
    response: str
    def __init__(self, job: _Optional[_Union[JobIdentity, _Mapping]] = ..., process: _Optional[str] = ..., question: _Optional[str] = ..., response: _Optional[str] = ...) -> None: ...

class RewardReply(_message.Message):
    __slots__ = ("reward",)
    REWARD_FIELD_NUMBER: _ClassVar[int]
    reward: float
    def __init__(self, reward: _Optional[float] = ...) -> None: ...

class JournalEntry(_message.Message):
    __slots__ = ("epoch_begun", "accepted", "lease_given", "committed", "abandoned", "ended", "batch_broke")
    EPOCH_BEGUN_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    LEASE_GIVEN_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    BATCH_BROKE_FIELD_NUMBER: _ClassVar[int]
    epoch_begun: EpochBegun
    accepted: bytes
    lease_given: LeaseGiven
    committed: VersionCommitted
    abandoned: GroupAbandoned
    ended: RunEnded
    batch_broke: BatchBroke
    def __init__(self, epoch_begun: _Optional[_Union[EpochBegun, _Mapping]] = ..., accepted: _Optional[bytes] = ..., lease_given: _Optional[_Union[LeaseGiven, _Mapping]] = ..., committed: _Optional[_Union[VersionCommitted, _Mapping]] = ..., abandoned: _Optional[_Union[GroupAbandoned, _Mapping]] = ..., ended: _Optional[_Union[RunEnded, _Mapping]] = ..., batch_broke: _Optional[_Union[BatchBroke, _Mapping]] = ...) -> None: ...

class EpochBegun(_message.Message):
    __slots__ = ("epoch", "resume", "trainer_instance", "needs_reference", "data")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    TRAINER_INSTANCE_FIELD_NUMBER: _ClassVar[int]
    NEEDS_REFERENCE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    resume: ResumePoint
    trainer_instance: str
    needs_reference: bool
    data: DataIdentity
    def __init__(self, epoch: _Optional[int] = ..., resume: _Optional[_Union[ResumePoint, _Mapping]] = ..., trainer_instance: _Optional[str] = ..., needs_reference: _Optional[bool] = ..., data: _Optional[_Union[DataIdentity, _Mapping]] = ...) -> None: ...

class LeaseGiven(_message.Message):
    __slots__ = ("process", "trajectories", "worker_version")
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    TRAJECTORIES_FIELD_NUMBER: _ClassVar[int]
    WORKER_VERSION_FIELD_NUMBER: _ClassVar[int]
    process: str
    trajectories: _containers.RepeatedCompositeFieldContainer[TrajectoryId]
    worker_version: int
    def __init__(self, process: _Optional[str] = ..., trajectories: _Optional[_Iterable[_Union[TrajectoryId, _Mapping]]] = ..., worker_version: _Optional[int] = ...) -> None: ...

class VersionCommitted(_message.Message):
    __slots__ = ("version", "consumed", "discarded", "report")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_FIELD_NUMBER: _ClassVar[int]
    DISCARDED_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    version: int
    consumed: _containers.RepeatedCompositeFieldContainer[TrajectoryId]
    discarded: _containers.RepeatedCompositeFieldContainer[TrajectoryId]
    report: StepReport
    def __init__(self, version: _Optional[int] = ..., consumed: _Optional[_Iterable[_Union[TrajectoryId, _Mapping]]] = ..., discarded: _Optional[_Iterable[_Union[TrajectoryId, _Mapping]]] = ..., report: _Optional[_Union[StepReport, _Mapping]] = ...) -> None: ...

class GroupAbandoned(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: int
    def __init__(self, group: _Optional[int] = ...) -> None: ...

class BatchBroke(_message.Message):
    __slots__ = ("trajectories",)
    TRAJECTORIES_FIELD_NUMBER: _ClassVar[int]
    trajectories: _containers.RepeatedCompositeFieldContainer[TrajectoryId]
    def __init__(self, trajectories: _Optional[_Iterable[_Union[TrajectoryId, _Mapping]]] = ...) -> None: ...

class RunEnded(_message.Message):
    __slots__ = ("reason", "message")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...
