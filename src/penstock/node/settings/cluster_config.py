"""How this process takes part in a cluster: its controllers, its ports for peers, the secret.

Without `voters` a node is its own controller and needs no other process. With them it is a voter
if its broker id is among them, and otherwise follows them as a learner. The list is what a process
starts with; once the metadata log holds another one, that one counts.
"""

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

from annotated_types import Ge, Le, MaxLen

from penstock.base.errors import ConfigError
from penstock.base.ids import PeerId
from penstock.node.settings.config import PORT_MAX

PeerPort = Annotated[int, Ge(0), Le(PORT_MAX)]
OTHER_SECRETS = (".next", ".old")
"""Ends of the names of files whose secrets are accepted while the secret is replaced."""
SECRET_BYTES_MIN = 16
SECRET_BYTES_MAX = 4096


class VoterAddress(NamedTuple):
    """A controller: its peer id and the address of its controller port."""

    peer_id: PeerId
    host: str
    port: int

    @property
    def address(self) -> str:
        """`host:port`, as it stands in the metadata log."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """The controllers, the ports of this process for peers, and how peers authenticate."""

    voters: tuple[str, ...] = ()
    """The first controllers, each as `id@host:port` of its controller port, the same list in every
    process. Empty: this node alone. Changes come later with `penstock controller add|remove`."""

    host: Annotated[str, MaxLen(255)] = ""
    """Address the controller and HA ports bind. Empty: `node.host`."""

    advertised_host: Annotated[str, MaxLen(255)] = ""
    """Host name advertised to peers for the HA port. Empty: the one advertised to Kafka clients."""

    controller_port: PeerPort = 0
    """Port for controllers and brokers (9093 by custom); 0: none, for a node alone."""

    ha_port: PeerPort = 0
    """Port on which slaves fetch the log from this node (9094 by custom); 0: none, and the node can
    be master of no set with other members."""

    secret_file: Annotated[str, MaxLen(4096)] = ""
    """File with the secret that all processes of the cluster share, 16 bytes at least. Needed where
    a port for peers is open. A relative path starts at the directory of the settings file. Where a
    file of the same name with `.next` or `.old` behind it exists, its secret is accepted as well;
    all three are read again when they change."""

    tls_certificate_file: Annotated[str, MaxLen(4096)] = ""
    """Certificate of this process (PEM). With the two below, peers talk over mutual TLS."""

    tls_key_file: Annotated[str, MaxLen(4096)] = ""
    """Private key of the certificate (PEM)."""

    tls_authority_file: Annotated[str, MaxLen(4096)] = ""
    """Certificates (PEM) that the other side's certificate must be signed by."""

    start_timeout_ms: Annotated[int, Ge(100), Le(3_600_000)] = 10_000
    """How long a starting node waits for controllers before it continues with its last roles."""

    def __post_init__(self) -> None:
        self.voter_addresses()
        files = (self.tls_certificate_file, self.tls_key_file, self.tls_authority_file)
        if any(files) and not all(files):
            raise ConfigError(
                "TLS between peers needs cluster.tls_certificate_file, cluster.tls_key_file and "
                "cluster.tls_authority_file: give all three or none"
            )
        if (self.controller_port or self.ha_port) and not self.secret_file:
            raise ConfigError(
                "cluster.controller_port or cluster.ha_port is open and cluster.secret_file is not "
                "given: name a file with a secret of 16 bytes or more, the same in every process"
            )

    def voter_addresses(self) -> tuple[VoterAddress, ...]:
        """Return the voters. Raises ConfigError for a malformed or doubled one."""
        found = tuple(_voter(text) for text in self.voters)
        if len({voter.peer_id for voter in found}) < len(found):
            raise ConfigError("cluster.voters names an id twice: give every controller its own")
        return found

    def read_secrets(self) -> tuple[bytes, ...]:
        """Return the secret, then those of `secret_file`.next and .old that exist.

        Empty where no file is named. Raises ConfigError.
        """
        if not self.secret_file:
            return ()
        own, *others = self.secret_files()
        return (_read_secret(own), *(_read_secret(path) for path in others if Path(path).exists()))

    def secret_files(self) -> tuple[str, ...]:
        """Return the paths of all secrets, whether they exist or not."""
        return tuple(self.secret_file + end for end in ("", *OTHER_SECRETS) if self.secret_file)


def _read_secret(path: str) -> bytes:
    try:
        mode = Path(path).stat().st_mode
        secret = Path(path).read_bytes()[: SECRET_BYTES_MAX + 1].strip()
    except FileNotFoundError:
        raise ConfigError(
            f"cluster.secret_file {path} does not exist: make it once, as in "
            f"`(umask 077; openssl rand -hex 32 > {path})`, and copy it to every "
            "machine of the cluster"
        ) from None
    except OSError as error:
        raise ConfigError(
            f"cluster.secret_file {path} can not be read: {error.strerror}"
        ) from error
    if stat.S_ISREG(mode) and mode & stat.S_IRWXO:
        raise ConfigError(
            f"cluster.secret_file {path} can be read or written by everybody on "
            f"this machine: chmod 600 {path}"
        )
    if not SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX:
        raise ConfigError(
            f"cluster.secret_file {path} holds {len(secret)} bytes: a secret has "
            f"{SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}, such as `openssl rand -hex 32` prints"
        )
    return secret


def _voter(text: str) -> VoterAddress:
    peer_id, at, address = text.partition("@")
    host, colon, port = address.rpartition(":")
    if not (at and colon and host and _is_number(peer_id, 2**31 - 1) and _is_number(port, 65535)):
        raise ConfigError(
            f"cluster.voters: {text!r} is no controller: write id@host:port, as in 1@10.0.0.1:9093"
        )
    return VoterAddress(PeerId(int(peer_id)), host.strip("[]"), int(port))


def _is_number(text: str, largest: int) -> bool:
    return text.isascii() and text.isdigit() and int(text) <= largest
