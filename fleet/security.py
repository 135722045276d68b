"""Mutual TLS: whoever has a certificate of the fleet's own authority belongs to the fleet."""

import datetime
import os
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from distributed import Security

from opduel.records import RunError, UsageError
from opduel.support.atomic import write_atomically

AUTHORITY, AUTHORITY_KEY = "ca.pem", "ca-key.pem"
CERTIFICATE, KEY = "fleet.pem", "fleet-key.pem"
NEEDED = (AUTHORITY, CERTIFICATE, KEY)  # on each host; the authority's key stays where certificates are made
AUTHORITY_DAYS = 3650
MAKE_THEM = "make them with: opduel fleet certificates FOLDER, and copy {} to each host".format(", ".join(NEEDED))


def make_certificates(folder: Path, days: int) -> list[Path]:
    """Write a certificate that is valid for so many days, and the fleet's authority if there is none yet. UsageError:
    the folder has an authority that can't be read; RunError: a file can't be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if (folder / AUTHORITY).exists() != (folder / AUTHORITY_KEY).exists():
            raise UsageError(f"{folder}: has only one of {AUTHORITY} and {AUTHORITY_KEY}: give another folder")
        authority, authority_key = _authority(folder)
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _issue(
            "opduel fleet",
            key.public_key(),
            authority.subject,
            authority_key,
            days,
            x509.BasicConstraints(ca=False, path_length=None),
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
        )
        _write(folder, KEY, key, CERTIFICATE, certificate)
    except OSError as error:
        raise RunError(f"{folder}: certificates cannot be written ({error.strerror}): give another folder") from None
    return [folder / name for name in NEEDED]


def _authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return the folder's authority; create it if there is none."""
    if (folder / AUTHORITY).exists():
        try:
            certificate = x509.load_pem_x509_certificate((folder / AUTHORITY).read_bytes())
            key = serialization.load_pem_private_key((folder / AUTHORITY_KEY).read_bytes(), None)
            assert isinstance(key, ec.EllipticCurvePrivateKey)
        except (ValueError, TypeError, AssertionError):
            raise UsageError(f"{folder}: {AUTHORITY} or {AUTHORITY_KEY} is damaged: give another folder") from None
        return certificate, key
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _issue(
        "opduel fleet authority",
        key.public_key(),
        _named("opduel fleet authority"),
        key,
        AUTHORITY_DAYS,
        x509.BasicConstraints(ca=True, path_length=0),
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
    )
    _write(folder, AUTHORITY_KEY, key, AUTHORITY, certificate)
    return certificate, key


def _issue(
    name: str,
    key: ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    issuers_key: ec.EllipticCurvePrivateKey,
    days: int,
    *extensions: x509.ExtensionType,
) -> x509.Certificate:
    """Return a certificate of this key, which is valid for so many days."""
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # hosts' clocks differ
        .not_valid_after(now + datetime.timedelta(days=days))
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
    return builder.sign(issuers_key, hashes.SHA256())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _write(
    folder: Path, key_name: str, key: ec.EllipticCurvePrivateKey, name: str, certificate: x509.Certificate
) -> None:
    """Write a key, which only its owner can read, and its certificate."""
    pem = serialization.Encoding.PEM
    content = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_atomically(folder / key_name, content, mode=0o600)
    write_atomically(folder / name, certificate.public_bytes(pem))


def security_of(folder: Path, option: str = "--fleet_certificates") -> Security:
    """Return Dask's settings of TLS for all connections. Raise UsageError if a file is missing or damaged, or the
    certificate has expired or is not the authority's."""
    paths = {name: folder / name for name in NEEDED}
    for path in paths.values():
        if not os.path.isfile(path):  # Path.is_file raises where a name is too long
            raise UsageError(f"{option} {folder}: {path.name} is missing: {MAKE_THEM}")
    try:
        authority = x509.load_pem_x509_certificate(paths[AUTHORITY].read_bytes())
        own = x509.load_pem_x509_certificate(paths[CERTIFICATE].read_bytes())
        key = serialization.load_pem_private_key(paths[KEY].read_bytes(), None)
        own.verify_directly_issued_by(authority)
        belong_together = key.public_key() == own.public_key()
    except (OSError, ValueError, TypeError, InvalidSignature):
        belong_together = False
    if not belong_together:
        why = f"{', '.join(NEEDED)} cannot be read, or do not belong together"
        raise UsageError(f"{option} {folder}: {why}: {MAKE_THEM}")
    expiry = own.not_valid_after_utc
    if expiry < datetime.datetime.now(datetime.UTC):
        raise UsageError(
            f"{option} {folder}: {CERTIFICATE} expired on {expiry:%Y-%m-%d}: make a new one with "
            "opduel fleet certificates, in the folder that has the authority's key"
        )
    names = {
        f"tls_{role}_{suffix}": str(paths[file])
        for role in ("scheduler", "worker", "client")
        for suffix, file in (("cert", CERTIFICATE), ("key", KEY))
    }
    return Security(tls_ca_file=str(paths[AUTHORITY]), require_encryption=True, **names)
