"""The settings of the node process itself: who it is, where it listens, where its data lives.

Every other room declares its settings beside the code that uses them (`storage/config.py` and so
on); `node/settings/settings.py` puts them together. This module holds only what belongs to no other
room.
"""

import socket
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le, MaxLen, MinLen

from penstock.base.endpoints import (
    FIRST_LISTENER,
    LISTENERS_MAX,
    NamedEndpoint,
    parse_endpoint,
)
from penstock.base.errors import ConfigError

PORT_MAX = 65_535
BROKER_ID_MAX = 2**31 - 1

Port = Annotated[int, Ge(1), Le(PORT_MAX)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Identity, addresses and places of one node process."""

    broker_id: Annotated[int, Ge(0), Le(BROKER_ID_MAX)] = 1
    """The id clients see for this broker. It is written into the data directories at the first
    start and can not change afterwards."""

    cluster_id: Annotated[str, MaxLen(64)] = ""
    """Empty: made at the first start and kept in the data directories. Otherwise it must equal
    the one kept there."""

    data_directories: Annotated[tuple[str, ...], MinLen(1)] = ("data",)
    """Directories for logs, one for each disk; they must exist. A relative path starts at the
    directory of the settings file."""

    host: Annotated[str, MinLen(1)] = "127.0.0.1"
    """Address the Kafka listener binds; `0.0.0.0` for every interface. Where other machines reach
    it, `security.listener_security_protocol_map` has to give it a protocol that asks clients who
    they are, or `security.open_listeners` has to name it."""

    port: Port = 9092
    """Port of the Kafka listener."""

    advertised_host: Annotated[str, MaxLen(255)] = ""
    """Host name advertised to clients. Empty: `host`, or the machine's name where
    `host` stands for every interface."""

    advertised_port: Annotated[int, Ge(0), Le(PORT_MAX)] = 0
    """Port advertised to clients; 0 means `port`."""

    listeners: tuple[str, ...] = ()
    """Further listeners for Kafka clients, each as `NAME://host:port` to bind, such as one for a
    network inside and one outside. Answers to a client contain the brokers' addresses for the
    listener that it is connected to, so every broker needs listeners of the same names. The one
    of `host` and `port` is called `kafka`."""

    advertised_listeners: tuple[str, ...] = ()
    """Advertised addresses of the further listeners, each as `NAME://host:port`. A listener that is
    not named here is advertised as it is bound, with the host's name if that is every interface."""

    rack: Annotated[str, MaxLen(255)] = ""
    """The rack of the node, as shown to clients; empty: none. Members of a replica set are in
    different racks while there are enough."""

    machine: Annotated[str, MaxLen(255)] = ""
    """The computer that the node runs on: members of a replica set run on different ones while
    there are enough. Empty: the name of the host. Set it where that is not the computer's, as in
    containers, and give nodes of one computer the same."""

    metrics_host: Annotated[str, MinLen(1)] = "127.0.0.1"
    """Address of the HTTP port with `/metrics`, `/health` and `/ready`. Where other machines reach
    it, `security.listener_security_protocol_map=metrics:SSL` says to whom it tells more than
    `/health` and `/ready`."""

    metrics_port: Annotated[int, Ge(0), Le(PORT_MAX)] = 9404
    """Port of metrics and health; 0 switches it off."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level of the lines written to stderr."""

    @property
    def machine_name(self) -> str:
        """The computer that the node runs on."""
        return self.machine or socket.gethostname()

    def advertised(self) -> tuple[str, int]:
        """Return the host and port that are advertised to clients."""
        host = self.advertised_host or _reachable(self.host)
        return host, self.advertised_port or self.port

    def named_listeners(self) -> tuple[NamedEndpoint, ...]:
        """Return the further listeners as they are bound. Raises ConfigError."""
        found = _endpoints("node.listeners", self.listeners)
        if any(one.name == FIRST_LISTENER for one in found):
            raise ConfigError(
                f"node.listeners: {FIRST_LISTENER} is the listener of node.host and node.port:"
                " give the others names of their own"
            )
        return found

    def told_listeners(self) -> tuple[NamedEndpoint, ...]:
        """Return the advertised addresses of the further listeners. Raises ConfigError."""
        advertised = _endpoints("node.advertised_listeners", self.advertised_listeners)
        told = {one.name: one for one in advertised}
        bound = {listener.name: listener for listener in self.named_listeners()}
        if unknown := told.keys() - bound.keys():
            raise ConfigError(
                f"node.advertised_listeners names {min(unknown)}, which node.listeners does not:"
                f" add {min(unknown)}://host:port there"
            )
        return tuple(
            told.get(name) or one._replace(host=_reachable(one.host)) for name, one in bound.items()
        )

    def __post_init__(self) -> None:
        """Check the relations between fields. Raises ConfigError."""
        if len(set(self.data_directories)) != len(self.data_directories):
            raise ConfigError("node.data_directories names a directory twice: name each once")
        if "" in self.data_directories:
            raise ConfigError("node.data_directories holds an empty path: name a directory")
        if self.metrics_port and (self.metrics_port, self.metrics_host) == (self.port, self.host):
            raise ConfigError("node.port and node.metrics_port are the same: change one of them")
        self.told_listeners()
        ports = [self.port, *(listener.port for listener in self.named_listeners())]
        if len(set(ports)) < len(ports):
            raise ConfigError("node.listeners opens a port twice: give each listener its own")


def _reachable(host: str) -> str:
    """Return the machine's name for an address that stands for every interface."""
    every_interface = host in {"0.0.0.0", "::"}  # noqa: S104  compared, not bound
    return socket.gethostname() if every_interface else host


def _endpoints(setting: str, texts: tuple[str, ...]) -> tuple[NamedEndpoint, ...]:
    found = []
    for text in texts:
        endpoint = parse_endpoint(text)
        if endpoint is None:
            raise ConfigError(
                f"{setting}: {text!r} is no listener: write NAME://host:port, as in"
                " INTERNAL://10.0.0.1:9095"
            )
        found.append(endpoint)
    if len({one.name for one in found}) < len(found):
        raise ConfigError(f"{setting} names a listener twice: give each a name of its own")
    if len(found) > LISTENERS_MAX:
        raise ConfigError(f"{setting} names {len(found)} listeners: {LISTENERS_MAX} is the most")
    return tuple(found)
