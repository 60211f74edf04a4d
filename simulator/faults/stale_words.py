"""Links that send well-formed frames with wrong contents: late ones and contradictory ones.

    messages of an earlier mastership   repeated among the present ones
    a run of the log                    with another epoch than its frames; repeated much later
    a master's description of its log   with epochs that go back, or an end below its last epoch
    a slave's start position            behind its end
    a slave's identity                  with another log than the registered one
    any message of Raft                 repeated later

These may come from delayed packets of an earlier connection, a proxy or a faulty process. The
receiver must ignore them, or close the link and reconnect; no acknowledged record is lost, and a
slave with another log than the registered one is refused. Errors that no receiver can detect are
not injected: an acknowledgement of the same mastership, a confirm position, messages of a new
process.

Source: docs/formats/ha-link.md; KIP-101, KIP-903; Raft paper 5.1 (messages may come late or twice).
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from random import Random

from penstock.base.ids import LeaderEpoch, PeerId, Position, ReplicaId
from penstock.base.ports import Buffer
from penstock.raft.messages import LearnerHello, LearnerWelcome
from penstock.replication.alignment import LogShape
from penstock.replication.messages import (
    Acknowledge,
    BaseBytes,
    BaseBytesWanted,
    Begin,
    Goodbye,
    HaMessage,
    Hello,
    HelloAnswer,
    KeepAlive,
    LogRun,
    Manifest,
    ManifestWanted,
    Refused,
)
from penstock.runtime.ha.live_link import LiveLink
from penstock.runtime.raft.codec import RAFT_CODEC
from penstock.runtime.raft.transport import PeerTransport
from simulator.kernel.process import current_process

SHARE = 0.15
AGAIN_SHARE = 0.6
KEPT = 6
"""Messages of each kind and way that are kept to be said again."""
BEYOND_BYTES = 4_096

Found = Callable[[str], None]
Elect = Callable[[PeerTransport, PeerId, bytes], None]
OfASet = (
    Hello
    | HelloAnswer
    | Refused
    | Begin
    | LogRun
    | Acknowledge
    | Goodbye
    | ManifestWanted
    | Manifest
    | BaseBytesWanted
    | BaseBytes
)

_FROM_MASTERS = HelloAnswer | Refused | LogRun | Manifest | BaseBytes


class StaleWords:
    """Which hosts say what is not so, now; see the module."""

    def __init__(self, draw: Random, numbers: Mapping[str, int]) -> None:
        """`numbers`: host -> id of its process."""
        self.hosts: list[str] = []
        """A host stands here once for each fault that wants it."""
        self.said = 0
        """Messages that were not so."""
        self._random = draw
        self._numbers = numbers
        self._sets: dict[tuple[str, int, int, bool], dict[type, deque[OfASet]]] = {}
        """(host, to whom, set, whether as its master) -> the last ones of each kind."""
        self._frames: dict[tuple[PeerTransport, int], deque[bytes]] = {}
        self._misnamed: set[tuple[int, int, int]] = set()
        """(slave, master, set) where the last Hello named a log that is not registered."""

    @contextmanager
    def at_work(self, found: Found) -> Iterator[None]:
        """Carry all messages of replication and Raft for as long as this lasts."""
        replicate, elect = LiveLink.send, PeerTransport.send

        def carry(link: LiveLink, message: HaMessage) -> None:
            host = current_process().host
            if isinstance(message, KeepAlive) or host not in self._numbers:
                replicate(link, message)  # what the world resets is closed in its name
                return
            self._look(host, link.peer_id, message, found)
            for one in self._said(host, link.peer_id, message):
                replicate(link, one)

        def carry_frame(transport: PeerTransport, peer_id: PeerId, *frame: Buffer) -> None:
            elect(transport, peer_id, *frame)
            if current_process().host in self.hosts:
                self._say_again(transport, peer_id, b"".join(frame), elect)

        LiveLink.send = carry  # type: ignore[method-assign, assignment]
        PeerTransport.send = carry_frame  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            LiveLink.send = replicate  # type: ignore[method-assign]
            PeerTransport.send = elect  # type: ignore[method-assign]

    # --- Raft ----------------------------------------------------------------------------------

    def _say_again(
        self, transport: PeerTransport, peer_id: PeerId, frame: bytes, send: Elect
    ) -> None:
        if isinstance(RAFT_CODEC.decode(memoryview(frame)), LearnerHello | LearnerWelcome):
            return  # the word of one that is new is believed for a while
        kept = self._frames.setdefault((transport, peer_id), deque(maxlen=KEPT))
        if kept and self._random.random() < SHARE:
            self.said += 1
            send(transport, peer_id, self._random.choice(kept))
        kept.append(frame)

    # --- replication ---------------------------------------------------------------------------

    def _look(self, host: str, to: int, message: OfASet, found: Found) -> None:
        """Look at who is greeted: not who has just named another log than its own."""
        number, set_id = self._numbers[host], message.replica_set_id
        if isinstance(message, Hello):
            self._misnamed.discard((number, to, set_id))
        elif isinstance(message, HelloAnswer) and (to, number, set_id) in self._misnamed:
            found(f"{host} greets {to} in set {set_id} with a log that is not the registered one")

    def _said(self, host: str, to: int, message: OfASet) -> tuple[HaMessage, ...]:
        """Return what leaves in place of a message."""
        is_wrong, is_run = host in self.hosts, isinstance(message, LogRun)
        way = (host, to, message.replica_set_id, isinstance(message, _FROM_MASTERS))
        by_kind = self._sets.setdefault(way, {})
        kept = by_kind.setdefault(type(message), deque(maxlen=KEPT))
        again = [one for one in kept if is_run]
        again += [
            one
            for some in by_kind.values()
            for one in some
            if one.leader_epoch < message.leader_epoch
        ]
        if is_wrong or not is_run:  # of sound hosts not all bytes are copied
            kept.append(_whole(message))
        if not is_wrong or self._random.random() >= SHARE:
            return (message,)
        self.said += 1
        if again and self._random.random() < AGAIN_SHARE:
            both = [message, self._random.choice(again)]
            self._random.shuffle(both)
            return tuple(both)
        return (self._lie(host, to, message),)

    def _lie(self, host: str, to: int, message: OfASet) -> HaMessage:
        """Return what contradicts itself, or what the receiver knows better."""
        match message:
            case LogRun() if message.data:
                later = self._random.choice((-1, 1))
                return message._replace(
                    frames_epoch=LeaderEpoch(max(0, message.frames_epoch + later))
                )
            case HelloAnswer():
                return message._replace(shape=self._false(message))
            case Begin():
                return message._replace(position=Position(message.position + BEYOND_BYTES))
            case Hello():
                self._misnamed.add((self._numbers[host], to, message.replica_set_id))
                return message._replace(replica_id=ReplicaId(message.replica_id + 1_000))
            case _:
                self.said -= 1
                return message

    def _false(self, message: HelloAnswer) -> LogShape:
        shape = message.shape
        if len(shape.epochs) > 1 and self._random.random() < 0.5:
            return shape._replace(epochs=tuple(reversed(shape.epochs)))
        if shape.epochs and shape.epochs[-1].start_position > shape.start_position:
            return shape._replace(end_position=Position(shape.epochs[-1].start_position - 1))
        return shape._replace(start_position=Position(shape.end_position + 1))


def _whole(message: OfASet) -> OfASet:
    """Return the message with bytes of its own."""
    if isinstance(message, LogRun | BaseBytes):
        return message._replace(data=bytes(message.data))
    return (
        message._replace(encoded=bytes(message.encoded))
        if isinstance(message, Manifest)
        else message
    )
