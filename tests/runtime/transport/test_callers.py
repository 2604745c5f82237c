"""Callers: which certificate may make which call, and whose names it may use."""

import contextlib
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from prometheus_client import CollectorRegistry

from hetrl_core.launch import Address, Launch, TlsFiles
from hetrl_core.task import Role
from hetrl_runtime.broadcast.sender import Sender
from hetrl_runtime.inference.service import InferenceService
from hetrl_runtime.metrics.inference import InferenceMetrics
from hetrl_runtime.transport.callers import foreign_name, refusal
from hetrl_runtime.transport.channel import bind, open_async_server, open_channel
from hetrl_runtime.transport.weights.weights import WeightServer
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.hetrl_pb2_grpc import CoordinatorStub, add_InferenceServicer_to_server
from tests.runtime.certificates import issued
from tests.runtime.coordinators import a_coordinator
from tests.runtime.launches import a_launch

TRAIN, ROLL, INFER = Role.TRAINER, Role.ROLLOUT, Role.INFERENCE
MAY = {
    "Coordinator/Register": {TRAIN, ROLL, INFER},
    "Coordinator/Lease": {TRAIN, ROLL},
    "Coordinator/Deliver": {TRAIN, ROLL},
    "Coordinator/Heartbeat": {TRAIN, ROLL, INFER},
    "Coordinator/Watch": {TRAIN, ROLL, INFER},
    "Coordinator/NextBatch": {TRAIN},
    "Coordinator/Commit": {TRAIN},
    "Coordinator/GetProgress": {TRAIN, ROLL, INFER},
    "Weights/Fetch": {TRAIN, ROLL},
    "Broadcasts/Attend": {TRAIN, ROLL},
    "Inference/Reference": {TRAIN, ROLL},
    "Inference/Reward": {TRAIN, ROLL},
}
"""Certificates that may make each call: a trainer's pod may hold a rollout too."""

METHODS = [
    (service.name, method)
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]


def test_table_has_every_call_of_the_protocol() -> None:
    assert {f"{service}/{method.name}" for service, method in METHODS} == set(MAY)


def test_call_that_no_table_has_is_refused_to_everybody() -> None:
    for identity in ({}, {"transport_security_type": [b"ssl"], "x509_common_name": [b"trainer"]}):
        assert refusal("/hetrl.v1.Coordinator/Shutdown", identity)


@pytest.mark.parametrize("name", [b"", b"admin", b"trainer,rollout", b"\xff"])
def test_certificate_of_no_role_is_refused(name: bytes) -> None:
    identity = {"transport_security_type": [b"ssl"], "x509_common_name": [name]}
    assert "is of no role" in refusal("/hetrl.v1.Coordinator/Register", identity)


@contextlib.asynccontextmanager
async def every_server(
    folder: Path, tls: Callable[[Role], TlsFiles]
) -> AsyncIterator[dict[str, tuple[Address, Role]]]:
    """All gRPC services of a job, and the program of each."""
    launch = a_launch(folder, tls=tls(Role.COORDINATOR))
    weights = WeightServer(job=launch.job, address=launch.weights, tls=tls(Role.TRAINER))
    inference = open_async_server()
    metrics = InferenceMetrics(CollectorRegistry())
    add_InferenceServicer_to_server(InferenceService(launch.job, metrics), inference)
    port = bind(inference, Address(host="127.0.0.1", port=0), tls(Role.INFERENCE))
    async with a_coordinator(launch):
        with Sender(launch, weights), weights:
            await inference.start()
            try:
                yield {
                    "Coordinator": (launch.coordinator, Role.COORDINATOR),
                    "Weights": (launch.weights, Role.TRAINER),
                    "Broadcasts": (launch.weights, Role.TRAINER),
                    "Inference": (Address(host="127.0.0.1", port=port), Role.INFERENCE),
                }
            finally:
                await inference.stop(grace=None)


async def answer(channel: grpc.aio.Channel, service: str, method: Any) -> str:
    """Call with an empty message; return why the caller's role is refused."""
    # On the wire, a stream of one message is all that a call of any kind is.
    ask = channel.unary_stream(f"/hetrl.v1.{service}/{method.name}")
    try:
        async for _ in ask(b"", timeout=60):
            return ""
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            return "no connection"
        return error.details() or ""
    return ""


@pytest.mark.slow
async def test_role_makes_its_calls_and_no_others(tmp_path: Path) -> None:
    tls = issued(tmp_path / "tls")
    found: dict[str, set[Role]] = {name: set() for name in MAY}
    async with every_server(tmp_path, tls) as servers:
        for role in Role:
            for service, method in METHODS:
                address, program = servers[service]
                async with open_channel(address, tls(role), program=program) as channel:
                    said = await answer(channel, service, method)
                if "a certificate of role" not in said and said != "no connection":
                    found[f"{service}/{method.name}"].add(role)
    assert found == MAY


@contextlib.asynccontextmanager
async def asking(launch: Launch, tls: TlsFiles) -> AsyncIterator[CoordinatorStub]:
    async with open_channel(launch.coordinator, tls, program=Role.COORDINATOR) as channel:
        yield CoordinatorStub(channel)


def registration(launch: Launch, **changes: Any) -> pb.RegisterRequest:
    said = {"process": "rollout-l4-0-0", "role": "rollout", "instance": "1", **changes}
    return pb.RegisterRequest(job=codec.encode_job(launch.job), **said)


DENIED = grpc.StatusCode.PERMISSION_DENIED
INVALID = grpc.StatusCode.INVALID_ARGUMENT
WRONG: dict[str, tuple[Role, str, dict[str, Any], grpc.StatusCode]] = {
    "trainer-by-rollout": (
        ROLL,
        "Register",
        {"process": "trainer-l4-0-0", "role": "trainer"},
        DENIED,
    ),
    "own-name-as-trainer": (ROLL, "Register", {"role": "trainer"}, DENIED),
    "rollout-by-inference": (INFER, "Register", {}, DENIED),
    "no-pod-set": (ROLL, "Register", {"process": "unknown-0"}, DENIED),
    "long-name": (ROLL, "Register", {"process": "rollout-" + "x" * 5000 + "-0"}, DENIED),
    "long-region": (ROLL, "Register", {"region": "x" * 5000}, INVALID),
    "relay-without-port": (ROLL, "Register", {"relay_address": "elsewhere"}, INVALID),
    "task-of-no-process": (
        INFER,
        "Register",
        {
            "process": "inference-l4-0-0",
            "role": "inference",
            "inference": pb.InferenceEndpoint(address="a:1", tasks=["x"]),
        },
        INVALID,
    ),
    "leave-for-trainer": (
        ROLL,
        "Heartbeat",
        {"process": "trainer-l4-0-0", "leaving": True},
        DENIED,
    ),
    "lease-for-inference": (ROLL, "Lease", {"process": "inference-l4-0-0"}, DENIED),
    "idle-for-ever": (
        ROLL,
        "Heartbeat",
        {"process": "rollout-0", "idle_seconds": math.inf},
        INVALID,
    ),
    "negative-tokens": (
        ROLL,
        "Heartbeat",
        {"process": "rollout-0", "generated_tokens": -1},
        INVALID,
    ),
}
REQUESTS = {"Heartbeat": pb.HeartbeatRequest, "Lease": pb.LeaseRequest}


@pytest.mark.slow
async def test_requests_in_the_name_of_others_change_nothing(tmp_path: Path) -> None:
    tls = issued(tmp_path / "tls")
    launch = a_launch(tmp_path, tls=tls(Role.COORDINATOR))
    codes = {}
    async with a_coordinator(launch):
        for name, (role, method, fields, _) in WRONG.items():
            is_entry = method == "Register"
            request = registration(launch, **fields) if is_entry else REQUESTS[method](**fields)
            async with asking(launch, tls(role)) as stub:
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await getattr(stub, method)(request, wait_for_ready=True, timeout=60)
                codes[name] = refused.value.code()
        async with asking(launch, tls(ROLL)) as stub:
            progress = await stub.GetProgress(pb.ProgressRequest(), timeout=60)
    assert codes == {name: code for name, (*_, code) in WRONG.items()}
    assert not progress.processes
    assert not progress.finished


@pytest.mark.slow
async def test_roster_takes_no_more_than_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hetrl_runtime.coordinator.service.MAX_MEMBERS", 3)
    tls = issued(tmp_path / "tls")
    launch = a_launch(tmp_path, tls=tls(Role.COORDINATOR))
    async with a_coordinator(launch), asking(launch, tls(ROLL)) as stub:
        for number in (0, 1, 2, 2):
            request = registration(launch, process=f"rollout-l4-0-{number}")
            await stub.Register(request, wait_for_ready=True, timeout=60)
        with pytest.raises(grpc.aio.AioRpcError, match="limit of a run"):
            await stub.Register(registration(launch, process="rollout-l4-0-3"), timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("role", [TRAIN, ROLL, INFER])
async def test_certificate_of_another_role_does_not_pass_for_the_coordinators(
    tmp_path: Path, role: Role
) -> None:
    tls = issued(tmp_path / "tls")
    launch = a_launch(tmp_path, tls=tls(role))
    async with a_coordinator(launch), asking(launch, tls(ROLL)) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.GetProgress(pb.ProgressRequest(), timeout=60)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("process", "role", "program", "is_own"),
    [
        ("rollout-l4-0-3", ROLL, ROLL, True),
        ("rollout-l4-0-3", ROLL, None, True),
        ("rollout-0", ROLL, ROLL, True),
        ("trainer-a100-80gb-0-rollout-3", TRAIN, ROLL, True),
        ("trainer-a100-80gb-0-rollout-3", TRAIN, None, True),
        ("rollout-l4-0-inference-3", ROLL, INFER, True),
        ("anything", None, ROLL, True),
        ("", None, ROLL, False),
        ("x" * 129, None, ROLL, False),
        ("trainer-l4-0-3", ROLL, ROLL, False),
        ("trainer-l4-0-3", ROLL, None, False),
        ("trainer-l4-0-3", TRAIN, ROLL, False),
        ("rollout-l4-0-3", TRAIN, ROLL, False),
        ("trainer-l4-0-rollout-3", ROLL, ROLL, False),
        ("rollout-l4-0", ROLL, TRAIN, False),
        ("rolloutx-0", ROLL, ROLL, False),
        ("rollout-\n-0", ROLL, ROLL, False),
        ("rollout-0\n", ROLL, ROLL, False),
        ("rollout-l4-0-9999999999", ROLL, ROLL, False),
    ],
)
def test_process_name_belongs_to_the_role_of_its_pod(
    process: str, role: Role | None, program: Role | None, is_own: bool
) -> None:
    assert (not foreign_name(process, role, program=program)) is is_own


def test_colocated_name_is_of_the_pod_that_serves_it(tmp_path: Path) -> None:
    launch = replace(a_launch(tmp_path), pod_set="trainer-l4-0-rollout", role=ROLL)
    assert not foreign_name(f"{launch.pod_set}-0", TRAIN, program=launch.role)
