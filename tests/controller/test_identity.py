"""A job's certificates: made by one function of its input, and good for TLS both ways."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from hetrl_core.task import Role
from hetrl_operator.render.tls import Identity, issue, service_names
from tests.controller.values import NOW

SEED, ANOTHER_SEED = b"a" * 32, b"b" * 32


def an_identity(seed: bytes = SEED) -> Identity:
    # TLS compares with the real clock.
    return issue(
        seed=seed, job="math", dns_names=service_names("math", "default"), now=datetime.now(UTC)
    )


def test_seed_and_time_fix_the_files() -> None:
    def files(seed: bytes) -> dict[str, bytes]:
        return issue(seed=seed, job="math", dns_names=("x",), now=NOW).files()

    assert files(SEED) == files(SEED)
    assert files(SEED) != files(ANOTHER_SEED)


def test_authoritys_key_is_in_no_file() -> None:
    assert sorted(an_identity().files()) == [
        "ca.crt",
        "coordinator.crt",
        "coordinator.key",
        "inference.crt",
        "inference.key",
        "rollout.crt",
        "rollout.key",
        "trainer.crt",
        "trainer.key",
    ]


def test_authority_may_sign_and_leaves_may_not() -> None:
    files = an_identity().files()
    authority = x509.load_pem_x509_certificate(files["ca.crt"])
    leaf = x509.load_pem_x509_certificate(files["trainer.crt"])

    usage = authority.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.key_cert_sign
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc >= timedelta(days=365)


def test_short_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 32 bytes, got 4"):
        issue(seed=b"1234", job="math", dns_names=(), now=NOW)


SERVES, CALLS = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


@pytest.mark.parametrize(
    ("role", "programs", "purposes"),
    [
        (Role.COORDINATOR, {"coordinator"}, {SERVES}),
        (Role.TRAINER, {"trainer", "rollout", "inference"}, {SERVES, CALLS}),
        (Role.ROLLOUT, {"rollout", "inference"}, {SERVES, CALLS}),
        (Role.INFERENCE, {"inference"}, {SERVES, CALLS}),
    ],
)
def test_leaf_names_its_role_and_the_programs_of_its_pod(
    role: Role, programs: set[str], purposes: set[x509.ObjectIdentifier]
) -> None:
    leaf = x509.load_pem_x509_certificate(an_identity().files()[f"{role}.crt"])

    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    found = names.get_values_for_type(x509.DNSName)
    assert leaf.subject.rfc4514_string() == f"CN={role}"
    assert {each for each in found if each.endswith(".hetrl.internal")} == {
        f"{each}.hetrl.internal" for each in programs
    }
    usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usage) == purposes


def contexts(folder: Path, server: Identity, client: Identity) -> tuple[ssl.SSLContext, ...]:
    made = []
    sides = (
        (server, Role.COORDINATOR, ssl.PROTOCOL_TLS_SERVER),
        (client, Role.ROLLOUT, ssl.PROTOCOL_TLS_CLIENT),
    )
    for identity, role, protocol in sides:
        place = folder / role
        place.mkdir()
        for name, text in identity.files().items():
            (place / name).write_bytes(text)
        context = ssl.SSLContext(protocol)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(place / "ca.crt")
        context.load_cert_chain(place / f"{role}.crt", place / f"{role}.key")
        made.append(context)
    return tuple(made)


async def greet(folder: Path, server: Identity, client: Identity, *, name: str) -> bytes:
    serving, calling = contexts(folder, server, client)

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=serving) as listening:
        port = listening.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=calling, server_hostname=name
        )
        try:
            return await reader.read()
        finally:
            writer.close()


@pytest.mark.parametrize(
    "name",
    [
        "math-coordinator-0.math.default.svc",
        "math-coordinator-0.math.default.svc.cluster.local",
        "localhost",
    ],
)
async def test_processes_of_one_job_trust_each_other_under_their_names(
    tmp_path: Path, name: str
) -> None:
    identity = an_identity()

    assert await greet(tmp_path, identity, identity, name=name) == b"hello"


async def test_certificate_of_another_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLError):
        await greet(tmp_path, an_identity(), an_identity(ANOTHER_SEED), name="localhost")


async def test_name_of_another_job_is_refused(tmp_path: Path) -> None:
    identity = an_identity()

    with pytest.raises(ssl.SSLCertVerificationError):
        await greet(tmp_path, identity, identity, name="math-coordinator-0.other.default.svc")
