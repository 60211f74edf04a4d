"""Certificates that `penstock up --secure` makes, and when it makes new ones."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from penstock.access.issuing import (
    RENEW_DAYS,
    SERVER_DAYS,
    Pair,
    is_good,
    new_authority,
    new_server,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ["localhost", "127.0.0.1", "::1", "log.example.net"]


@pytest.fixture(scope="module")
def authority() -> Pair:
    return new_authority("one", NOW)


@pytest.fixture(scope="module")
def server(authority: Pair) -> Pair:
    return new_server(authority, NAMES, NOW)


def is_kept(server: Pair, authority: Pair, names: list[str] = NAMES, *, days: int = 0) -> bool:
    pem = server.certificate + server.key
    return is_good(pem, authority.certificate, names, NOW + timedelta(days=days))


def test_a_certificate_is_kept_as_long_as_it_serves(server: Pair, authority: Pair) -> None:
    assert is_kept(server, authority)
    assert is_kept(server, authority, NAMES[::-1])
    assert is_kept(server, authority, days=SERVER_DAYS - RENEW_DAYS)


def test_one_near_its_end_is_replaced(server: Pair, authority: Pair) -> None:
    assert not is_kept(server, authority, days=SERVER_DAYS - RENEW_DAYS + 1)


@pytest.mark.parametrize("names", [NAMES[1:], [*NAMES, "other"], ["localhost"]])
def test_one_of_other_names_is_replaced(server: Pair, authority: Pair, names: list[str]) -> None:
    assert not is_kept(server, authority, names)


def test_one_of_another_authority_is_replaced(server: Pair) -> None:
    assert not is_kept(server, new_authority("one", NOW))
    assert not is_kept(server, new_authority("two", NOW))


def test_one_whose_key_is_another_is_replaced(server: Pair, authority: Pair) -> None:
    assert not is_kept(Pair(server.certificate, authority.key), authority)


@pytest.mark.parametrize("pem", [b"", b"-----BEGIN CERTIFICATE-----\n", b"\xff"])
def test_one_that_can_not_be_read_is_replaced(pem: bytes, authority: Pair) -> None:
    assert not is_good(pem, authority.certificate, NAMES, NOW)


def test_an_authority_signs_servers_and_no_authorities(server: Pair, authority: Pair) -> None:
    for pem, is_authority in ((authority.certificate, True), (server.certificate, False)):
        extensions = x509.load_pem_x509_certificate(pem).extensions
        assert extensions.get_extension_for_class(x509.BasicConstraints).value.ca is is_authority
        usage = extensions.get_extension_for_class(x509.KeyUsage).value
        assert usage.key_cert_sign is is_authority
    uses = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(uses) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_a_key_that_is_not_the_authoritys_signs_nothing(authority: Pair) -> None:
    other = new_authority("other", NOW)
    with pytest.raises(ValueError, match="does not fit its certificate"):
        new_server(Pair(authority.certificate, other.key), NAMES, NOW)


def test_python_accepts_it_where_it_checks_strictly(tmp_path) -> None:
    authority = new_authority("strict", datetime.now(UTC))
    server = new_server(authority, NAMES, datetime.now(UTC))
    client, listener = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), tmp_path / "server.pem"
    listener.write_bytes(server.certificate + server.key)
    client.load_verify_locations(cadata=authority.certificate.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    serves = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serves.load_cert_chain(listener)
    for name in NAMES:
        assert shaken(client, serves, name) == "TLSv1.3"


def shaken(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> str | None:
    """Shake hands in memory; return the version. Raises SSLError."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    asks = client.wrap_bio(back, there, server_hostname=name)
    serves = server.wrap_bio(there, back, server_side=True)
    sides = [asks, serves]
    while sides:
        for side in tuple(sides):
            try:
                side.do_handshake()
                sides.remove(side)
            except ssl.SSLWantReadError:
                continue
    return asks.version()
