"""Callers of this process: which programs may make which call, by the certificate that they show.

A certificate's subject is the role of its pod, which may run programs of other roles too. A call
that the table does not have is refused to everybody. What a message says of its sender is checked
against the certificate, never believed.
"""

import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import grpc
import grpc.aio

from hetrl_core.task import Role, possible_programs

MAX_NAME_CHARS = 128
"""Of a process, a pod set, a start of a process or a region."""

Allowed = Mapping[str, frozenset[Role]]
"""Programs that may make each call."""

_MEMBERS = frozenset({Role.TRAINER, Role.ROLLOUT, Role.INFERENCE})
_ROLLOUT = frozenset({Role.ROLLOUT})
_TRAINER = frozenset({Role.TRAINER})

ALLOWED: Allowed = {
    "/hetrl.v1.Coordinator/Register": _MEMBERS,
    "/hetrl.v1.Coordinator/Lease": _ROLLOUT,
    "/hetrl.v1.Coordinator/Deliver": _ROLLOUT,
    "/hetrl.v1.Coordinator/Heartbeat": _MEMBERS,
    "/hetrl.v1.Coordinator/Watch": _MEMBERS,
    "/hetrl.v1.Coordinator/NextBatch": _TRAINER,
    "/hetrl.v1.Coordinator/Commit": _TRAINER,
    "/hetrl.v1.Coordinator/GetProgress": _MEMBERS,
    "/hetrl.v1.Weights/Fetch": _ROLLOUT,
    "/hetrl.v1.Broadcasts/Attend": _ROLLOUT,
    "/hetrl.v1.Inference/Reference": _ROLLOUT,
    "/hetrl.v1.Inference/Reward": _ROLLOUT,
}
"""The calls of HetRL's own services."""

Identity = Mapping[str, Iterable[bytes]]
"""What gRPC knows of a peer."""


def caller_role(identity: Identity) -> Role | None:
    """Return the role of a caller's pod; None on loopback without certificates.

    Raises:
        PermissionError: the certificate names no role.
    """
    if b"ssl" not in identity.get("transport_security_type", ()):
        return None
    name = b"".join(identity.get("x509_common_name", ())).decode(errors="replace")
    try:
        return Role(name)
    except ValueError as error:
        raise PermissionError(f"a certificate of {name[:40]!r} is of no role") from error


def refusal(method: str, identity: Identity, allowed_of: Allowed = ALLOWED) -> str:
    """Say why a caller may not make a call; empty where it may."""
    try:
        role = caller_role(identity)
    except PermissionError as error:
        return str(error)
    allowed = allowed_of.get(method, frozenset())
    if role is None:
        return "" if allowed else f"{method[:80]} is not a call that any role may make"
    if allowed.isdisjoint(possible_programs(role)):
        return f"a certificate of role {role} may not call {method[:80]}"
    return ""


def foreign_name(process: str, role: Role | None, *, program: Role | None = None) -> str:
    """Say why a process name is not that of a caller's pod; empty where it may be.

    The name of a process begins with its pod's role: ``trainer-l4-0-3``, and
    ``trainer-l4-0-rollout-3`` for another program in the same pod.

    Args:
        process: the name.
        role: the caller's role; None: it has no certificate.
        program: the program that it says that it is.
    """
    if not 0 < len(process) <= MAX_NAME_CHARS:
        return f"a process name has 1 to {MAX_NAME_CHARS} characters, got {len(process)}"
    if role is None:
        return ""
    if program and program not in possible_programs(role):
        return f"a pod of role {role} runs no program of role {program}"
    infix = f"(-[a-z0-9-]+)?-{program}" if program and program is not role else "(-[a-z0-9-]+)?"
    if not re.fullmatch(rf"{role}{infix}-[0-9]{{1,9}}", process):
        is_a = f"{program} in a pod of role {role}" if program else f"pod of role {role}"
        return f"{process!r} is not the name of a {is_a}"
    return ""


class AsyncRoleCheck(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc ships no types
    """The check of callers by a server on an event loop."""

    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Return the handler of a call, which first checks who calls."""
        handler = await continuation(handler_call_details)
        find = partial(refusal, handler_call_details.method, allowed_of=self._allowed)
        return handler and _checked(handler, _async_stream, _async_unary, find)


class RoleCheck(grpc.ServerInterceptor):  # type: ignore[misc]  # grpc ships no types
    """The check of callers by a server in threads."""

    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed

    def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Return the handler of a call, which first checks who calls."""
        handler = continuation(handler_call_details)
        find = partial(refusal, handler_call_details.method, allowed_of=self._allowed)
        return handler and _checked(handler, _stream, _unary, find)


Find = Callable[[Identity], str]
"""Says why a caller is refused."""

Wrap = Callable[[Callable[..., Any], Find], Callable[..., Any]]


def _checked(handler: Any, stream: Wrap, unary: Wrap, find: Find) -> Any:
    """Return a handler of the same kind that serves what is not refused."""
    both = (handler.request_streaming, handler.response_streaming)
    kind = "_".join("stream" if each else "unary" for each in both)
    wrap = stream if handler.response_streaming else unary
    return getattr(grpc, f"{kind}_rpc_method_handler")(
        wrap(getattr(handler, kind), find),
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )


def _async_unary(serve: Callable[..., Awaitable[Any]], find: Find) -> Callable[..., Any]:
    async def checked(request: Any, context: grpc.aio.ServicerContext) -> Any:
        if reason := find(context.auth_context()):
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, reason)
        return await serve(request, context)

    return checked


def _async_stream(serve: Callable[..., Any], find: Find) -> Callable[..., Any]:
    async def checked(request: Any, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
        if reason := find(context.auth_context()):
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, reason)
        async with contextlib.aclosing(serve(request, context)) as replies:
            async for reply in replies:
                yield reply

    return checked


def _unary(serve: Callable[..., Any], find: Find) -> Callable[..., Any]:
    def checked(request: Any, context: grpc.ServicerContext) -> Any:
        if reason := find(context.auth_context()):
            context.abort(grpc.StatusCode.PERMISSION_DENIED, reason)
        return serve(request, context)

    return checked


def _stream(serve: Callable[..., Iterator[Any]], find: Find) -> Callable[..., Any]:
    def checked(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        if reason := find(context.auth_context()):
            context.abort(grpc.StatusCode.PERMISSION_DENIED, reason)
        yield from serve(request, context)

    return checked
