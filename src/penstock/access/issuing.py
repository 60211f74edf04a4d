"""An authority of one's own, and certificates that it signs for servers.

By `penstock up --secure`, which keeps it, and by a node with `grpc.takes_tls`, which does not.

Keys are P-256, which a handshake costs a tenth of RSA. An authority lasts ten years and signs
servers only, each for SERVER_DAYS; a start makes a new one for a server whose own is near its
end, or has other names.

Source: RFC 5280 (extensions); RFC 9325 4 (keys). Not here: lists of revoked certificates.
"""

import ipaddress
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS = 3_650
SERVER_DAYS = 825
"""Clients of Apple's systems refuse servers' certificates that last longer."""
RENEW_DAYS = 90
"""A certificate with less left is replaced at a start."""
SKEW = timedelta(hours=1)
"""Clocks of clients may be behind by so much."""


class Pair(NamedTuple):
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


def new_authority(name: str, now: datetime) -> Pair:
    """Return an authority whose subject is `name`; each needs another name."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
    usage = _usage(signs_certificates=True)
    builder = _builder(subject, subject, key.public_key(), now, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return _signed(builder.add_extension(usage, critical=True), key, key)


def new_server(authority: Pair, names: Iterable[str], now: datetime) -> Pair:
    """Return a certificate for a server that clients find under `names`, hosts and addresses.

    Raises ValueError if the authority's key can not be used.
    """
    issuer, signs = _loaded(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_subject("penstock"), issuer.subject, key.public_key(), now, SERVER_DAYS)
    for extension, is_critical in (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(signs_certificates=False), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectAlternativeName([_name(name) for name in names]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(signs.public_key()), False),
    ):
        builder = builder.add_extension(extension, critical=is_critical)
    return _signed(builder, key, signs)


def is_good(pem: bytes, authority: bytes, names: Iterable[str], now: datetime) -> bool:
    """Whether a server's certificate, with its key in `pem` too, need not be replaced."""
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        key = load_pem_private_key(pem, password=None)
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
        told = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        has_names = set(told) == {_name(name) for name in names}
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    lasts = certificate.not_valid_after_utc - now >= timedelta(days=RENEW_DAYS)
    return has_names and lasts and certificate.public_key() == key.public_key()


def _name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    days: int,
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key)
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - SKEW)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key)
    return builder.not_valid_after(now + timedelta(days=days)).add_extension(
        identifier, critical=False
    )


def _signed(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    by: ec.EllipticCurvePrivateKey,
) -> Pair:
    certificate = builder.sign(by, hashes.SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Pair(certificate.public_bytes(Encoding.PEM), private)


def _loaded(authority: Pair) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate = x509.load_pem_x509_certificate(authority.certificate)
    key = load_pem_private_key(authority.key, password=None)
    fits = key.public_key() == certificate.public_key()
    if not (isinstance(key, ec.EllipticCurvePrivateKey) and fits):
        raise ValueError("the key of the authority does not fit its certificate")
    return certificate, key
