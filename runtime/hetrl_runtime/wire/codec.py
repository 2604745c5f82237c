"""Conversion between values and protobuf messages, with checks of everything from outside.

A message that cannot be a trajectory becomes ``Malformed`` with the reason; nothing here
raises on what a peer sends, and nothing executes it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from google.protobuf.message import DecodeError

from hetrl_core.job.identity import Value
from hetrl_core.launch import JobIdentity
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.delivered import DeliveredTrajectory
from hetrl_runtime.wire.trajectory import (
    FailedTrajectory,
    LogProbs,
    SampledTrajectory,
    Tokens,
    TrajectoryId,
)
from hetrl_runtime.wire.validation import (
    FLOAT32,
    INT32,
    MAX_REASON_CHARS,
    MAX_TEXT_CHARS,
    PROTOCOL_LIMITS,
    WireLimits,
    inspected,
    misaddressed,
)
from hetrl_runtime.wire.values import InferenceEndpoint, Outcome, ResumePoint, StepReport

FailureT = TypeVar("FailureT", bound=FailedTrajectory)

PART_BYTES = 1 << 20
"""From here on a message of several trajectories is long enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed(FailedTrajectory):
    """A message that cannot be a trajectory; the error says why."""


def encode_trajectory(trajectory: SampledTrajectory | FailedTrajectory) -> bytes:
    """Return the message of a trajectory."""
    return bytes(_message(trajectory).SerializeToString())


def _message(trajectory: SampledTrajectory | FailedTrajectory) -> pb.Trajectory:
    if isinstance(trajectory, FailedTrajectory):
        return pb.Trajectory(
            group=trajectory.group,
            member=trajectory.member,
            epoch=trajectory.epoch,
            process=trajectory.process,
            error=trajectory.error or "unknown error",
            unjudged=trajectory.unjudged,
            left_out=trajectory.left_out,
        )
    return pb.Trajectory(
        group=trajectory.group,
        member=trajectory.member,
        epoch=trajectory.epoch,
        process=trajectory.process,
        prompt_tokens=_bytes(trajectory.prompt_tokens, INT32),
        response_tokens=_bytes(trajectory.response_tokens, INT32),
        behaviour_log_probs=_bytes(trajectory.behaviour_log_probs, FLOAT32),
        token_versions=_bytes(trajectory.token_versions, INT32),
        reward=trajectory.reward,
        reward_parts=dict(trajectory.reward_parts),
        finish_reason=trajectory.finish_reason,
        generation_seconds=trajectory.generation_seconds,
        response_text=trajectory.response_text,
        question=trajectory.question,
        answer=trajectory.answer,
        traceparent=trajectory.traceparent,
        reference_log_probs=_bytes_or_none(trajectory.reference_log_probs),
    )


def receive_trajectory(
    data: bytes, limits: WireLimits = PROTOCOL_LIMITS
) -> DeliveredTrajectory | FailedTrajectory | Malformed:
    """Read of a peer's trajectory what the coordinator needs, or say what is wrong with it."""
    message = _parsed(data)
    if isinstance(message, Malformed):
        return message
    if reason := misaddressed(message):
        return _failure(Malformed, message, reason)
    if message.error:
        failed = _failure(FailedTrajectory, message, message.error[:MAX_TEXT_CHARS])
        return replace(
            failed,
            unjudged=message.unjudged[:MAX_REASON_CHARS],
            left_out=message.left_out[:MAX_REASON_CHARS],
        )
    response = inspected(message, size_bytes=len(data), limits=limits)
    if isinstance(response, str):
        return _failure(Malformed, message, response)
    return DeliveredTrajectory(
        id=TrajectoryId(message.group, message.member),
        epoch=message.epoch,
        process=message.process,
        reward=message.reward,
        reward_parts=dict(message.reward_parts),
        oldest_version=response.oldest_version,
        newest_version=response.newest_version,
        num_response_tokens=response.num_tokens,
        num_tool_calls=response.num_tool_calls,
        has_reference=bool(message.reference_log_probs),
        data=data,
    )


def decode_trajectory(data: bytes) -> SampledTrajectory | FailedTrajectory | Malformed:
    """Read a whole trajectory that a peer sent, or say what is wrong with it."""
    found = receive_trajectory(data)
    if not isinstance(found, DeliveredTrajectory):
        return found
    message = pb.Trajectory.FromString(data)
    reference = message.reference_log_probs
    return SampledTrajectory(
        group=message.group,
        member=message.member,
        epoch=message.epoch,
        process=message.process,
        prompt_tokens=np.frombuffer(message.prompt_tokens, INT32),
        response_tokens=np.frombuffer(message.response_tokens, INT32),
        behaviour_log_probs=np.frombuffer(message.behaviour_log_probs, FLOAT32),
        token_versions=np.frombuffer(message.token_versions, INT32),
        reward=message.reward,
        reward_parts=dict(message.reward_parts),
        finish_reason=message.finish_reason,
        generation_seconds=message.generation_seconds,
        response_text=message.response_text,
        question=message.question,
        answer=message.answer,
        traceparent=message.traceparent,
        reference_log_probs=np.frombuffer(reference, FLOAT32) if reference else None,
    )


def in_parts(trajectories: Iterable[bytes]) -> Iterator[pb.Trajectories]:
    """Gather trajectories into messages of about a mebibyte."""
    part, part_bytes = [], 0
    for data in trajectories:
        part.append(data)
        part_bytes += len(data)
        if part_bytes >= PART_BYTES:
            yield pb.Trajectories(trajectories=part)
            part, part_bytes = [], 0
    if part:
        yield pb.Trajectories(trajectories=part)


def _parsed(data: bytes) -> pb.Trajectory | Malformed:
    try:
        return pb.Trajectory.FromString(data)
    except DecodeError as error:
        # It has no readable id.
        reason = f"{len(data)} bytes that are no trajectory: {error}"
        return Malformed(group=-1, member=-1, epoch=0, process="", error=reason)


def _failure(kind: type[FailureT], message: pb.Trajectory, error: str) -> FailureT:
    return kind(
        group=message.group,
        member=message.member,
        epoch=message.epoch,
        process=message.process,
        error=error,
    )


def _bytes(array: Tokens | LogProbs, dtype: np.dtype[np.int32] | np.dtype[np.float32]) -> bytes:
    return np.ascontiguousarray(array, dtype=dtype).tobytes()


def _bytes_or_none(array: LogProbs | None) -> bytes:
    return b"" if array is None else _bytes(array, FLOAT32)


_OUTCOMES = {outcome: getattr(pb, outcome.name) for outcome in Outcome}
_OUTCOMES_BACK = {number: outcome for outcome, number in _OUTCOMES.items()}


def encode_receipt(
    identity: TrajectoryId, outcome: Outcome, detail: str = ""
) -> pb.DeliveryReceipt:
    """Return the acknowledgement of one delivery."""
    return pb.DeliveryReceipt(
        group=identity.group, member=identity.member, outcome=_OUTCOMES[outcome], detail=detail
    )


def decode_receipt(message: pb.DeliveryReceipt) -> tuple[TrajectoryId, Outcome, str]:
    """Read an acknowledgement; an outcome of a newer release counts as malformed."""
    outcome = _OUTCOMES_BACK.get(message.outcome, Outcome.MALFORMED)
    return TrajectoryId(message.group, message.member), outcome, message.detail


def encode_resume(point: ResumePoint) -> pb.ResumePoint:
    """Return the message of a resume point."""
    return pb.ResumePoint(
        version=point.version, next_group=point.next_group, open_groups=point.open_groups
    )


def decode_resume(message: pb.ResumePoint) -> ResumePoint:
    """Read a resume point; ``ValueError`` where it cannot be one."""
    return ResumePoint(
        version=message.version,
        next_group=message.next_group,
        open_groups=tuple(message.open_groups),
    )


def encode_data(data: Value) -> pb.DataIdentity | None:
    """Return the message of what tells data apart; None where that is not known."""
    return pb.DataIdentity(name=data.name, digest=data.digest) if data.is_known else None


def decode_data(message: pb.DataIdentity) -> Value:
    """Read what tells data apart."""
    return Value(name=message.name, digest=message.digest)


def encode_report(report: StepReport) -> pb.StepReport:
    """Return the message of a step's report."""
    return pb.StepReport(
        step_seconds=report.step_seconds,
        wait_seconds=report.wait_seconds,
        metrics={name: float(value) for name, value in report.metrics.items()},
    )


def decode_report(message: pb.StepReport) -> StepReport:
    """Read a step's report."""
    return StepReport(
        step_seconds=message.step_seconds,
        wait_seconds=message.wait_seconds,
        metrics=dict(message.metrics),
    )


def encode_job(job: JobIdentity) -> pb.JobIdentity:
    """Return the message of a job's identity."""
    return pb.JobIdentity(namespace=job.namespace, name=job.name, uid=job.uid)


def decode_job(message: pb.JobIdentity) -> JobIdentity:
    """Read a job's identity."""
    return JobIdentity(namespace=message.namespace, name=message.name, uid=message.uid)


def encode_ids(ids: Iterable[TrajectoryId]) -> list[pb.TrajectoryId]:
    """Return the messages of ids."""
    return [pb.TrajectoryId(group=each.group, member=each.member) for each in ids]


def decode_ids(messages: Iterable[pb.TrajectoryId]) -> tuple[TrajectoryId, ...]:
    """Read ids."""
    return tuple(TrajectoryId(each.group, each.member) for each in messages)


def encode_endpoint(endpoint: InferenceEndpoint) -> pb.InferenceEndpoint:
    """Return the message of an inference worker's place."""
    return pb.InferenceEndpoint(address=endpoint.address, tasks=endpoint.tasks)


def decode_endpoint(message: pb.InferenceEndpoint) -> InferenceEndpoint:
    """Read an inference worker's place."""
    return InferenceEndpoint(address=message.address, tasks=tuple(message.tasks))
