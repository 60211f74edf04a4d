"""Ports for other processes of the cluster, and the credentials of this process for them."""

import logging
import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from penstock.base.errors import ConfigError
from penstock.base.ports import Cancellable
from penstock.net.peer import Credentials, PeerHello, PeerLink, PeerListener, PeerSecurity
from penstock.net.peer_turn import PeerTurn
from penstock.net.sockets import OpenSocket, open_socket
from penstock.node.access.files import Watched
from penstock.node.settings.cluster_config import ClusterConfig
from penstock.runtime.raft.transport import FRAME_BYTES_MAX as RAFT_FRAME_BYTES_MAX
from penstock.runtime.session.messages import FRAME_BYTES_MAX as SESSION_FRAME_BYTES_MAX

if TYPE_CHECKING:
    from penstock.node.machine import Machine

OnLink = Callable[[PeerLink], None]
CONTROLLER_FRAME_BYTES_MAX = max(RAFT_FRAME_BYTES_MAX, SESSION_FRAME_BYTES_MAX)
ALONE = b"a node alone talks to nobody"
"""The secret of a process without ports for peers; never used to authenticate."""
_LOOK_MS = 1_000

log = logging.getLogger(__name__)


class PeerFiles:
    """The credentials of a process for its peers, and the files they come from, which may change.

    Once a second: has a file changed? It is read again; a broken one is said, and left out.
    """

    def __init__(self, cluster: ClusterConfig, machine: "Machine") -> None:
        """Read the files. Raises ConfigError."""
        self._paths = (*cluster.secret_files(), *_tls_files(cluster))
        self._watched = Watched("credentials for peers", self._paths, lambda: credentials(cluster))
        self._scheduler = machine.scheduler
        self._timer: Cancellable | None = None
        turn = PeerTurn(machine.stopwatch)
        self.security = PeerSecurity(
            self._watched.value, token_bytes=machine.randomness.token_bytes, turn=turn
        )

    def follow(self) -> None:
        """Look at the files from now on, where there are any."""
        if self._paths:
            self._timer = self._scheduler.call_later(_LOOK_MS, self._look)

    def stop(self) -> None:
        """Look at them no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._watched.look()
        found = self._watched.value
        if found is not self.security.credentials:
            self.security.use(found)
            log.info("secrets that peers may prove themselves with: %d", len(found.keys))
        self._timer = self._scheduler.call_later(_LOOK_MS, self._look)


def peer_security(cluster: ClusterConfig) -> PeerSecurity:
    """Return what a process that ends soon proves itself with. Raises ConfigError."""
    return PeerSecurity(credentials(cluster))


def credentials(cluster: ClusterConfig) -> Credentials:
    """Return secrets and TLS contexts from the files of the settings. Raises ConfigError."""
    secret, *others = cluster.read_secrets() or (ALONE,)
    if not cluster.tls_certificate_file:
        return Credentials(secret, tuple(others))
    return Credentials(
        secret,
        tuple(others),
        tls_server=_context(cluster, ssl.Purpose.CLIENT_AUTH),
        tls_client=_context(cluster, ssl.Purpose.SERVER_AUTH),
    )


def _tls_files(cluster: ClusterConfig) -> tuple[str, ...]:
    files = (cluster.tls_certificate_file, cluster.tls_key_file, cluster.tls_authority_file)
    return tuple(path for path in files if path)


def _context(cluster: ClusterConfig, purpose: ssl.Purpose) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(purpose, cafile=cluster.tls_authority_file)
        # An empty password keeps an encrypted key from asking for one on the terminal.
        context.load_cert_chain(cluster.tls_certificate_file, cluster.tls_key_file, password="")
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            "cluster.tls_certificate_file, cluster.tls_key_file and cluster.tls_authority_file "
            f"can not be used together: {error}"
        ) from error
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def listen(
    *,
    address: tuple[str, int],
    own: PeerHello,
    security: PeerSecurity,
    purposes: Mapping[bytes, OnLink],
    frame_bytes_max: int,
    open_socket: OpenSocket = open_socket,
) -> PeerListener:
    """Return an open port. Raises ConfigError when it can not be bound."""
    listener = PeerListener(
        *address, own, security, dict(purposes), frame_bytes_max=frame_bytes_max
    )
    listener.start(open_socket)
    return listener
