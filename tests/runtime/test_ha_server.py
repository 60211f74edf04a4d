"""A master's end of a link: which handshakes it takes, and whose words count."""

from collections.abc import Callable
from typing import cast

import pytest

from penstock.base.ids import LeaderEpoch, Position, ReplicaId
from penstock.base.ports import Buffer
from penstock.net.peer import PeerHello
from penstock.net.peer_link import PeerLink
from penstock.replication.alignment import LogShape
from penstock.replication.config import ReplicationConfig
from penstock.replication.messages import (
    Acknowledge,
    Begin,
    Goodbye,
    HaMessage,
    Hello,
    HelloAnswer,
    KeepAlive,
    LogRun,
    Reason,
    Refused,
)
from penstock.replication.wire import decode, encode
from penstock.runtime.ha.server import HaServer
from tests.replica.test_slave_session import EPOCH, SET, SLAVE, Leading

EMPTY = LogShape((), Position(0), Position(0))
REPLICA_ID = 22


class SlaveEnd:
    """A link without a network: frames go over at once, and can be looked at."""

    def __init__(self) -> None:
        self.hello = PeerHello(b"ha", "cluster", SLAVE, 1)
        self.address = "slave:1"
        self.is_writable = True
        self.on_writable: Callable[[], None] = lambda: None
        self.heard: list[HaMessage] = []
        self.kept: list[HaMessage] = []
        self.end = ""
        self.on_frame: Callable[[memoryview], None]
        self.on_closed: Callable[[str], None]
        self.kind_of: Callable[[memoryview], str]

    def send(self, *buffers: Buffer) -> None:
        message = decode(memoryview(b"".join(bytes(buffer) for buffer in buffers)))
        (self.kept if isinstance(message, KeepAlive) else self.heard).append(message)

    def break_off(self, _who: str, reason: str) -> None:
        self.end = reason

    def say(self, message: HaMessage) -> None:
        self.on_frame(memoryview(b"".join(bytes(one) for one in encode(message))))


class Served:
    """A master whose set is served, and the slave's end of a link to it."""

    def __init__(self) -> None:
        self.leading = Leading()
        server = HaServer(
            config=ReplicationConfig(),
            clock=self.leading.world,
            scheduler=self.leading.world,
            replica_id_of=lambda _set, broker: ReplicaId(REPLICA_ID) if broker == SLAVE else None,
            newest_epoch_of=lambda _set: EPOCH,
        )
        server.lead(self.leading.set)
        self.slave = SlaveEnd()
        server.on_link(cast("PeerLink", self.slave))

    def streaming(self) -> int:
        """Let the slave follow from the start; return up to where it was fed."""
        self.slave.say(Hello(SET, EPOCH, ReplicaId(REPLICA_ID), "p", EMPTY))
        assert isinstance(self.slave.heard[-1], HelloAnswer)
        self.slave.say(Begin(SET, EPOCH, Position(0), Position(0)))
        self.leading.world.run()
        runs = [one for one in self.slave.heard if isinstance(one, LogRun)]
        return max(run.position + len(run.data) for run in runs)


def test_a_slave_that_comes_again_with_another_log_follows_no_more_with_the_one_before() -> None:
    """What it acknowledged is on a log that it has lost: it is not in step by it."""
    served = Served()
    end = served.streaming()
    served.slave.say(Hello(SET, EPOCH, ReplicaId(REPLICA_ID + 1), "p", EMPTY))
    refused = served.slave.heard[-1]
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.UNKNOWN_REPLICA
    assert SLAVE not in served.leading.set.sessions
    served.slave.say(Acknowledge(SET, EPOCH, Position(end)))
    assert SLAVE not in served.leading.set.sessions
    assert served.leading.set.member.confirm_position < end


@pytest.mark.parametrize(
    ("leader_epoch", "replica_id", "reason"),
    [
        (EPOCH - 1, REPLICA_ID, Reason.STALE_EPOCH),
        (EPOCH + 1, REPLICA_ID, Reason.UNKNOWN_EPOCH),
        (EPOCH, REPLICA_ID - 1, Reason.UNKNOWN_REPLICA),
    ],
)
def test_a_slave_of_another_mastership_or_with_another_log_is_refused(
    leader_epoch: int, replica_id: int, reason: Reason
) -> None:
    served = Served()
    served.slave.say(Hello(SET, LeaderEpoch(leader_epoch), ReplicaId(replica_id), "p", EMPTY))
    (answer,) = served.slave.heard
    assert isinstance(answer, Refused)
    assert (answer.reason, answer.newest_epoch) == (reason, EPOCH)
    assert served.leading.set.sessions == {}


def test_an_acknowledgement_meant_for_another_mastership_confirms_nothing() -> None:
    served = Served()
    sent = served.streaming()
    assert sent == served.leading.log.end_position
    for leader_epoch in (EPOCH - 1, EPOCH + 1):
        served.slave.say(Acknowledge(SET, LeaderEpoch(leader_epoch), Position(sent)))
        assert served.leading.member.confirm_position == 0
    served.slave.say(Acknowledge(SET, EPOCH, Position(sent)))
    assert served.leading.member.confirm_position == sent
    assert served.slave.end == ""


def test_an_acknowledgement_of_what_was_not_sent_ends_the_link() -> None:
    served = Served()
    served.slave.say(Acknowledge(SET, EPOCH, Position(served.streaming() + 1)))
    assert "was not sent" in served.slave.end
    assert served.leading.member.confirm_position == 0


def test_a_slave_that_leaves_keeps_no_lease_of_its_master_any_more() -> None:
    """The controllers may be out of reach, and have made it master: it follows nobody now."""
    served = Served()
    served.slave.say(Acknowledge(SET, EPOCH, Position(served.streaming())))
    assert served.leading.set.may_read()
    served.slave.say(Goodbye(SET, EPOCH))
    assert not served.leading.set.may_read()


def test_a_slave_whose_link_has_ended_keeps_no_lease_of_its_master_any_more() -> None:
    served = Served()
    served.slave.say(Acknowledge(SET, EPOCH, Position(served.streaming())))
    assert served.leading.set.may_read()
    served.slave.on_closed("closed by the other end")
    assert not served.leading.set.may_read()


def test_a_late_greeting_of_an_earlier_mastership_ends_nothing() -> None:
    """Who follows the newer one would hear of no end, and wait for ever."""
    served = Served()
    sent = served.streaming()
    served.slave.say(Hello(SET, LeaderEpoch(EPOCH - 1), ReplicaId(REPLICA_ID), "p", EMPTY))
    refused = served.slave.heard[-1]
    assert isinstance(refused, Refused)
    assert (refused.leader_epoch, refused.reason) == (EPOCH - 1, Reason.STALE_EPOCH)
    served.slave.say(Acknowledge(SET, EPOCH, Position(sent)))
    assert served.leading.member.confirm_position == sent


def test_a_confirm_position_that_found_the_link_full_is_told_when_it_has_room() -> None:
    """No run will carry it where nothing is written any more: who reads there would wait for it."""
    served = Served()
    sent = served.streaming()
    served.slave.is_writable = False
    served.slave.say(Acknowledge(SET, EPOCH, Position(sent)))
    assert served.leading.member.confirm_position == sent
    served.leading.world.advance(100)
    served.slave.is_writable = True
    served.leading.world.advance(100)
    told = [one.confirm_position for one in served.slave.heard if isinstance(one, LogRun)]
    assert told[-1] == sent
    assert told.count(Position(sent)) == 1


def test_a_session_that_begins_while_the_closed_one_before_waits_for_its_turn_is_served() -> None:
    served = Served()
    slave, world = served.slave, served.leading.world
    for _ in range(2):  # the second greeting is one after a bad run
        slave.is_writable = False  # runs of other sets fill the link
        slave.say(Hello(SET, EPOCH, ReplicaId(REPLICA_ID), "p", EMPTY))
        slave.say(Begin(SET, EPOCH, Position(0), Position(0)))
        world.run()
    slave.is_writable = True
    slave.on_writable()
    world.advance(10_000)
    assert any(isinstance(message, LogRun) for message in slave.heard)


def test_what_was_sent_says_when_and_who_has_read_it_can_not_have_done_so_before() -> None:
    """The master's lease counts from there, so keep-alives also go between runs."""
    served = Served()
    world, keep_alive_ms = served.leading.world, ReplicationConfig().keep_alive_ms
    begun_ms, sent = world.now_ms, served.streaming()
    assert served.slave.kept == [KeepAlive(begun_ms)]
    for _ in range(4):
        world.now_ms += keep_alive_ms // 2
        served.slave.say(Hello(SET, EPOCH, ReplicaId(REPLICA_ID + 1), "p", EMPTY))  # is answered
    told = [begun_ms, begun_ms + keep_alive_ms, begun_ms + 2 * keep_alive_ms]
    assert served.slave.kept == [KeepAlive(one) for one in told]
    assert not served.slave.end
    served.slave.say(Acknowledge(SET, EPOCH, Position(sent), world.now_ms + 1))
    assert "was read at" in served.slave.end
