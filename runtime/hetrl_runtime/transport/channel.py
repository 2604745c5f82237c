"""gRPC channels and servers, set up alike in every process of a run.

Mutual TLS where the launch contract has certificates; without them only this machine's
loopback is let through, so that no pod ever speaks in the clear by mistake.
"""

import ipaddress
import ssl
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import NoReturn

import grpc
import grpc.aio
from grpc.aio import ServicerContext

from hetrl_core.launch import PROGRAM_DOMAIN, Address, TlsFiles, program_name
from hetrl_core.task import Role
from hetrl_runtime.transport.callers import ALLOWED, Allowed, AsyncRoleCheck, RoleCheck

MAX_MESSAGE_BYTES = 64 << 20
"""Above the largest trajectory that ``wire.codec`` accepts."""

MAX_CONNECTIONS = 4096
"""Of one server: twice the processes that a run may have."""

_OPTIONS = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # A dead peer is noticed within a minute, also behind a NAT that forgets idle flows.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # A restarted peer is found again soon; backing off is the callers' part.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.enable_retries", 0),
)
_SERVER_OPTIONS = (
    *_OPTIONS,
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    # A caller without a certificate must not keep a connection for the two minutes of the default.
    ("grpc.server_handshake_timeout_ms", 15_000),
    ("grpc.max_allowed_incoming_connections", MAX_CONNECTIONS),
    # Two coordinators of two jobs must never share a port unnoticed.
    ("grpc.so_reuseport", 0),
)


def open_channel(address: Address, tls: TlsFiles | None, *, program: Role) -> grpc.aio.Channel:
    """Open a channel to a peer that must run a program; nothing is sent before the first call.

    Raises:
        ValueError: there are no certificates and the peer is on another machine.
        OSError: a certificate file cannot be read.
    """
    if tls is None:
        _require_loopback(address)
        return grpc.aio.insecure_channel(str(address), options=_OPTIONS)
    certificate = Path(tls.certificate).read_bytes()
    credentials = grpc.ssl_channel_credentials(
        root_certificates=Path(tls.ca).read_bytes(),
        private_key=Path(tls.key).read_bytes(),
        certificate_chain=certificate,
    )
    # A job's certificates are issued together: where ours names programs, the peer's does too.
    names_programs = PROGRAM_DOMAIN.encode() in ssl.PEM_cert_to_DER_cert(certificate.decode())
    expected = (("grpc.ssl_target_name_override", program_name(program)),) * names_programs
    return grpc.aio.secure_channel(str(address), credentials, options=(*_OPTIONS, *expected))


def open_async_server(allowed: Allowed = ALLOWED) -> grpc.aio.Server:
    """Make a server for an event loop; add services, ``bind`` it, then start it."""
    return grpc.aio.server(interceptors=[AsyncRoleCheck(allowed)], options=_SERVER_OPTIONS)


def open_threaded_server(executor: Executor) -> grpc.Server:
    """Make a server whose calls run in threads, for a process without an event loop."""
    return grpc.server(executor, interceptors=[RoleCheck(ALLOWED)], options=_SERVER_OPTIONS)


def bind(server: grpc.aio.Server | grpc.Server, address: Address, tls: TlsFiles | None) -> int:
    """Make a server listen; return the port, which the system chose where 0 was asked for.

    Raises:
        ValueError: there are no certificates and the address is not loopback.
        OSError: the port is taken, or a certificate file cannot be read.
    """
    if tls is None:
        _require_loopback(address)
        add_port = server.add_insecure_port
    else:
        credentials = grpc.ssl_server_credentials(
            [(Path(tls.key).read_bytes(), Path(tls.certificate).read_bytes())],
            root_certificates=Path(tls.ca).read_bytes(),
            require_client_auth=True,
        )
        add_port = partial(server.add_secure_port, server_credentials=credentials)
    try:
        return int(add_port(str(address)))
    except RuntimeError as error:
        raise OSError(f"cannot listen on {address}: {error}") from error


async def abort(context: ServicerContext, code: grpc.StatusCode, details: str) -> NoReturn:
    """End a call with an error."""
    await context.abort(code, details)
    raise AssertionError("abort raises")


def _require_loopback(address: Address) -> None:
    if not is_loopback(address.host):
        raise ValueError(f"{address}: without tls certificates only loopback addresses are allowed")


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine, by name or loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
