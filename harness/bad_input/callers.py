"""Sends bad frames to the ports beside the Kafka port: to HTTP, and to the ports for peers."""

import contextlib
import os
import socket
import struct
from collections.abc import Iterable, Mapping

import msgspec

from harness.bad_input.frame import BadFrame, framed
from harness.bad_input.peers import STRANGER_ID, member_frame
from harness.bad_input.sender import Tally
from harness.node import LOOPBACK, NodeProcess
from harness.waiting import UNTIL_SECONDS
from penstock.base.ids import LeaderEpoch, Position, ReplicaSetId
from penstock.net.peer_auth import (
    NONCE_BYTES,
    Credentials,
    DialerHandshake,
    Identity,
    PeerHello,
)
from penstock.replication.messages import Begin, Refused
from penstock.replication.wire import decode, encode
from penstock.runtime.calls.messages import CALL_CODEC
from penstock.runtime.raft.codec import RAFT_CODEC
from penstock.runtime.session.messages import SESSION_CODEC

Address = tuple[str, int]
CONNECT_SECONDS = UNTIL_SECONDS
STRANGER_SECONDS = 0.01
"""How long a stranger waits for the port to end the connection; many a port waits for more."""
ANSWER_SECONDS = UNTIL_SECONDS
_LARGEST_FRAME = 32 << 20


def call(address: Address, frames: Iterable[BadFrame], tally: Tally) -> None:
    """Send each frame on a connection of its own, and wait a moment for what comes."""
    for frame in frames:
        with socket.create_connection(address, CONNECT_SECONDS) as connection:
            connection.settimeout(STRANGER_SECONDS)
            try:
                _write(connection, frame)
                while connection.recv(1 << 16):
                    pass
                tally.refused += 1
            except TimeoutError:
                tally.waited_for += 1
            except ConnectionError:
                tally.refused += 1
        tally.count(frame)


def _write(connection: socket.socket, frame: BadFrame) -> None:
    if frame.is_slow and len(frame.data) < 1_000:
        for byte in frame.data:
            connection.sendall(bytes((byte,)))
    else:
        connection.sendall(frame.data)


class Member:
    """A peer that knows the secret, with a link for one purpose that it has no right to speak on.

    Behind each frame goes a good message that is always answered; so each frame is known to be
    dealt with, or to have ended the link.
    """

    def __init__(self, address: Address, purpose: bytes, secret: bytes, peer_id: int) -> None:
        """Two links of one peer id would get each other's answers."""
        self._peer_id = peer_id
        self._address = address
        self._purpose = purpose
        self._key = Credentials(secret).keys[0]
        self._connection: socket.socket | None = None
        self._received = bytearray()
        self._count = 0

    def send(self, frame: BadFrame, tally: Tally) -> None:
        """Send one frame. Raises OSError when the port does not take links any more."""
        connection = self._connection or self.dial()
        self._connection = connection
        tally.count(frame)
        if frame.kind.endswith("half"):
            with contextlib.suppress(ConnectionError):
                connection.sendall(frame.data)
            tally.waited_for += 1
            self.close()
            return
        self._count += 1
        try:
            connection.sendall(frame.data + framed(self._marker()))
            while not self._is_marked(self._next_frame(connection)):
                pass
            tally.answered += 1
        except TimeoutError:
            tally.waited_for += 1
            tally.problems.append(f"no answer behind {frame}")
            self.close()
        except (ConnectionError, EOFError):
            tally.refused += 1
            self.close()

    def close(self) -> None:
        """End the link."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._received.clear()

    def dial(self) -> socket.socket:
        """Open a link and return it. Raises OSError, or EOFError when the port ends it."""
        connection = socket.create_connection(self._address, CONNECT_SECONDS)
        connection.settimeout(ANSWER_SECONDS)
        session_id = int.from_bytes(os.urandom(7), "big")
        hello = PeerHello(self._purpose, "", self._peer_id, session_id)
        handshake = DialerHandshake(
            Identity(hello, _LARGEST_FRAME), self._key, os.urandom(NONCE_BYTES)
        )
        answer = handshake.start()
        while True:
            if answer:
                connection.sendall(framed(answer))
            progress = handshake.step(self._next_frame(connection))
            if progress.refusal:
                raise ConnectionRefusedError(progress.refusal)
            if progress.peer is not None:
                return connection
            answer = progress.answer

    def _next_frame(self, connection: socket.socket) -> bytes:
        received = self._received
        while len(received) < 4 or len(received) < 4 + struct.unpack_from(">I", received)[0]:
            more = connection.recv(1 << 16)
            if not more:
                raise EOFError
            received += more
        end = 4 + struct.unpack_from(">I", received)[0]
        body = bytes(received[4:end])
        del received[:end]
        return body

    def _marker(self) -> bytes:
        """Return a good message that is answered whoever asks."""
        if self._purpose == b"ha":
            return b"".join(
                map(
                    bytes,
                    encode(
                        Begin(ReplicaSetId(-7), LeaderEpoch(self._count), Position(0), Position(0))
                    ),
                )
            )
        if self._purpose == b"session":
            return bytes((10, 1)) + msgspec.msgpack.encode({"request_id": self._count})
        if self._purpose == b"call":  # a question of a later release
            return bytes((127, 1)) + msgspec.msgpack.encode({"correlation": self._count})
        ask = {"sender": self._peer_id, "term": 0, "is_pre_vote": True, "is_transfer": False}
        return bytes((1, 1)) + msgspec.msgpack.encode({**ask, "last_index": 0, "last_term": 0})

    def _is_marked(self, body: bytes) -> bool:
        """Whether this is the answer to the newest marker."""
        if self._purpose == b"ha":
            answer = decode(memoryview(body))
            return isinstance(answer, Refused) and answer.leader_epoch == self._count
        if self._purpose == b"session":
            return getattr(SESSION_CODEC.decode(body), "request_id", None) == self._count
        if self._purpose == b"call":
            return getattr(CALL_CODEC.decode(body), "correlation", None) == self._count
        return type(RAFT_CODEC.decode(body)).__name__ == "VoteResponse"


def purposes_of(node: NodeProcess) -> dict[bytes, Address]:
    """Return where a process, by its settings, takes links for each purpose."""
    lines = node.config.read_text(encoding="utf-8").splitlines()
    ports = dict(line.split(" = ") for line in lines if "_port = " in line)
    controller, ha = ((LOOPBACK, int(ports[f"{name}_port"])) for name in ("controller", "ha"))
    return {b"raft": controller, b"session": controller, b"ha": ha, b"call": ha}


class Members:
    """Links of every purpose to the ports of one node."""

    def __init__(
        self, ports: Mapping[bytes, Address], secret: bytes, peer_id: int = STRANGER_ID
    ) -> None:
        self._peer_id = peer_id
        self._members = {
            purpose: Member(address, purpose, secret, peer_id) for purpose, address in ports.items()
        }

    def send(self, seed: int, first: int, count: int, tally: Tally) -> None:
        """Send frames `first` to `first + count` of a seed, each to where it belongs."""
        for number in range(first, first + count):
            purpose, frame = member_frame(seed, number, self._peer_id)
            self._members[purpose].send(frame, tally)

    def close(self) -> None:
        """End all links."""
        for member in self._members.values():
            member.close()
