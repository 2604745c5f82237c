"""Certificates on disk for tests with mutual TLS, issued by an authority of the test's own."""

import datetime
import ipaddress
import os
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hetrl_core.launch import TlsFiles
from hetrl_core.task import Role
from hetrl_operator.render.tls import issue


class Authority:
    """Issues leaves for 127.0.0.1 into a folder."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, directory.name)])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        certificate = (
            _builder(self._name, self._name, self._key)
            .add_extension(constraints, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca = directory / "ca.crt"
        self.ca.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def leaf(self, name: str) -> TlsFiles:
        """Issue a certificate and key; trust is this authority's."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        certificate = (
            _builder(subject, self._name, key)
            .add_extension(x509.SubjectAlternativeName([loopback]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        certificate_file = self._directory / f"{name}.crt"
        key_file = self._directory / f"{name}.key"
        certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return TlsFiles(ca=str(self.ca), certificate=str(certificate_file), key=str(key_file))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
    )


def issued(directory: Path) -> Callable[[Role], TlsFiles]:
    """Issue a job's certificates as the operator does; returns a role's files."""
    directory.mkdir(parents=True)
    files = issue(
        seed=os.urandom(32), job="sums", dns_names=(), now=datetime.datetime.now(datetime.UTC)
    )
    for name, content in files.files().items():
        (directory / name).write_bytes(content)

    def of(role: Role) -> TlsFiles:
        return TlsFiles(
            ca=str(directory / "ca.crt"),
            certificate=str(directory / f"{role}.crt"),
            key=str(directory / f"{role}.key"),
        )

    return of
