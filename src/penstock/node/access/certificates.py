"""TLS of one listener: its context, made of files.

TLS 1.2 is the least version, renegotiation and compression are off, and the server chooses among
OpenSSL's default ciphers. A key with a password is refused: nobody is there to type it.

Source: RFC 9325 (recommendations for TLS); Kafka `DefaultSslEngineFactory` for PEM.
"""

import ssl

from penstock.base.errors import ConfigError
from penstock.node.access.files import check_private
from penstock.node.settings.security_config import SecurityConfig

_ASKS = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def tls_files(settings: SecurityConfig) -> tuple[str, ...]:
    """Return the files that a context is made of."""
    files = (settings.ssl_certificate_file, settings.ssl_key_file, settings.ssl_authority_file)
    return tuple(path for path in files if path)


def tls_context(settings: SecurityConfig) -> ssl.SSLContext:
    """Return the context of a listener. Raises ConfigError."""
    check_private("security.ssl_key_file", settings.ssl_key_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    try:
        # An empty password keeps an encrypted key from asking for one on the terminal.
        context.load_cert_chain(settings.ssl_certificate_file, settings.ssl_key_file, password="")
        if settings.ssl_authority_file:
            context.load_verify_locations(settings.ssl_authority_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"{' and '.join(tls_files(settings))} can not be used together: {error}"
        ) from error
    context.verify_mode = _ASKS[settings.ssl_client_auth]
    return context
