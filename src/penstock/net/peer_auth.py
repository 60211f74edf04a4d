"""The handshake of peer links, sans-IO: identifies both ends and proves that they share the secret.

    dialer                                    listener
      hello   (identity, purpose, nonce)   ─►
                                           ◄─  challenge (nonce)
      proof   (MAC over all of the above)  ─►
                                           ◄─  accept (identity, MAC over all of it) | refuse (why)

Each MAC is HMAC-SHA256 under a key derived from the shared secret, over a label for the role and
every byte sent before in both directions: peer id, cluster id, purpose, session id and both nonces.
A recorded handshake cannot be replayed, since the other side's nonce is new; a proof cannot be
reflected, since the labels of the roles differ. The dialer proves itself first, so that a client
that merely connects learns nothing for guessing a weak secret; a listener identifies itself only to
a peer that knows the secret.

While a secret is being replaced, a listener accepts several and answers with the one that the
dialer has used. Open links stay when their secret is accepted no longer.

Two clusters with the same secret by mistake are told apart by the cluster id; an empty id (a
process that joins, or a cluster not founded yet) matches any. Layouts: docs/formats/peer-links.md.

Source: ISO/IEC 9798-4 (mutual authentication by a MAC and two nonces); RFC 2104.
Not here: secrecy and integrity after the handshake, which need TLS.
"""

import hmac
import secrets
import ssl
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import NamedTuple, Protocol

from penstock.base.errors import ConfigError
from penstock.net.peer_errors import PeerRefused, RefusalLog
from penstock.net.peer_turn import PeerTurn

MAGIC = b"PNPL"
VERSION = 1
NONCE_BYTES = 32
PROOF_BYTES = 32
HANDSHAKE_BYTES_MAX = 512
"""Largest body of a handshake frame: an unauthenticated peer can make this side hold as much."""

PURPOSE_BYTES_MAX = 16
CLUSTER_ID_BYTES_MAX = 128
REASON_BYTES_MAX = 300

_HEAD = Struct(">4sBB")
_IDENTITY = Struct(">qqI")
"""Peer id, session id, largest frame that this side accepts."""

_KEY_LABEL = b"penstock peer link 1"
_DIALER_LABEL = b"dialer"
_LISTENER_LABEL = b"listener"
_OVER = "its secret is accepted no longer"

assert _HEAD.size + NONCE_BYTES + _IDENTITY.size + PURPOSE_BYTES_MAX + CLUSTER_ID_BYTES_MAX + 2 <= (
    HANDSHAKE_BYTES_MAX - PROOF_BYTES
)
assert _HEAD.size + 2 + REASON_BYTES_MAX <= HANDSHAKE_BYTES_MAX


class PeerHello(NamedTuple):
    """The peer at one end of a link, and the purpose of the link."""

    purpose: bytes
    """1 to 16 bytes, such as b"raft"; empty in a listener's own identity."""
    cluster_id: str
    """Empty while it is not known."""
    peer_id: int
    """The process's number in all its roles; -1 for a command-line tool."""
    session_id: int
    """Defined by the purpose; 0 if unused."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a peer proves itself with: the secret, and TLS contexts if links are encrypted.

    The contexts must require the other side's certificate (`ssl.CERT_REQUIRED`).
    """

    secret: bytes = field(repr=False)
    """This side dials with it."""
    others: tuple[bytes, ...] = field(default=(), repr=False)
    """Secrets that are accepted from a dialer as well, while the secret is being replaced."""
    tls_server: ssl.SSLContext | None = None
    tls_client: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        if not all((self.secret, *self.others)):
            raise ConfigError("the secret that peers share is empty: set the same one everywhere")
        for context in (self.tls_server, self.tls_client):
            if context is not None and context.verify_mode is not ssl.CERT_REQUIRED:
                raise ConfigError("TLS between peers is mutual: both contexts need CERT_REQUIRED")
        if (self.tls_server is None) is not (self.tls_client is None):
            raise ConfigError("TLS between peers needs both a server and a client context")

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The keys of MACs that are accepted; this side's own proofs are made with the first."""
        secrets_ = (self.secret, *self.others)
        return tuple(hmac.digest(secret, _KEY_LABEL, "sha256") for secret in secrets_)


class Closable(Protocol):
    """A link, as far as the end of its secret matters to it."""

    def close(self, reason: str) -> None:
        """Close the link, and tell its owner the reason."""

    def abort(self, reason: str) -> None:
        """Close it without sending anything more, also one that is closing."""


class PeerSecurity:
    """The credentials of a process, which may be replaced, and what all its links share."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        token_bytes: Callable[[int], bytes] = secrets.token_bytes,
        turn: PeerTurn | None = None,
    ) -> None:
        """`token_bytes(size)` is the source of nonces, which must never repeat."""
        self.token_bytes = token_bytes
        self.turn = turn or PeerTurn()
        self.refusals = RefusalLog()
        self._credentials = credentials
        self._keys = credentials.keys
        self._links: dict[Closable, bytes] = {}
        """The key that each open link was proven with, at both ends."""

    @property
    def credentials(self) -> Credentials:
        """What links are made with from now on."""
        return self._credentials

    @property
    def keys(self) -> tuple[bytes, ...]:
        """Those of the credentials."""
        return self._keys

    @property
    def links_of_others(self) -> int:
        """Open links, either end's, that were proven with another secret than this side's."""
        return sum(key != self._keys[0] for key in self._links.values())

    def use(self, credentials: Credentials) -> None:
        """Go by other credentials for new links. Open ones stay.

        To close those of a secret that is accepted no longer would move masterships: whoever loses
        a peer's link takes it for dead. They are counted instead, and end with either process.
        """
        self._credentials = credentials
        self._keys = credentials.keys

    def keep(self, link: Closable, key: bytes) -> bool:
        """Know an open link, and the key it was proven with.

        Returns False, and closes it, if the key was let go during the handshake.
        """
        if key not in self._keys:
            link.close(_OVER)
            return False
        self._links[link] = key
        return True

    def forget(self, link: Closable) -> None:
        """Know a link no longer. Unknown ones are ignored."""
        self._links.pop(link, None)

    def end_links(self, reason: str) -> None:
        """Abort all links, closing ones too: the loop they run on is about to end."""
        for link in [*self._links]:
            link.abort(reason)


class Kind(IntEnum):
    """Kinds of handshake frames."""

    HELLO = 1
    CHALLENGE = 2
    PROOF = 3
    ACCEPT = 4
    REFUSE = 5


class Identity(NamedTuple):
    """A hello with the largest frame that its sender accepts."""

    hello: PeerHello
    frame_bytes_max: int


class Progress(NamedTuple):
    """Result of a handshake frame: bytes to send; at the end, the peer or a refusal."""

    answer: bytes = b""
    peer: Identity | None = None
    refusal: str = ""


class DialerHandshake:
    """The dialing side."""

    def __init__(self, own: Identity, key: bytes, nonce: bytes) -> None:
        assert 1 <= len(own.hello.purpose) <= PURPOSE_BYTES_MAX
        self._own = own
        self._key = key
        self._transcript = [_frame(Kind.HELLO, nonce, encode_identity(own))]
        self._proof = b""

    def start(self) -> bytes:
        """Return the first frame's body."""
        return self._transcript[0]

    def step(self, body: bytes) -> Progress:
        """Process one frame's body. Raises PeerRefused if it is not valid."""
        kind, rest = _open(body)
        if kind is Kind.REFUSE:
            return Progress(refusal=_reason(rest))
        if kind is Kind.CHALLENGE and not self._proof and len(rest) == NONCE_BYTES:
            self._transcript.append(body)
            self._proof = _mac(self._key, _DIALER_LABEL, self._transcript)
            return Progress(answer=_frame(Kind.PROOF, self._proof))
        if kind is Kind.ACCEPT and self._proof and len(rest) > PROOF_BYTES:
            return self._on_accept(rest[:PROOF_BYTES], rest[PROOF_BYTES:])
        raise PeerRefused("the other side does not keep to the handshake")

    def _on_accept(self, proof: bytes, identity: bytes) -> Progress:
        covered = [*self._transcript, self._proof, identity]
        if not hmac.compare_digest(proof, _mac(self._key, _LISTENER_LABEL, covered)):
            return Progress(refusal="wrong secret: it must be the same on all peers")
        peer = decode_identity(identity)
        refusal = refusal_of(self._own.hello, peer.hello)
        return Progress(refusal=refusal) if refusal else Progress(peer=peer)


class ListenerHandshake:
    """The listening side. `claimed` is the identity that the dialer claims, once received."""

    def __init__(
        self,
        own: Identity,
        keys: tuple[bytes, ...],
        nonce: bytes,
        is_purpose: Callable[[bytes], bool],
    ) -> None:
        """The dialer may prove itself with any of the keys."""
        self._own = own
        self._keys = keys
        self.key = b""
        """The one that the dialer has proven itself with."""
        self._nonce = nonce
        self._is_purpose = is_purpose
        self._transcript: list[bytes] = []
        self.claimed: Identity | None = None

    def step(self, body: bytes) -> Progress:
        """Process one frame's body. Raises PeerRefused if it is not valid."""
        kind, rest = _open(body)
        if kind is Kind.HELLO and self.claimed is None:
            self.claimed = decode_identity(rest[NONCE_BYTES:])
            challenge = _frame(Kind.CHALLENGE, self._nonce)
            self._transcript = [body, challenge]
            return Progress(answer=challenge)
        if kind is Kind.PROOF and self.claimed is not None:
            return self._on_proof(rest, self.claimed)
        raise PeerRefused("the other side does not keep to the handshake")

    def _on_proof(self, proof: bytes, peer: Identity) -> Progress:
        for key in self._keys:
            if hmac.compare_digest(proof, _mac(key, _DIALER_LABEL, self._transcript)):
                self.key = key
        if not self.key:
            return _refuse("wrong secret: it must be the same on all peers")
        refusal = refusal_of(self._own.hello, peer.hello)
        if not refusal and not self._is_purpose(peer.hello.purpose):
            refusal = f"this port serves no links for {printable(peer.hello.purpose)!r}"
        if refusal:
            return _refuse(refusal)
        identity = encode_identity(self._own)
        covered = [*self._transcript, proof, identity]
        accept = _frame(Kind.ACCEPT, _mac(self.key, _LISTENER_LABEL, covered), identity)
        return Progress(answer=accept, peer=peer)


def refusal_of(own: PeerHello, other: PeerHello) -> str:
    """Return why the two cannot have a link; an empty string if they can."""
    if own.cluster_id and other.cluster_id and own.cluster_id != other.cluster_id:
        return (
            f"peer {own.peer_id} belongs to cluster {own.cluster_id!r}, peer {other.peer_id} to "
            f"cluster {other.cluster_id!r}"
        )
    if own.peer_id == other.peer_id:
        return (
            f"both ends are peer {own.peer_id}: an address leads back to its own process, or two "
            "processes have the same id"
        )
    return ""


def encode_identity(identity: Identity) -> bytes:
    """Return the bytes of an identity."""
    hello = identity.hello
    cluster_id = hello.cluster_id.encode()
    assert len(cluster_id) <= CLUSTER_ID_BYTES_MAX, hello.cluster_id
    numbers = _IDENTITY.pack(hello.peer_id, hello.session_id, identity.frame_bytes_max)
    return b"".join(
        (numbers, bytes([len(hello.purpose)]), hello.purpose, bytes([len(cluster_id)]), cluster_id)
    )


def decode_identity(body: bytes) -> Identity:
    """Return the identity that `body` consists of. Raises PeerRefused."""
    try:
        peer_id, session_id, frame_bytes_max = _IDENTITY.unpack_from(body, 0)
        at = _IDENTITY.size
        purpose_end = at + 1 + body[at]
        purpose = body[at + 1 : purpose_end]
        end = purpose_end + 1 + body[purpose_end]
        cluster_id = body[purpose_end + 1 : end].decode()
    except (IndexError, ValueError, struct.error) as error:
        raise PeerRefused("the other side's identity can not be read") from error
    if end != len(body) or len(purpose) > PURPOSE_BYTES_MAX or not cluster_id.isprintable():
        raise PeerRefused("the other side's identity can not be read")
    return Identity(PeerHello(purpose, cluster_id, peer_id, session_id), frame_bytes_max)


def looks_like_handshake(start: bytes | bytearray | memoryview) -> bool:
    """Whether the first bytes of a connection, size field included, can be a handshake frame."""
    head = bytes(start[: 4 + len(MAGIC)])
    size = int.from_bytes(head[:4].ljust(4, b"\0"), "big")
    return size <= HANDSHAKE_BYTES_MAX and MAGIC.startswith(head[4:])


def printable(data: bytes) -> str:
    """Return bytes of an unauthenticated peer in a form that is safe in a log line."""
    return data.decode("ascii", "backslashreplace").encode("unicode_escape").decode()


def _refuse(reason: str) -> Progress:
    return Progress(answer=refuse_frame(reason), refusal=reason)


def refuse_frame(reason: str) -> bytes:
    """Return the body of a refusal."""
    return _frame(Kind.REFUSE, reason.encode()[:REASON_BYTES_MAX])


def _reason(data: bytes) -> str:
    return f"by the other side: {printable(data)[:REASON_BYTES_MAX]}"


def _frame(kind: Kind, *parts: bytes) -> bytes:
    return b"".join((_HEAD.pack(MAGIC, VERSION, kind), *parts))


def _open(body: bytes) -> tuple[Kind, bytes]:
    if len(body) < _HEAD.size or not body.startswith(MAGIC):
        raise PeerRefused("the other side does not speak the peers' protocol")
    _, version, number = _HEAD.unpack_from(body)
    if version != VERSION:
        raise PeerRefused(f"the other side speaks version {version} of peer links, not {VERSION}")
    try:
        return Kind(number), body[_HEAD.size :]
    except ValueError as error:
        raise PeerRefused("the other side does not keep to the handshake") from error


def _mac(key: bytes, label: bytes, parts: Iterable[bytes]) -> bytes:
    covered = b"".join(len(part).to_bytes(4, "big") + part for part in (label, *parts))
    return hmac.digest(key, covered, "sha256")
