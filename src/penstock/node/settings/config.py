"""The settings of the node process itself: who it is, where it listens, where its data lives.

Every other room declares its settings beside the code that uses them (`storage/config.py` and so
on); `node/settings/settings.py` puts them together. This module holds only what belongs to no other
room.
"""

import socket
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le, MaxLen, MinLen

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
    """Address the Kafka listener binds; `0.0.0.0` for every interface. There is no authentication
    yet: bind a public address only inside a network you trust."""

    port: Port = 9092
    """Port of the Kafka listener."""

    advertised_host: Annotated[str, MaxLen(255)] = ""
    """Host name clients are told to connect to. Empty: `host`, or the machine's name where
    `host` stands for every interface."""

    advertised_port: Annotated[int, Ge(0), Le(PORT_MAX)] = 0
    """Port clients are told to connect to; 0 means `port`."""

    rack: Annotated[str, MaxLen(255)] = ""
    """Where the node stands, as shown to clients; empty means not said."""

    metrics_host: Annotated[str, MinLen(1)] = "127.0.0.1"
    """Address of the HTTP port with `/metrics`, `/health` and `/ready`."""

    metrics_port: Annotated[int, Ge(0), Le(PORT_MAX)] = 9404
    """Port of metrics and health; 0 switches it off."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level of the lines written to stderr."""

    def advertised(self) -> tuple[str, int]:
        """Return the host and port clients are told to connect to."""
        every_interface = self.host in {"0.0.0.0", "::"}  # noqa: S104  compared, not bound
        host = self.advertised_host or (socket.gethostname() if every_interface else self.host)
        return host, self.advertised_port or self.port

    def __post_init__(self) -> None:
        """Refuse what the bounds of single fields can not tell."""
        if len(set(self.data_directories)) != len(self.data_directories):
            raise ConfigError("node.data_directories names a directory twice: name each once")
        if "" in self.data_directories:
            raise ConfigError("node.data_directories holds an empty path: name a directory")
        if self.metrics_port and (self.metrics_port, self.metrics_host) == (self.port, self.host):
            raise ConfigError("node.port and node.metrics_port are the same: change one of them")
