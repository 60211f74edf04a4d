"""Raft over real sockets: processes find each other, lose each other, and a log comes of it."""

import asyncio
from collections.abc import Generator
from pathlib import Path
from random import Random

import pytest

from harness.first_start import first_start
from harness.ports import free_port
from harness.waiting import until
from penstock.base.ids import PeerId
from penstock.base.ports import Buffer, Clock
from penstock.controller.errors import MetadataError
from penstock.net.peer import Credentials, PeerHello, PeerListener, PeerSecurity
from penstock.net.peer_turn import PeerTurn
from penstock.net.turn_share import PEERS_SECONDS
from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.ids import RaftIndex, Term
from penstock.raft.messages import AppendEntries, InstallSnapshot, LearnerWelcome, Message
from penstock.runtime.io.clock import LoopScheduler, SystemClock
from penstock.runtime.io.disk import FileDisk, ThreadOffload
from penstock.runtime.long_message import SLICE
from penstock.runtime.peer_codec import MessageCodec
from penstock.runtime.raft.codec import ENTRIES_MAX, RAFT_CODEC
from penstock.runtime.raft.config import RaftLogConfig
from penstock.runtime.raft.ports import RaftPorts
from penstock.runtime.raft.raft_log import RaftLog
from penstock.runtime.raft.storage import RaftStorage
from penstock.runtime.raft.transport import FRAME_BYTES_MAX, PURPOSE, PeerTransport, parse_address
from tests.controller.replicated_log_contract import Machine

SECRET = b"a secret of sixteen bytes or more"
CONFIG = RaftLogConfig()


class Peer:
    """One member of a group on this machine, with its port and its files."""

    def __init__(self, peer_id: int, voters: Configuration, directory: Path) -> None:
        self.peer_id = peer_id
        self._voters = voters
        directory.mkdir()
        self._disk = FileDisk(directory)
        self.machine = Machine()

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        own = PeerHello(PURPOSE, "the-cluster", self.peer_id, 1)
        security = PeerSecurity(Credentials(SECRET))
        self._offload = ThreadOffload(loop, name="metadata", threads=1)
        self.transport = PeerTransport(lambda: own, security, SystemClock(), CONFIG)
        storage = RaftStorage(
            self._disk, "metadata", own_id=PeerId(self.peer_id), first=first_start(self._voters)
        )
        self.log = RaftLog(
            PeerId(self.peer_id),
            storage,
            self.transport,
            RaftPorts(
                offload=self._offload,
                scheduler=LoopScheduler(loop),
                random_below=Random(self.peer_id).randrange,
            ),
            CONFIG,
        )
        self.machine = Machine()
        address = self._voters.addresses.get(PeerId(self.peer_id))
        self._listener = None
        if address is not None:
            self._listener = PeerListener(
                *parse_address(address), own, security,
                {PURPOSE: self.transport.take_link}, frame_bytes_max=FRAME_BYTES_MAX,
            )  # fmt: skip
            self._listener.start()
        self.log.start(self.machine)

    async def stop(self) -> None:
        self.log.close()
        if self._listener is not None:
            self._listener.stop()
        await asyncio.get_running_loop().run_in_executor(None, self._offload.close)
        await asyncio.sleep(0)


async def propose(peer: Peer, payload: bytes) -> int | MetadataError:
    done: asyncio.Future[int | MetadataError] = asyncio.get_running_loop().create_future()
    peer.log.propose(payload, done.set_result)
    return await done


def leader_of(peers: list[Peer]) -> Peer | None:
    return next((peer for peer in peers if peer.log.leadership.is_leader), None)


async def wait_for_leader(peers: list[Peer]) -> Peer:
    await until(lambda: leader_of(peers) is not None)
    leader = leader_of(peers)
    assert leader is not None
    return leader


def test_three_voters_and_a_learner_over_sockets(tmp_path: Path) -> None:
    async def story() -> None:
        voters = Configuration.of({PeerId(one): f"127.0.0.1:{free_port()}" for one in (1, 2, 3)})
        peers = [Peer(one, voters, tmp_path / str(one)) for one in (1, 2, 3, 7)]
        for peer in peers:
            peer.start()
        leader = await wait_for_leader(peers)
        assert {peer for peer, _ in leader.transport.said_levels()} == {1, 2, 3, 7} - {
            leader.peer_id
        }
        assert {levels for _, levels in leader.transport.said_levels()} == {1}
        assert await propose(leader, b"a") == 1
        assert await propose(leader, b"x" * 5_000_000) == 2
        await until(lambda: all(one.log.applied_index == 2 for one in peers))
        await leader.stop()
        rest = [one for one in peers if one is not leader]
        assert await propose(await wait_for_leader(rest), b"b") == 3
        leader.start()
        await until(lambda: all(one.log.applied_index == 3 for one in peers))
        assert {tuple(one.machine.state) for one in peers} == {(b"a", b"x" * 5_000_000, b"b")}
        for peer in peers:
            await peer.stop()

    asyncio.run(story())


class Inbox:
    """Keeps what a transport tells."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, bytes]] = []
        self.messages: list[tuple[int, Message]] = []
        """Those of long frames."""
        self.lost: list[int] = []

    def on_frame(self, peer_id: int, frame: memoryview) -> None:
        if bytes(frame) == b"bad":
            RAFT_CODEC.decode(frame)
        self.frames.append((peer_id, bytes(frame)))

    def on_message(self, peer_id: int, message: Message) -> None:
        self.messages.append((peer_id, message))

    def on_peer_lost(self, peer_id: int) -> None:
        self.lost.append(peer_id)


class Endpoint:
    """A transport with its port and no log behind it."""

    def __init__(
        self,
        peer_id: int,
        port: int = 0,
        clock: Clock | None = None,
        security: PeerSecurity | None = None,
    ) -> None:
        own = PeerHello(PURPOSE, "the-cluster", peer_id, 1)
        security = security or PeerSecurity(Credentials(SECRET))
        self.inbox = Inbox()
        clock = clock or SystemClock()
        self.transport = PeerTransport(lambda: own, security, clock, CONFIG)
        self.transport.start(self.inbox)
        purposes = {PURPOSE: self.transport.take_link}
        self.listener = PeerListener(
            "127.0.0.1", port, own, security, purposes, frame_bytes_max=FRAME_BYTES_MAX
        )
        self.listener.start()
        self.address = ("127.0.0.1", self.listener.port)

    async def send_until_heard(self, peer_id: int, by: "Endpoint", frame: bytes = b"hi") -> None:
        heard = len(by.inbox.frames)

        def is_heard() -> bool:
            self.transport.send(PeerId(peer_id), frame)
            return len(by.inbox.frames) > heard

        await until(is_heard)

    def stop(self) -> None:
        self.transport.close()
        self.listener.stop()


def test_whoever_is_dialled_answers_on_the_same_link() -> None:
    async def story() -> None:
        one, two = Endpoint(1), Endpoint(2)
        one.transport.set_peers({PeerId(2): two.address})
        await one.send_until_heard(2, two)
        assert two.inbox.frames[0] == (1, b"hi")
        await two.send_until_heard(1, one)
        one.stop()
        await until(lambda: two.inbox.lost == [1])
        two.stop()

    asyncio.run(story())


def test_peer_is_lost_with_its_last_link_and_found_again() -> None:
    async def story() -> None:
        one, two = Endpoint(1), Endpoint(2)
        one.transport.set_peers({PeerId(2): two.address})
        two.transport.set_peers({PeerId(1): one.address})
        await one.send_until_heard(2, two)
        await two.send_until_heard(1, one)
        two.stop()
        await until(lambda: one.inbox.lost == [2])
        again = Endpoint(2, two.address[1])
        await one.send_until_heard(2, again)
        one.stop()
        again.stop()

    asyncio.run(story())


def test_peer_that_is_no_longer_wanted_is_not_dialled() -> None:
    async def story() -> None:
        one, two = Endpoint(1), Endpoint(2)
        one.transport.set_peers({PeerId(2): two.address})
        await one.send_until_heard(2, two)
        one.transport.set_peers({})
        await until(lambda: two.inbox.lost == [1])
        one.stop()
        two.stop()

    asyncio.run(story())


def test_frame_that_makes_no_sense_ends_the_link() -> None:
    async def story() -> None:
        one, two = Endpoint(1), Endpoint(2)
        one.transport.set_peers({PeerId(2): two.address})
        await one.send_until_heard(2, two)
        one.transport.send(PeerId(2), b"bad")
        await until(lambda: two.inbox.lost == [1])
        await one.send_until_heard(2, two)
        one.stop()
        two.stop()

    asyncio.run(story())


def test_another_peer_at_the_address_is_not_taken() -> None:
    async def story() -> None:
        one, two = Endpoint(1), Endpoint(2)
        one.transport.set_peers({PeerId(5): two.address})
        await until(lambda: two.inbox.lost == [1])
        one.transport.send(PeerId(5), b"hi")
        assert two.inbox.frames == []
        one.stop()
        two.stop()

    asyncio.run(story())


SLICE_SECONDS = 0.001
"""What a slice costs by the clock of the test, whatever the machine needs for it."""


class Slices:
    """Counts the slices of long messages that are decoded in each turn of the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.in_turns: list[int] = []
        self._is_new_turn = True
        decode = MessageCodec.slices

        def counted(codec: MessageCodec[Message], frame: Buffer) -> Generator[None, None, Message]:
            slices = decode(codec, frame)
            while True:
                self._count()
                try:
                    next(slices)
                except StopIteration as end:
                    message: Message = end.value
                    return message
                yield

        monkeypatch.setattr(MessageCodec, "slices", counted)

    def _count(self) -> None:
        self.now += SLICE_SECONDS
        if self._is_new_turn:
            self._is_new_turn = False
            self.in_turns.append(0)
            asyncio.get_running_loop().call_soon(self._turn_over)
        self.in_turns[-1] += 1

    def _turn_over(self) -> None:
        self._is_new_turn = True


def entries_of(count: int) -> AppendEntries:
    return AppendEntries(
        sender=PeerId(1), term=Term(2), previous_index=RaftIndex(0), previous_term=Term(1),
        commit_index=RaftIndex(0), round=9,
        entries=tuple(
            Entry(index=RaftIndex(at), term=Term(2), payload=bytes(100))
            for at in range(1, count + 1)
        ),
    )  # fmt: skip


def test_a_turn_decodes_some_slices_of_thousands_of_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 8,193 entries of 16 MiB were decoded at once, and held the loop for 37 ms.
    async def story() -> None:
        slices = Slices(monkeypatch)
        turn = PeerTurn(lambda: slices.now)
        one, two = Endpoint(1), Endpoint(2, security=PeerSecurity(Credentials(SECRET), turn=turn))
        one.transport.set_peers({PeerId(2): two.address})
        await one.send_until_heard(2, two)
        message = entries_of(ENTRIES_MAX)
        one.transport.send(PeerId(2), *RAFT_CODEC.encode(message))
        one.transport.send(PeerId(2), b"after")
        await until(lambda: (1, b"after") in two.inbox.frames)
        assert two.inbox.messages == [(1, message)], "the order of the link is kept"
        assert sum(slices.in_turns) > ENTRIES_MAX / SLICE
        assert max(slices.in_turns) <= 2 * PEERS_SECONDS / SLICE_SECONDS, "of a turn, or of two"
        one.stop()
        two.stop()

    asyncio.run(story())


def test_a_long_frame_that_makes_no_sense_ends_the_link() -> None:
    async def story() -> None:
        one, two = Endpoint(1), Endpoint(2)
        one.transport.set_peers({PeerId(2): two.address})
        await one.send_until_heard(2, two)
        head, body = RAFT_CODEC.encode(entries_of(ENTRIES_MAX + 1))
        one.transport.send(PeerId(2), head, body)
        await until(lambda: two.inbox.lost == [1])
        assert two.inbox.messages == []
        one.stop()
        two.stop()

    asyncio.run(story())


class TurnedClock(SystemClock):
    """Time that tests turn on."""

    now_ms = 1

    def monotonic_ms(self) -> int:  # type: ignore[override]
        return self.now_ms


def test_link_on_which_nothing_comes_back_is_dialled_anew() -> None:
    async def story() -> None:
        clock = TurnedClock()
        one, two = Endpoint(1, clock=clock), Endpoint(2)
        one.transport.set_peers({PeerId(2): two.address})
        await one.send_until_heard(2, two)
        clock.now_ms += 100_000
        for _ in range(20):
            one.transport.send(PeerId(2), b"hi")
        await until(lambda: one.inbox.lost == [2])
        await one.send_until_heard(2, two)
        one.stop()
        two.stop()

    asyncio.run(story())


def test_link_that_is_seldom_used_stays() -> None:
    async def story() -> None:
        clock = TurnedClock()
        one, two = Endpoint(1, clock=clock), Endpoint(2)
        one.transport.set_peers({PeerId(2): two.address})
        await one.send_until_heard(2, two)
        await two.send_until_heard(1, one)
        for _ in range(5):
            clock.now_ms += 100_000
            await one.send_until_heard(2, two)
        assert one.inbox.lost == []
        one.stop()
        two.stop()

    asyncio.run(story())


@pytest.mark.parametrize(
    "message",
    [
        AppendEntries(
            sender=PeerId(1), term=Term(2), previous_index=RaftIndex(3), previous_term=Term(2),
            commit_index=RaftIndex(3), round=9,
            entries=(Entry(index=RaftIndex(4), term=Term(2), payload=b"\0x"),
                     Entry(index=RaftIndex(5), term=Term(2), kind=EntryKind.NOOP)),
        ),
        InstallSnapshot(
            sender=PeerId(1), term=Term(2), snapshot_index=RaftIndex(7), snapshot_term=Term(2),
            voters=((PeerId(1), "a:1"), (PeerId(2), "b:2")),
            position=10, data=b"data", is_last=True,
        ),
        LearnerWelcome(sender=PeerId(1), term=Term(2), leader_id=PeerId(-1), voters=()),
    ],
)  # fmt: skip
def test_messages_come_out_as_they_went_in(
    message: AppendEntries | InstallSnapshot | LearnerWelcome,
) -> None:
    assert RAFT_CODEC.decode(b"".join(RAFT_CODEC.encode(message))) == message
