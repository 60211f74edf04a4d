"""How often a peer is dialled that shakes hands and ends each link, as one of another version."""

import asyncio
from collections.abc import Callable

import pytest

from harness.waiting import until
from penstock.base.ids import BrokerId, PeerId
from penstock.net.peer import Credentials, PeerHello, PeerLink, PeerListener, PeerSecurity
from penstock.net.redial import RedialPause
from penstock.raft.messages import Message
from penstock.replication.config import ReplicationConfig
from penstock.replication.wire import SLAVE_FRAME_BYTES_MAX
from penstock.runtime.ha.client import ClientPorts, MasterLink
from penstock.runtime.io.clock import LoopScheduler, SystemClock
from penstock.runtime.raft.config import RaftLogConfig
from penstock.runtime.raft.transport import PeerTransport
from tests.runtime.session_cluster import SECURITY

GROWING = [1, 2, 4, 8, 16, 16, 16]
"""Pauses in ms of the tests."""


class StoppedClock(SystemClock):
    """No link lasts any time."""

    def monotonic_ms(self) -> int:  # type: ignore[override]
        return 1


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    taken: list[int] = []
    after: Callable[[RedialPause, int], int] = RedialPause.after

    def noted(pause: RedialPause, lasted_ms: int) -> int:
        taken.append(after(pause, lasted_ms))
        return taken[-1]

    monkeypatch.setattr(RedialPause, "after", noted)
    return taken


def refusing(purpose: bytes) -> PeerListener:
    """Return a port whose links end as soon as they are open."""

    def end(link: PeerLink) -> None:
        link.on_frame = lambda _: None
        link.abort("a message of another release")

    listener = PeerListener(
        "127.0.0.1", 0, PeerHello(b"", "c", 2, 0), SECURITY, {purpose: end},
        frame_bytes_max=SLAVE_FRAME_BYTES_MAX,
    )  # fmt: skip
    listener.start()
    return listener


class Listening:
    """What a transport tells: nothing that is looked at here."""

    def on_frame(self, peer_id: int, frame: memoryview) -> None:
        raise AssertionError("nothing is sent")

    def on_message(self, peer_id: int, message: Message) -> None:
        raise AssertionError("nothing is sent")

    def on_peer_lost(self, peer_id: int) -> None:
        pass


def test_raft_dials_a_peer_that_ends_each_link_less_and_less_often(pauses: list[int]) -> None:
    async def story() -> None:
        listener = refusing(b"raft")
        config = RaftLogConfig(redial_min_ms=1, redial_max_ms=16)
        transport = PeerTransport(
            lambda: PeerHello(b"raft", "c", 1, 1), SECURITY, StoppedClock(), config
        )
        transport.start(Listening())
        transport.set_peers({PeerId(2): ("127.0.0.1", listener.port)})
        await until(lambda: len(pauses) >= len(GROWING))
        transport.close()
        listener.stop()
        await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(story(), 120))
    assert pauses[: len(GROWING)] == GROWING


def test_a_slave_dials_a_master_that_ends_each_link_less_and_less_often(pauses: list[int]) -> None:
    async def story() -> None:
        listener = refusing(b"ha")
        tasks: list[asyncio.Task[None]] = []
        ports = ClientPorts(
            hello=lambda: PeerHello(b"ha", "c", 1, 1),
            security=PeerSecurity(Credentials(b"a secret of the tests")),
            address_of=lambda _: ("127.0.0.1", listener.port),
            config=ReplicationConfig(reconnect_ms=1, reconnect_ms_max=16),
            clock=StoppedClock(),
            scheduler=LoopScheduler(asyncio.get_running_loop()),
            spawn=lambda _, work: tasks.append(asyncio.create_task(work)),
        )
        link = MasterLink(BrokerId(2), ports, lambda _: None)
        await until(lambda: len(pauses) >= len(GROWING))
        link.stop("the test is over")
        await asyncio.gather(*tasks)
        listener.stop()
        await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(story(), 120))
    assert pauses[: len(GROWING)] == GROWING
