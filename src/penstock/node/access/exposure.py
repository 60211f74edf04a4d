"""Listeners that let in everybody from other machines: a node with one does not start by itself.

    bound to this machine alone                      served as it is
    clients have to prove who they are               served
    neither, and named in `security.open_listeners`  served; somebody wants it so
    neither                                          the node does not start

The ports for RocketMQ's clients may not be open, on this machine either, where all listeners of
Kafka's clients ask: they lead to the same topics.

SSL counts as proof only where a certificate is required of the client. What an authoriser would
permit does not count: rules do not tell apart clients that nobody knows.

Not here: the ports for peers, which ask for the cluster's secret, and the pages with the metrics.
"""

import ipaddress
import socket
from collections.abc import Iterator

from penstock.base.endpoints import FIRST_LISTENER, NamedEndpoint
from penstock.base.errors import ConfigError
from penstock.grpc.config import LISTENER_NAME as GRPC
from penstock.node.settings.security_config import SecurityConfig, SecurityProtocol
from penstock.node.settings.settings import NodeSettings
from penstock.remoting.config import LISTENER_NAME


def check_exposure(settings: NodeSettings) -> None:
    """Raise ConfigError if other machines reach a listener that asks nobody who they are."""
    for listener in reached(settings):
        name = listener.name
        if name in settings.security.open_listeners or asks_clients(settings.security, name):
            continue
        raise ConfigError(
            f"listener {name} is bound to {listener.host}, so everybody who reaches this machine"
            " would be let in: give it a protocol that asks clients who they are, such as"
            f" security.listener_security_protocol_map={name}:SASL_SSL, or bind it to 127.0.0.1,"
            f" or permit it with security.open_listeners={name}"
        )
    _check_side_door(settings)


def _check_side_door(settings: NodeSettings) -> None:
    """Raise ConfigError if RocketMQ's clients are asked nothing where all others are."""
    security = settings.security
    others = FIRST_LISTENER, *(one.name for one in settings.node.named_listeners())
    if not all(asks_clients(security, name) for name in others):
        return
    for name, port in ((LISTENER_NAME, settings.remoting.port), (GRPC, settings.grpc.port)):
        if port and not (name in security.open_listeners or asks_clients(security, name)):
            raise ConfigError(
                f"listener {name} lets in everybody, while Kafka's clients have to prove who they"
                f" are: give it security.listener_security_protocol_map={name}:SASL_SSL and"
                " security.remoting_access_keys_file, or permit it with"
                f" security.open_listeners={name}"
            )


def reached(settings: NodeSettings) -> Iterator[NamedEndpoint]:
    """Yield the listeners for clients that other machines reach, as they are bound."""
    node = settings.node
    first = NamedEndpoint(FIRST_LISTENER, node.host, node.port)
    for listener in (first, *settings.bound_listeners()):
        if not is_of_this_machine(listener.host):
            yield listener


def asks_clients(security: SecurityConfig, name: str) -> bool:
    """Whether every client of a listener has to prove who it is."""
    protocol = security.protocols().get(name, SecurityProtocol.PLAINTEXT)
    is_certified = security.of_listener(name).ssl_client_auth == "required"
    return protocol.has_sasl or (protocol.has_tls and is_certified)


def is_of_this_machine(host: str) -> bool:
    """Whether only this machine reaches what is bound to `host`.

    A name counts by its addresses; one without any can not be bound either, and counts as reached.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass  # a name
    try:
        found = socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return False
    addresses = [ipaddress.ip_address(address[0]) for *_, address in found]
    return bool(addresses) and all(address.is_loopback for address in addresses)
