"""The lab's certificates: one authority, a server's, an administrator's, and the key of service accounts."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = timedelta(days=7)
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class Pki:
    """Where the files are."""

    directory: Path

    @property
    def ca(self) -> Path:
        return self.directory / "ca.crt"

    @property
    def admin(self) -> tuple[Path, Path]:
        return self.directory / "admin.crt", self.directory / "admin.key"

    @property
    def server(self) -> tuple[Path, Path]:
        return self.directory / "tls.crt", self.directory / "tls.key"

    @property
    def accounts(self) -> Path:
        return self.directory / "accounts.key"


def make(directory: Path) -> Pki:
    """Everything the lab needs; private keys are for the owner's eyes."""
    directory.mkdir(parents=True, exist_ok=True)
    pki = Pki(directory)
    authority_key: Key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("rackwright-lab", authority_key, None, authority_key)
    pki.ca.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    for paths, name, organisation, usage in (
        (pki.server, "rackwright-lab-server", None, ExtendedKeyUsageOID.SERVER_AUTH),
        (pki.admin, "admin", "system:masters", ExtendedKeyUsageOID.CLIENT_AUTH),
    ):
        key: Key = ec.generate_private_key(ec.SECP256R1())
        leaf = _certificate(name, key, authority, authority_key, organisation=organisation, usage=usage)
        paths[0].write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
        _write_key(key, paths[1])
    _write_key(rsa.generate_private_key(public_exponent=65537, key_size=2048), pki.accounts)
    return pki


def _certificate(
    name: str,
    key: Key,
    issuer: x509.Certificate | None,
    signer: Key,
    *,
    organisation: str | None = None,
    usage: x509.ObjectIdentifier | None = None,
) -> x509.Certificate:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if organisation:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation))
    subject, now = x509.Name(parts), datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + VALID)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if usage:
        loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(
            x509.SubjectAlternativeName([loopback, x509.DNSName("localhost")]), critical=False
        )
    return builder.sign(signer, hashes.SHA256())


def _write_key(key: Key, path: Path) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
