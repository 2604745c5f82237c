"""The certificates of one job: an authority of its own and a leaf for each role.

A leaf's subject is its role, by which servers know who calls. Its names include those of the
programs that a pod of the role may run, by which clients know whom they call.

They are a function of a seed, the names and the time: equal inputs give equal bytes. The
authority's key is never stored, so that no further certificate can be issued for the job. The
caller stores the files: in a Secret, or in a folder of ``hetrl run``.
"""

import datetime
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hetrl_core.launch import program_name
from hetrl_core.task import Role, possible_programs

AUTHORITY_FILE = "ca.crt"
VALIDITY_DAYS = 365
"""Longer than a run may take; certificates of a job are not renewed while it runs."""

_SEED_BYTES = 32
_CLOCK_SKEW = datetime.timedelta(minutes=5)
_CURVE_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of P-256, SEC 2 section 2.4.2; private keys lie between 1 and this less 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A role's certificate and key, in PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The authority and leaves with which a job's processes trust only each other."""

    authority: bytes
    leaves: tuple[tuple[Role, Leaf], ...]

    def files(self) -> dict[str, bytes]:
        """Return file names and contents: ``ca.crt``, and ``<role>.crt|key`` for each role."""
        files = {AUTHORITY_FILE: self.authority}
        for role, leaf in self.leaves:
            files[f"{role}.crt"] = leaf.certificate
            files[f"{role}.key"] = leaf.key
        return files


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """Return the DNS names that cover every pod behind a headless Service."""
    return tuple(
        f"*.{service}{domain}"
        for domain in ("", f".{namespace}", f".{namespace}.svc", f".{namespace}.svc.cluster.local")
    )


def issue(*, seed: bytes, job: str, dns_names: tuple[str, ...], now: datetime.datetime) -> Identity:
    """Issue a job's certificates; ``localhost`` and the loopback addresses are always covered.

    Args:
        seed: 32 random bytes that were never used before.
        job: the job's name, for people who read certificates.
        dns_names: names under which the processes reach each other; wildcards are allowed.
        now: the current time, with a zone.

    Raises:
        ValueError: the seed is too short to keep a key secret.
    """
    if len(seed) < _SEED_BYTES:
        raise ValueError(f"seed must have at least {_SEED_BYTES} bytes, got {len(seed)}")
    authority_key = _key(seed, "authority")
    authority = _authority(authority_key, seed=seed, job=job, now=now)
    leaves = tuple(
        (role, _leaf(role, seed=seed, names=dns_names, now=now, by=(authority, authority_key)))
        for role in Role
    )
    return Identity(authority=_pem(authority), leaves=leaves)


def _key(seed: bytes, purpose: str) -> ec.EllipticCurvePrivateKey:
    # 48 bytes, reduced, leave a bias below 2^-128 (FIPS 186-5, A.2.1).
    derived = HKDF(
        algorithm=hashes.SHA256(), length=48, salt=None, info=f"hetrl identity {purpose}".encode()
    ).derive(seed)
    value = 1 + int.from_bytes(derived) % (_CURVE_ORDER - 1)
    return ec.derive_private_key(value, ec.SECP256R1())


def _serial(seed: bytes, purpose: str) -> int:
    # Positive and at most 159 bits, as RFC 5280 wants it.
    derived = HKDF(
        algorithm=hashes.SHA256(), length=19, salt=None, info=f"hetrl serial {purpose}".encode()
    ).derive(seed)
    return 1 + int.from_bytes(derived)


def _authority(
    key: ec.EllipticCurvePrivateKey, *, seed: bytes, job: str, now: datetime.datetime
) -> x509.Certificate:
    name = _name(f"hetrl job {job}"[:64])
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        _builder(subject=name, issuer=name, key=key, serial=_serial(seed, "authority"), now=now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256(), ecdsa_deterministic=True)
    )


def _leaf(
    role: Role,
    *,
    seed: bytes,
    names: tuple[str, ...],
    now: datetime.datetime,
    by: tuple[x509.Certificate, ec.EllipticCurvePrivateKey],
) -> Leaf:
    issuer, issuer_key = by
    key = _key(seed, role)
    loopback = [x509.IPAddress(ipaddress.ip_address(each)) for each in ("127.0.0.1", "::1")]
    # Names of hosts are for pods of releases before 0.3.0, which verify no program's.
    programs = [program_name(each) for each in possible_programs(role)]
    alternatives = [x509.DNSName(each) for each in (*names, "localhost", *programs)]
    certificate = (
        _builder(
            subject=_name(role),
            issuer=issuer.subject,
            key=key,
            serial=_serial(seed, role),
            now=now,
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([*alternatives, *loopback]), critical=False)
        .add_extension(x509.ExtendedKeyUsage(_purposes(role)), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
        .sign(issuer_key, hashes.SHA256(), ecdsa_deterministic=True)
    )
    return Leaf(certificate=_pem(certificate), key=_private_pem(key))


def _purposes(role: Role) -> list[x509.ObjectIdentifier]:
    # A rollout that relays weights, and an inference worker, call and are called.
    calls = [] if role is Role.COORDINATOR else [ExtendedKeyUsageOID.CLIENT_AUTH]
    return [ExtendedKeyUsageOID.SERVER_AUTH, *calls]


def _builder(
    *,
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    serial: int,
    now: datetime.datetime,
) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        subject_name=subject,
        issuer_name=issuer,
        public_key=key.public_key(),
        serial_number=serial,
        not_valid_before=now - _CLOCK_SKEW,
        not_valid_after=now + datetime.timedelta(days=VALIDITY_DAYS),
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
