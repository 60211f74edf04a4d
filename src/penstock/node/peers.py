"""Ports for other processes of the cluster, and the credentials of this process for them."""

import secrets
import ssl
import time
from collections.abc import Callable, Mapping

from penstock.base.errors import ConfigError
from penstock.net.peer import PeerHello, PeerLink, PeerListener, PeerSecurity
from penstock.net.peer_turn import PeerTurn
from penstock.net.sockets import OpenSocket, open_socket
from penstock.node.settings.cluster_config import ClusterConfig
from penstock.runtime.raft.transport import FRAME_BYTES_MAX as RAFT_FRAME_BYTES_MAX
from penstock.runtime.session.messages import FRAME_BYTES_MAX as SESSION_FRAME_BYTES_MAX

OnLink = Callable[[PeerLink], None]
CONTROLLER_FRAME_BYTES_MAX = max(RAFT_FRAME_BYTES_MAX, SESSION_FRAME_BYTES_MAX)
ALONE = b"a node alone talks to nobody"
"""The secret of a process without ports for peers; never used to authenticate."""


def peer_security(
    cluster: ClusterConfig,
    token_bytes: Callable[[int], bytes] = secrets.token_bytes,
    stopwatch: Callable[[], float] = time.perf_counter,
) -> PeerSecurity:
    """Return secret and TLS contexts from the settings. Raises ConfigError."""
    turn = PeerTurn(stopwatch)
    secret = cluster.read_secret() or ALONE
    if not cluster.tls_certificate_file:
        return PeerSecurity(secret, token_bytes=token_bytes, turn=turn)
    return PeerSecurity(
        secret,
        tls_server=_context(cluster, ssl.Purpose.CLIENT_AUTH),
        tls_client=_context(cluster, ssl.Purpose.SERVER_AUTH),
        token_bytes=token_bytes,
        turn=turn,
    )


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
