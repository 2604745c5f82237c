"""Registrations and heartbeats as peers send them: what may be believed of them, or why not."""

import math
import re
from dataclasses import dataclass, fields

import grpc

from hetrl_core.launch import JobIdentity
from hetrl_core.task import Role, Task
from hetrl_runtime.coordinator.rules.members import Member
from hetrl_runtime.transport.callers import MAX_NAME_CHARS, foreign_name
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.values import ProcessStatus

MAX_MEMBERS = 2000
"""Processes of one run: a progress report names each of them."""

MAX_METRICS = 1000
"""Of one step's report."""

_PROGRAMS = {str(each): each for each in (Role.TRAINER, Role.ROLLOUT, Role.INFERENCE)}
_MAX_DATA_CHARS = 4096
_ADDRESS = re.compile(r"[A-Za-z0-9._:\[\]-]{1,253}:[0-9]{1,5}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A request that is not granted, and why."""

    code: grpc.StatusCode
    details: str


def member_of(
    request: pb.RegisterRequest, *, job: JobIdentity, role: Role | None, now: float
) -> Member | Refused:
    """Return the process that registers, or why it may not.

    Args:
        request: what it says of itself.
        job: the job that is coordinated.
        role: the role of its pod, by its certificate; None: it has none.
        now: when it registers.
    """
    asked = codec.decode_job(request.job)
    if asked != job:
        return _denied(
            f"this coordinator runs job {job.namespace}/{job.name} (uid {job.uid}), "
            f"not {_short(asked.namespace)}/{_short(asked.name)} (uid {_short(asked.uid)})"
        )
    program = _PROGRAMS.get(request.role)
    if program is None or not request.process or not request.instance:
        return _invalid(
            f"role must be one of {', '.join(_PROGRAMS)}, got {_short(request.role)!r}; process "
            f"and instance must be named, got {_short(request.process)!r} and "
            f"{_short(request.instance)!r}"
        )
    if reason := foreign_name(request.process, role, program=program):
        return _denied(reason)
    if reason := _oversized(request) or _impossible_addresses(request):
        return _invalid(reason)
    return Member(
        process=request.process,
        role=program,
        pod_set=request.pod_set,
        instance=request.instance,
        seen_at=now,
        region=request.region,
        relay_address=request.relay_address,
        inference=codec.decode_endpoint(request.inference)
        if request.HasField("inference")
        else None,
        needs_reference=request.needs_reference,
    )


def status_of(request: pb.HeartbeatRequest) -> ProcessStatus | Refused:
    """Return the status in a heartbeat, or which number of it cannot be."""
    numbers = {each.name: getattr(request, each.name) for each in fields(ProcessStatus)}
    for name, value in numbers.items():
        # A NaN fails this comparison too. A worker without weights has version -1.
        if not (-1 if name == "version" else 0) <= value < math.inf:
            return _invalid(f"{name} is {value}, must be finite and >= 0")
    return ProcessStatus(**numbers)


def oversized_report(report: pb.StepReport) -> str:
    """Say what is too large in a step's report; empty where nothing is."""
    if len(report.metrics) > MAX_METRICS:
        return f"a report has {len(report.metrics)} metrics, the limit is {MAX_METRICS}"
    longest = max(map(len, report.metrics), default=0)
    if longest > MAX_NAME_CHARS:
        return f"a metric's name has {longest} characters, the limit is {MAX_NAME_CHARS}"
    return ""


def _oversized(request: pb.RegisterRequest) -> str:
    limits = {
        "instance": (request.instance, MAX_NAME_CHARS),
        "pod_set": (request.pod_set, MAX_NAME_CHARS),
        "region": (request.region, MAX_NAME_CHARS),
        "data.name": (request.data.name, _MAX_DATA_CHARS),
        "data.digest": (request.data.digest, MAX_NAME_CHARS),
    }
    for name, (text, most) in limits.items():
        if len(text) > most:
            return f"{name} has {len(text)} characters, the limit is {most}"
    return ""


def _impossible_addresses(request: pb.RegisterRequest) -> str:
    tasks = set(request.inference.tasks)
    if len(request.inference.tasks) > len(Task) or not tasks <= set(map(str, Task)):
        return f"inference.tasks must be of {', '.join(Task)}"
    addresses = {
        "relay_address": request.relay_address,
        "inference.address": request.inference.address,
    }
    for name, address in addresses.items():
        if address and not _ADDRESS.fullmatch(address):
            return f"{name} must be host:port, got {_short(address)!r}"
    return ""


def _denied(details: str) -> Refused:
    return Refused(code=grpc.StatusCode.PERMISSION_DENIED, details=details)


def _invalid(details: str) -> Refused:
    return Refused(code=grpc.StatusCode.INVALID_ARGUMENT, details=details)


def _short(text: str) -> str:
    return text[:MAX_NAME_CHARS]
