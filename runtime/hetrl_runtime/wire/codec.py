"""Between values and protobuf messages, checking everything that comes from outside.

A message that cannot be a trajectory becomes ``Malformed`` with the reason; nothing here
raises on what a peer sends, and nothing executes it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isfinite

import numpy as np

from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.trajectory import (
    TOOL_VERSION,
    FailedTrajectory,
    LogProbs,
    SampledTrajectory,
    Tokens,
    TrajectoryId,
)
from hetrl_runtime.wire.values import Outcome, ResumePoint, StepReport

MAX_TOKENS = 1 << 20
"""Of a prompt or a response: above any context window in use."""

MAX_TEXT_CHARS = 4 << 20
MAX_MEMBERS = 1 << 16
PART_BYTES = 1 << 20
"""From here on a message of several trajectories is long enough."""

MAX_FINITE_LOG_PROB = 1e-3
"""Log-probabilities are <= 0 but for rounding."""

_INT32 = np.dtype("<i4")
_FLOAT32 = np.dtype("<f4")
_FINISH_REASONS = frozenset({"stop", "length"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """A message that cannot be a trajectory, and why."""

    id: TrajectoryId
    reason: str


def encode_trajectory(trajectory: SampledTrajectory | FailedTrajectory) -> pb.Trajectory:
    """Return the message of a trajectory."""
    if isinstance(trajectory, FailedTrajectory):
        return pb.Trajectory(
            group=trajectory.group,
            member=trajectory.member,
            epoch=trajectory.epoch,
            process=trajectory.process,
            error=trajectory.error or "unknown error",
        )
    return pb.Trajectory(
        group=trajectory.group,
        member=trajectory.member,
        epoch=trajectory.epoch,
        process=trajectory.process,
        prompt_tokens=_bytes(trajectory.prompt_tokens, _INT32),
        response_tokens=_bytes(trajectory.response_tokens, _INT32),
        behaviour_log_probs=_bytes(trajectory.behaviour_log_probs, _FLOAT32),
        token_versions=_bytes(trajectory.token_versions, _INT32),
        reward=trajectory.reward,
        finish_reason=trajectory.finish_reason,
        generation_seconds=trajectory.generation_seconds,
        response_text=trajectory.response_text,
        question=trajectory.question,
        answer=trajectory.answer,
    )


def decode_trajectory(
    message: pb.Trajectory,
) -> SampledTrajectory | FailedTrajectory | Malformed:
    """Read a trajectory that a peer sent, or say what is wrong with it."""
    identity = TrajectoryId(message.group, message.member)
    if reason := _misshapen(message):
        return Malformed(id=identity, reason=reason)
    if message.error:
        return FailedTrajectory(
            group=message.group,
            member=message.member,
            epoch=message.epoch,
            process=message.process,
            error=message.error[:MAX_TEXT_CHARS],
        )
    trajectory = SampledTrajectory(
        group=message.group,
        member=message.member,
        epoch=message.epoch,
        process=message.process,
        prompt_tokens=np.frombuffer(message.prompt_tokens, _INT32),
        response_tokens=np.frombuffer(message.response_tokens, _INT32),
        behaviour_log_probs=np.frombuffer(message.behaviour_log_probs, _FLOAT32),
        token_versions=np.frombuffer(message.token_versions, _INT32),
        reward=message.reward,
        finish_reason=message.finish_reason,
        generation_seconds=message.generation_seconds,
        response_text=message.response_text,
        question=message.question,
        answer=message.answer,
    )
    if reason := _impossible(trajectory):
        return Malformed(id=identity, reason=reason)
    return trajectory


def in_parts(messages: Iterable[pb.Trajectory]) -> Iterator[pb.Trajectories]:
    """Gather trajectories into messages of a few mebibytes."""
    part, part_bytes = pb.Trajectories(), 0
    for message in messages:
        part.trajectories.append(message)
        part_bytes += message.ByteSize()
        if part_bytes >= PART_BYTES:
            yield part
            part, part_bytes = pb.Trajectories(), 0
    if part.trajectories:
        yield part


def _misshapen(message: pb.Trajectory) -> str:
    """Check fields and sizes before any array is made."""
    if message.group < 0 or not 0 <= message.member < MAX_MEMBERS:
        return f"id {message.group}/{message.member} is out of range"
    if not message.process:
        return "process is empty"
    if message.error:
        return ""
    if message.finish_reason not in _FINISH_REASONS:
        return f"finish_reason must be stop or length, got {message.finish_reason[:40]!r}"
    return _wrong_array_size(message) or _oversized_text(message)


def _wrong_array_size(message: pb.Trajectory) -> str:
    response_bytes = len(message.response_tokens)
    if not response_bytes:
        return "response_tokens is empty"
    for name in ("behaviour_log_probs", "token_versions"):
        if (size := len(getattr(message, name))) != response_bytes:
            return f"{name} has {size} bytes, response_tokens has {response_bytes}"
    for name in ("prompt_tokens", "response_tokens"):
        if (size := len(getattr(message, name))) % 4 or size > 4 * MAX_TOKENS:
            return f"{name} has {size} bytes, must be a multiple of 4 up to {4 * MAX_TOKENS}"
    return ""


def _oversized_text(message: pb.Trajectory) -> str:
    for name in ("response_text", "question", "answer"):
        if (size := len(getattr(message, name))) > MAX_TEXT_CHARS:
            return f"{name} has {size} characters, the limit is {MAX_TEXT_CHARS}"
    return ""


def _impossible(trajectory: SampledTrajectory) -> str:
    """Check the numbers."""
    if not isfinite(trajectory.reward):
        return f"reward is {trajectory.reward}"
    # Thousands of trajectories a second pass here: arrays' own methods take twice as long.
    # A NaN fails this comparison too; minus infinity is left to the next line.
    if not np.maximum.reduce(trajectory.behaviour_log_probs) <= MAX_FINITE_LOG_PROB:
        return "behaviour_log_probs has a value above 0, or not a number"
    if not isfinite(np.minimum.reduce(trajectory.behaviour_log_probs)):
        return "behaviour_log_probs has an infinite value"
    if reason := _wrong_versions(trajectory):
        return reason
    if (smallest := np.minimum.reduce(trajectory.response_tokens)) < 0:
        return f"response_tokens has {smallest}, must be >= 0"
    return ""


def _wrong_versions(trajectory: SampledTrajectory) -> str:
    lowest = int(np.minimum.reduce(trajectory.token_versions))
    if lowest < TOOL_VERSION:
        return f"token_versions has {lowest}, must be >= 0, or {TOOL_VERSION} where a tool wrote"
    if trajectory.oldest_version < 0:
        return "token_versions says that a tool wrote every token"
    if lowest == TOOL_VERSION and trajectory.behaviour_log_probs[~trajectory.response_mask].any():
        return "behaviour_log_probs has a value other than 0 where a tool wrote"
    return ""


def _bytes(array: Tokens | LogProbs, dtype: np.dtype[np.int32] | np.dtype[np.float32]) -> bytes:
    return np.ascontiguousarray(array, dtype=dtype).tobytes()


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


def encode_ids(ids: Iterable[TrajectoryId]) -> list[pb.TrajectoryId]:
    """Return the messages of ids."""
    return [pb.TrajectoryId(group=each.group, member=each.member) for each in ids]


def decode_ids(messages: Iterable[pb.TrajectoryId]) -> tuple[TrajectoryId, ...]:
    """Read ids."""
    return tuple(TrajectoryId(each.group, each.member) for each in messages)
