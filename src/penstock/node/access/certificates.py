"""TLS of one listener: its context, made of files.

TLS 1.2 is the least version, renegotiation and compression are off, and the server chooses among
OpenSSL's default ciphers; for HTTP/2 among those that its document permits. A key with a password
is refused: nobody is there to type it.

A certificate that is chosen by name comes in a context of its own, with the same authorities and
lists of revoked certificates, since OpenSSL asks the chosen context for them.

Source: RFC 6066 section 3 (names), RFC 5280 section 5 (lists); RFC 9325 (recommendations for TLS);
RFC 7301 (ALPN), RFC 9113 section 9.2.2 and its appendix A (ciphers that HTTP/2 does not permit);
Kafka `DefaultSslEngineFactory` for PEM.
"""

import ssl
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from penstock.base.errors import ConfigError
from penstock.node.access.files import check_private
from penstock.node.settings.security_config import SecurityConfig

HTTP2: Final = "h2"
"""By ALPN."""
_HTTP2_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2: a client may end a connection that has others."""
_ASKS = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def tls_files(settings: SecurityConfig) -> tuple[str, ...]:
    """Return the files that a context is made of."""
    files = (
        settings.ssl_certificate_file,
        settings.ssl_key_file,
        settings.ssl_authority_file,
        settings.ssl_revocation_file,
        *settings.server_names().values(),
    )
    return tuple(path for path in files if path)


def tls_context(settings: SecurityConfig, application: str = "") -> ssl.SSLContext:
    """Return the context of a listener. Raises ConfigError.

    `application` is the protocol to be agreed on by ALPN, where there is one.
    """
    check_private("security.ssl_key_file", settings.ssl_key_file)
    files = settings.ssl_certificate_file, settings.ssl_key_file
    context = _context(settings, *files, application)
    by_name: dict[str, ssl.SSLContext] = {}
    for name, path in settings.server_names().items():
        check_private("security.ssl_server_names", path)
        by_name[name] = _context(settings, path, path, application)
    if by_name:
        context.sni_callback = partial(_use_named, by_name)
    return context


def own_context(hosts: Iterable[str], application: str, now: datetime) -> ssl.SSLContext:
    """Return a context with a certificate that is made now, for these hosts and this machine.

    The authority that signs it is forgotten, so nobody can check it. OpenSSL takes files only:
    they are there for a moment, and nobody else can read them.
    """
    # A node without it imports none of this.
    from penstock.access.issuing import new_authority, new_server  # noqa: PLC0415

    names = dict.fromkeys([*hosts, "localhost", "127.0.0.1", "::1"])
    pair = new_server(new_authority("penstock, unchecked", now), names, now)
    with TemporaryDirectory(prefix="penstock-tls-") as directory:
        path = Path(directory) / "pair.pem"
        path.write_bytes(pair.certificate + pair.key)
        return _context(SecurityConfig(), str(path), str(path), application)


def _context(
    settings: SecurityConfig, certificate: str, key: str, application: str
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    if application:
        context.set_alpn_protocols([application])
    if application == HTTP2:
        context.set_ciphers(_HTTP2_CIPHERS)
    used = [certificate, key]
    try:
        # An empty password keeps an encrypted key from asking for one on the terminal.
        context.load_cert_chain(certificate, key, password="")
        for path in (settings.ssl_authority_file, settings.ssl_revocation_file):
            if path:
                used.append(path)
                context.load_verify_locations(path)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"{' and '.join(dict.fromkeys(used))} can not be used together: {error}"
        ) from error
    if settings.ssl_revocation_file:
        _check_revocations(context, settings.ssl_revocation_file)
    context.verify_mode = _ASKS[settings.ssl_client_auth]
    return context


def _check_revocations(context: ssl.SSLContext, path: str) -> None:
    """Have clients' certificates looked for in lists. Raises ConfigError if there are none."""
    if not context.cert_store_stats()["crl"]:
        raise ConfigError(f"security.ssl_revocation_file {path} has no list of revoked ones (CRL)")
    context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF


def _use_named(
    by_name: Mapping[str, ssl.SSLContext],
    tls: ssl.SSLObject | ssl.SSLSocket,
    name: str | None,
    _context: ssl.SSLContext,
) -> None:
    """Take the certificate for the name that a client asks for, where there is one.

    A name without one is no error, as with one certificate for all names.
    """
    asked = (name or "").lower()
    found = by_name.get(asked) or by_name.get("*." + asked.partition(".")[2])
    if found is not None:
        tls.context = found
