"""The cluster's certificate authority: server, client and kubelet certificates, all ECDSA P-256.

Writes PEM files into one folder. Who may do what is RBAC's, not decided here.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALIDITY = datetime.timedelta(days=365)
# Certificates start in the past: a virtual machine's clock may be set back after it resumes.
BACKDATED = datetime.timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """The PEM files of a certificate and its private key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A certificate authority that lives in the folder `folder`."""

    folder: Path

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def key(self) -> Path:
        return self.folder / "ca.key"

    def server(self, name: str, *, hosts: Iterable[str]) -> KeyPair:
        """Issue a server certificate for DNS names and IP addresses."""
        alternative_names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        return self._issue(name, _subject(name), ExtendedKeyUsageOID.SERVER_AUTH, alternative_names)

    def client(self, name: str, *, user: str, groups: Iterable[str] = ()) -> KeyPair:
        """Issue a client certificate that the API server reads as `user` in `groups`."""
        return self._issue(name, _subject(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self,
        name: str,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        alternative_names: x509.SubjectAlternativeName | None,
    ) -> KeyPair:
        authority_key = _load_key(self.key)
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, key)
            .issuer_name(x509.load_pem_x509_certificate(self.certificate.read_bytes()).subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
                critical=False,
            )
        )
        if alternative_names is not None:
            builder = builder.add_extension(alternative_names, critical=False)
        pair = KeyPair(
            certificate=self.folder / f"{name}.crt",
            key=self.folder / f"{name}.key",
        )
        _write(pair, builder.sign(authority_key, hashes.SHA256()), key)
        return pair


def create_authority(folder: Path) -> Authority:
    """Create a self-signed authority in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = Authority(folder=folder)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject("hetrl-local-cluster")
    certificate = (
        _builder(subject, key)
        .issuer_name(subject)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_SIGNS_CERTIFICATES, critical=True)
        .sign(key, hashes.SHA256())
    )
    _write(KeyPair(certificate=authority.certificate, key=authority.key), certificate, key)
    return authority


def create_signing_key(folder: Path, name: str) -> KeyPair:
    """Create the key pair that signs service-account tokens (public key, not a certificate)."""
    pair = KeyPair(certificate=folder / f"{name}.pub", key=folder / f"{name}.key")
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    pair.certificate.write_bytes(public)
    _write_key(pair.key, key)
    return pair


# Python 3.13's ssl refuses an authority whose certificate lacks the key usage extension.
_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    crl_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + VALIDITY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _subject(common_name: str, organizations: Iterable[str] = ()) -> x509.Name:
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def _write(pair: KeyPair, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_key(pair.key, key)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
