"""Which certificate a listener shows, and whose it takes: shaken hands with, over memory."""

import shutil
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from penstock.base.errors import ConfigError
from penstock.node.access.certificates import tls_context, tls_files
from penstock.node.settings.security_config import SecurityConfig
from tests.access.certificates import Authority

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")

NOW = datetime.now(UTC)
Pair = tuple[str, str]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Pair:
    return authority.issue("server", "/CN=server")


def config(server: Pair, **more: Any) -> SecurityConfig:
    return SecurityConfig(ssl_certificate_file=server[0], ssl_key_file=server[1], **more)


def shaken(
    context: ssl.SSLContext, authority: Authority, *, asks: str | None = None, own: Pair | None
) -> str:
    """Shake hands as a client; returns the name in the server's certificate.

    Raises ssl.SSLError where either side ends it.
    """
    client_context = ssl.create_default_context(cafile=authority.file)
    client_context.check_hostname = False
    if own is not None:
        client_context.load_cert_chain(*own)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=asks)
    side = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for one in (client, side):
            try:
                one.do_handshake()
            except ssl.SSLWantReadError:
                continue
    shown = x509.load_der_x509_certificate(client.getpeercert(binary_form=True) or b"")
    return shown.subject.rfc4514_string().removeprefix("CN=")


def combined(directory: Path, pair: Pair, name: str) -> str:
    path = directory / name
    path.write_text(Path(pair[1]).read_text() + Path(pair[0]).read_text())
    path.chmod(0o600)
    return str(path)


def revoked(authority: Authority, pairs: Sequence[Pair], *, days: int = 1) -> str:
    """Write the authority's list with these certificates, over after so many days."""
    own = x509.load_pem_x509_certificate(Path(authority.file).read_bytes())
    key_bytes = Path(authority.file).with_suffix(".key").read_bytes()
    key: Any = serialization.load_pem_private_key(key_bytes, None)
    begin = NOW - timedelta(days=3)
    made = x509.CertificateRevocationListBuilder().issuer_name(own.subject)
    made = made.last_update(begin).next_update(NOW + timedelta(days=days))
    for certificate, _ in pairs:
        number = x509.load_pem_x509_certificate(Path(certificate).read_bytes()).serial_number
        one = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(begin)
        made = made.add_revoked_certificate(one.build())
    path = authority.directory / f"revoked-{len(pairs)}-{days}.pem"
    signed = made.sign(key, hashes.SHA256())
    path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    return str(path)


# --- by name -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asks", "shown"),
    [
        ("kafka.example.net", "named"),
        ("KAFKA.example.net", "named"),
        ("one.example.org", "wild"),
        ("one.two.example.org", "server"),
        ("example.org", "server"),
        ("other.example.net", "server"),
        (None, "server"),
    ],
)
def test_a_client_gets_the_certificate_for_the_name_that_it_asks_for(
    authority: Authority, server: Pair, tmp_path: Path, asks: str | None, shown: str
) -> None:
    named = combined(tmp_path, authority.issue("named", "/CN=named"), "named")
    wild = combined(tmp_path, authority.issue("wild", "/CN=wild"), "wild")
    names = (f"Kafka.example.net={named}", f"*.example.org={wild}")
    settings = config(server, ssl_server_names=names)
    assert {named, wild} < set(tls_files(settings))
    assert shaken(tls_context(settings), authority, asks=asks, own=None) == shown


def test_clients_are_asked_for_certificates_under_every_name(
    authority: Authority, server: Pair, tmp_path: Path
) -> None:
    named = combined(tmp_path, authority.issue("named", "/CN=named"), "named")
    stranger = Authority(tmp_path / "strangers", "strangers").issue("client", "/CN=client")
    settings = config(
        server,
        ssl_server_names=(f"a.example.net={named}",),
        ssl_client_auth="required",
        ssl_authority_file=authority.file,
    )
    context, own = tls_context(settings), authority.issue("client", "/CN=client")
    assert shaken(context, authority, asks="a.example.net", own=own) == "named"
    for wrong in (None, stranger):
        with pytest.raises(ssl.SSLError):
            shaken(context, authority, asks="a.example.net", own=wrong)


@pytest.mark.parametrize(
    "text", ["name", "=/f", "a b=/f", "a.*=/f", "*=/f", "name=relative", "*.*.net=/f"]
)
def test_what_is_no_name_and_file_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no NAME=FILE"):
        SecurityConfig(ssl_server_names=(text,))


def test_a_name_has_one_certificate() -> None:
    with pytest.raises(ConfigError, match="twice"):
        SecurityConfig(ssl_server_names=("a.net=/f", "A.net=/g"))


def test_a_file_with_a_key_that_everybody_can_read_is_refused(
    authority: Authority, server: Pair, tmp_path: Path
) -> None:
    named = combined(tmp_path, authority.issue("named", "/CN=named"), "named")
    Path(named).chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        tls_context(config(server, ssl_server_names=(f"a.net={named}",)))


# --- lists of revoked certificates ---------------------------------------------------------------


@pytest.mark.parametrize("asks", [None, "a.net"])
def test_a_client_whose_certificate_is_revoked_is_refused_and_others_are_not(
    authority: Authority, server: Pair, tmp_path: Path, asks: str | None
) -> None:
    good, bad = authority.issue("good", "/CN=good"), authority.issue("bad", "/CN=bad")
    named = combined(tmp_path, authority.issue("named", "/CN=named"), "named")
    context = tls_context(listed(authority, server, revoked(authority, [bad]), named))
    assert shaken(context, authority, asks=asks, own=good)
    with pytest.raises(ssl.SSLError, match=r"(?i)revoked"):
        shaken(context, authority, asks=asks, own=bad)


def listed(authority: Authority, server: Pair, lists: str, named: str = "") -> SecurityConfig:
    return config(
        server,
        ssl_client_auth="required",
        ssl_authority_file=authority.file,
        ssl_revocation_file=lists,
        ssl_server_names=(f"a.net={named}",) if named else (),
    )


def test_a_list_that_is_over_lets_nobody_in(authority: Authority, server: Pair) -> None:
    context = tls_context(listed(authority, server, revoked(authority, [], days=-1)))
    with pytest.raises(ssl.SSLError, match="CRL has expired"):
        shaken(context, authority, own=authority.issue("good", "/CN=good"))


def test_an_authority_without_a_list_lets_nobody_in(
    authority: Authority, server: Pair, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other", "other")
    both = tmp_path / "both.pem"
    both.write_text(Path(authority.file).read_text() + Path(other.file).read_text())
    settings = config(
        server,
        ssl_client_auth="required",
        ssl_authority_file=str(both),
        ssl_revocation_file=revoked(authority, []),
    )
    context = tls_context(settings)
    assert shaken(context, authority, own=authority.issue("good", "/CN=good"))
    with pytest.raises(ssl.SSLError, match="unable to get certificate CRL"):
        shaken(context, authority, own=other.issue("good", "/CN=good"))


def test_a_file_without_a_list_is_refused(authority: Authority, server: Pair) -> None:
    with pytest.raises(ConfigError, match="has no list of revoked ones"):
        tls_context(listed(authority, server, authority.file))


def test_a_list_without_authorities_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"give security\.ssl_authority_file"):
        SecurityConfig(ssl_revocation_file="/lists.pem")
