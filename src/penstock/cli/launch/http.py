"""`penstock http`: a process beside the nodes, for languages that no client of them is at hand for.

It keeps nothing: any number of them may run, and one that dies loses nothing. SIGTERM and SIGINT
end it cleanly. The exit code is 0 after a clean end, 2 if a file or a port can not be used.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.base.errors import ConfigError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from penstock.http.tokens import Tokens
    from penstock.node.access.files import Watched

PORT_MAX = 65_535
CONNECTIONS_MAX = 100_000
LISTEN_DEFAULT = "127.0.0.1:8080"
BOOTSTRAP_DEFAULT = "localhost:9876"


TokensOption = Annotated[
    Path,
    typer.Option(metavar="FILE", help="Who may do what, TOML; see docs/operations/http.md."),
]
BootstrapOption = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT,…",
        help="Nodes' ports for RocketMQ's remoting clients (remoting.port).",
    ),
]
ListenOption = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="Where clients reach this process.")
]
CertificateOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Certificate, PEM; clients then talk TLS.")
]
KeyOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Its key, PEM.")]
AuthorityOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Talk TLS to nodes, whose certificates this signed."),
]
ConnectionsOption = Annotated[
    int, typer.Option(min=1, max=CONNECTIONS_MAX, help="Clients' connections at a time.")
]
WaitsOption = Annotated[
    int,
    typer.Option(min=1, max=CONNECTIONS_MAX, help="Open receives and streams of one token."),
]
PlainOption = Annotated[
    bool, typer.Option("--plain", help="Let other machines send tokens without TLS.")
]


def run_http(
    tokens: TokensOption,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    listen: ListenOption = LISTEN_DEFAULT,
    tls_cert: CertificateOption = None,
    tls_key: KeyOption = None,
    node_ca: AuthorityOption = None,
    connections: ConnectionsOption = 1_000,
    waits: WaitsOption = 100,
    plain: PlainOption = False,
) -> None:
    """Let clients produce and consume over HTTP, until SIGTERM or SIGINT."""
    addresses = node_addresses(bootstrap)
    host, port = _address("--listen", listen)
    if (tls_cert is None) != (tls_key is None):
        raise ConfigError("--tls-cert and --tls-key belong together")
    _check_reach(host, has_tls=tls_cert is not None or plain)
    _check_installed()
    import asyncio

    import uvloop

    from penstock.cli.node import log_to_stderr
    from penstock.http.limits import Limits
    from penstock.http.server import bind, serve

    watched = _tokens(tokens)
    context = _context(tls_cert, tls_key)
    node_tls = node_context(node_ca)
    log_to_stderr("warning")
    listening = bind(host, port)

    def look() -> None:
        watched.look()
        if context is not None:
            context.look()

    work = serve(
        addresses,
        lambda: watched.value,
        listening,
        context=_value(context),
        node_tls=node_tls,
        limits=Limits(connections_max=connections, waits_max=waits),
        look=look,
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


def _tokens(path: Path) -> "Watched[Tokens]":
    """Return the tokens, which follow their file. Raises ConfigError."""
    from penstock.http.tokens import read_tokens
    from penstock.node.access.files import Watched, read_private

    def load() -> "Tokens":
        return read_tokens(str(path), read_private("--tokens", str(path)))

    return Watched("the file of tokens", (str(path),), load)


def _value(context: "Watched[ssl.SSLContext] | None") -> "Callable[[], ssl.SSLContext] | None":
    return None if context is None else lambda: context.value


def _check_installed() -> None:
    from importlib.util import find_spec

    if find_spec("uvicorn") is None:
        raise ConfigError("penstock http needs uvicorn: pip install 'penstock[http]'")


def node_addresses(text: str) -> list[str]:
    """Return the addresses of nodes. Raises ConfigError."""
    addresses = [one.strip() for one in text.split(",") if one.strip()]
    if not addresses:
        raise ConfigError("--bootstrap names no node: write host:port")
    for one in addresses:
        _address("--bootstrap", one)
    return addresses


def _address(option: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    is_number = port.isascii() and port.isdecimal() and len(port) < 6
    if not (host and is_number and 0 <= int(port) <= PORT_MAX):
        raise ConfigError(f"{option} {text}: write host:port, as in 127.0.0.1:8080")
    return host.strip("[]"), int(port)


def _check_reach(host: str, *, has_tls: bool) -> None:
    """Raise ConfigError if tokens would go over a network for everybody to read."""
    import ipaddress

    try:
        is_own = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_own = host == "localhost"
    if not (is_own or has_tls):
        raise ConfigError(
            f"--listen {host}: other machines would send their tokens in the clear: give --tls-cert"
            " and --tls-key, or permit it with --plain, as behind a proxy that talks TLS"
        )


def _context(certificate: Path | None, key: Path | None) -> "Watched[ssl.SSLContext] | None":
    """Return the TLS of the listener, which follows its files. Raises ConfigError."""
    if certificate is None or key is None:
        return None
    from penstock.node.access.certificates import tls_context
    from penstock.node.access.files import Watched, check_private
    from penstock.node.settings.security_config import SecurityConfig

    files = str(certificate), str(key)
    settings = SecurityConfig(ssl_certificate_file=files[0], ssl_key_file=files[1])

    def load() -> "ssl.SSLContext":
        check_private("--tls-key", files[1])
        return tls_context(settings, "http/1.1")

    return Watched("the certificate", files, load)


def node_context(authority: Path | None) -> "ssl.SSLContext | None":
    """Return the TLS of connections to nodes. Raises ConfigError."""
    if authority is None:
        return None
    import ssl

    try:
        return ssl.create_default_context(cafile=str(authority))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"--node-ca {authority} can not be used: {error}") from error
