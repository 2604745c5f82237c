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
OUTCOME_UNSPECIFIED: Outcome
ACCEPTED: Outcome
DUPLICATE: Outcome
EXPIRED: Outcome
STALE: Outcome
FENCED: Outcome
MALFORMED: Outcome

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
    __slots__ = ("job", "process", "role", "resume", "concurrency", "gpu_kind")
    JOB_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    GPU_KIND_FIELD_NUMBER: _ClassVar[int]
    job: JobIdentity
    process: str
    role: str
    resume: ResumePoint
    concurrency: int
    gpu_kind: str
    def __init__(self, job: _Optional[_Union[JobIdentity, _Mapping]] = ..., process: _Optional[str] = ..., role: _Optional[str] = ..., resume: _Optional[_Union[ResumePoint, _Mapping]] = ..., concurrency: _Optional[int] = ..., gpu_kind: _Optional[str] = ...) -> None: ...

class ResumePoint(_message.Message):
    __slots__ = ("version", "step", "consumed", "cursor")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    version: int
    step: int
    consumed: _containers.RepeatedScalarFieldContainer[str]
    cursor: DataCursor
    def __init__(self, version: _Optional[int] = ..., step: _Optional[int] = ..., consumed: _Optional[_Iterable[str]] = ..., cursor: _Optional[_Union[DataCursor, _Mapping]] = ...) -> None: ...

class DataCursor(_message.Message):
    __slots__ = ("pass_number", "position")
    PASS_NUMBER_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    pass_number: int
    position: int
    def __init__(self, pass_number: _Optional[int] = ..., position: _Optional[int] = ...) -> None: ...

class RegisterReply(_message.Message):
    __slots__ = ("epoch", "version")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    version: int
    def __init__(self, epoch: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("leases",)
    LEASES_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[Lease]
    def __init__(self, leases: _Optional[_Iterable[_Union[Lease, _Mapping]]] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("group", "members", "question", "answer", "deadline_seconds")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    group: str
    members: _containers.RepeatedScalarFieldContainer[int]
    question: str
    answer: str
    deadline_seconds: float
    def __init__(self, group: _Optional[str] = ..., members: _Optional[_Iterable[int]] = ..., question: _Optional[str] = ..., answer: _Optional[str] = ..., deadline_seconds: _Optional[float] = ...) -> None: ...

class Trajectory(_message.Message):
    __slots__ = ("id", "epoch", "process", "prompt_tokens", "response_tokens", "behaviour_log_probs", "token_versions", "reward", "finish_reason", "generation_seconds", "response_text", "question", "answer")
    ID_FIELD_NUMBER: _ClassVar[int]
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
    id: str
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
    def __init__(self, id: _Optional[str] = ..., epoch: _Optional[int] = ..., process: _Optional[str] = ..., prompt_tokens: _Optional[bytes] = ..., response_tokens: _Optional[bytes] = ..., behaviour_log_probs: _Optional[bytes] = ..., token_versions: _Optional[bytes] = ..., reward: _Optional[float] = ..., finish_reason: _Optional[str] = ..., generation_seconds: _Optional[float] = ..., response_text: _Optional[str] = ..., question: _Optional[str] = ..., answer: _Optional[str] = ...) -> None: ...

class DeliveryReceipt(_message.Message):
    __slots__ = ("id", "outcome")
    ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    id: str
    outcome: Outcome
    def __init__(self, id: _Optional[str] = ..., outcome: _Optional[_Union[Outcome, str]] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("epoch", "process", "version", "running", "generated_tokens", "idle_seconds", "weight_sync_seconds")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    GENERATED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    IDLE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_SYNC_SECONDS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    process: str
    version: int
    running: int
    generated_tokens: int
    idle_seconds: float
    weight_sync_seconds: float
    def __init__(self, epoch: _Optional[int] = ..., process: _Optional[str] = ..., version: _Optional[int] = ..., running: _Optional[int] = ..., generated_tokens: _Optional[int] = ..., idle_seconds: _Optional[float] = ..., weight_sync_seconds: _Optional[float] = ...) -> None: ...

class HeartbeatReply(_message.Message):
    __slots__ = ("register_again",)
    REGISTER_AGAIN_FIELD_NUMBER: _ClassVar[int]
    register_again: bool
    def __init__(self, register_again: _Optional[bool] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("process",)
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    process: str
    def __init__(self, process: _Optional[str] = ...) -> None: ...

class Announcement(_message.Message):
    __slots__ = ("epoch", "version", "weights_address", "finished", "reason")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    version: int
    weights_address: str
    finished: bool
    reason: str
    def __init__(self, epoch: _Optional[int] = ..., version: _Optional[int] = ..., weights_address: _Optional[str] = ..., finished: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class BatchRequest(_message.Message):
    __slots__ = ("epoch", "version")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    version: int
    def __init__(self, epoch: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...

class CommitRequest(_message.Message):
    __slots__ = ("epoch", "version", "consumed", "discarded", "report", "finished", "reason")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_FIELD_NUMBER: _ClassVar[int]
    DISCARDED_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    version: int
    consumed: _containers.RepeatedScalarFieldContainer[str]
    discarded: _containers.RepeatedScalarFieldContainer[str]
    report: StepReport
    finished: bool
    reason: str
    def __init__(self, epoch: _Optional[int] = ..., version: _Optional[int] = ..., consumed: _Optional[_Iterable[str]] = ..., discarded: _Optional[_Iterable[str]] = ..., report: _Optional[_Union[StepReport, _Mapping]] = ..., finished: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("accepted", "reason")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    reason: str
    def __init__(self, accepted: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class ProgressRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Progress(_message.Message):
    __slots__ = ("step", "total_steps", "version", "samples_per_second", "reward_mean", "staleness_mean", "staleness_p95", "staleness_max", "eta_seconds", "buffered", "running", "finished", "reason", "processes", "waiting_for")
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
    REASON_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
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
    reason: str
    processes: _containers.RepeatedCompositeFieldContainer[ProcessProgress]
    waiting_for: str
    def __init__(self, step: _Optional[int] = ..., total_steps: _Optional[int] = ..., version: _Optional[int] = ..., samples_per_second: _Optional[float] = ..., reward_mean: _Optional[float] = ..., staleness_mean: _Optional[float] = ..., staleness_p95: _Optional[float] = ..., staleness_max: _Optional[float] = ..., eta_seconds: _Optional[float] = ..., buffered: _Optional[int] = ..., running: _Optional[int] = ..., finished: _Optional[bool] = ..., reason: _Optional[str] = ..., processes: _Optional[_Iterable[_Union[ProcessProgress, _Mapping]]] = ..., waiting_for: _Optional[str] = ...) -> None: ...

class ProcessProgress(_message.Message):
    __slots__ = ("process", "role", "gpu_kind", "version", "running", "tokens_per_second", "idle_ratio")
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    GPU_KIND_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    TOKENS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    IDLE_RATIO_FIELD_NUMBER: _ClassVar[int]
    process: str
    role: str
    gpu_kind: str
    version: int
    running: int
    tokens_per_second: float
    idle_ratio: float
    def __init__(self, process: _Optional[str] = ..., role: _Optional[str] = ..., gpu_kind: _Optional[str] = ..., version: _Optional[int] = ..., running: _Optional[int] = ..., tokens_per_second: _Optional[float] = ..., idle_ratio: _Optional[float] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("job", "process", "have_version", "version", "offset_bytes")
    JOB_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    HAVE_VERSION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_BYTES_FIELD_NUMBER: _ClassVar[int]
    job: JobIdentity
    process: str
    have_version: int
    version: int
    offset_bytes: int
    def __init__(self, job: _Optional[_Union[JobIdentity, _Mapping]] = ..., process: _Optional[str] = ..., have_version: _Optional[int] = ..., version: _Optional[int] = ..., offset_bytes: _Optional[int] = ...) -> None: ...

class WeightChunk(_message.Message):
    __slots__ = ("version", "total_bytes", "offset_bytes", "data", "crc32c", "sha256")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    OFFSET_BYTES_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    version: int
    total_bytes: int
    offset_bytes: int
    data: bytes
    crc32c: int
    sha256: bytes
    def __init__(self, version: _Optional[int] = ..., total_bytes: _Optional[int] = ..., offset_bytes: _Optional[int] = ..., data: _Optional[bytes] = ..., crc32c: _Optional[int] = ..., sha256: _Optional[bytes] = ...) -> None: ...
