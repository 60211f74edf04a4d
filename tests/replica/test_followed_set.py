"""What a slave tells its master of its log is durable here, whatever the disk is busy with."""

import pytest

from harness.log_world import World, append, open_log, partition_number
from penstock.base.ids import BrokerId, LeaderEpoch, Position, ReplicaId, ReplicaSetId
from penstock.frames import run_check
from penstock.frames.run import Run
from penstock.replica.follow_parts import FollowParts, FollowStats
from penstock.replica.followed_set import PENDING_FACTOR, FollowedSet
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.alignment import LogShape
from penstock.replication.config import FirstSync, ReplicationConfig
from penstock.replication.epochs import EpochHistory, EpochStart
from penstock.replication.messages import (
    Acknowledge,
    Begin,
    HaMessage,
    Hello,
    HelloAnswer,
    LogRun,
    ManifestWanted,
    Reason,
    Refused,
)
from penstock.storage.commit_log.set_log import SetLog
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import open_member, take_run

SET, EPOCH = ReplicaSetId(1), LeaderEpoch(1)
MASTER, SLAVE = 1, 2


class Following:
    """A slave's log that follows a master's, and all that it says; each claim is checked."""

    def __init__(self, records: int, config: ReplicationConfig | None = None) -> None:
        self.world = World()
        self.master = open_log(self.world, FaultyDisk())
        partition = self.master.open_partition(partition_number(0))
        for number in range(records):
            append(self.master, partition, size=900, fill=number)
        self.world.run()  # one sync for all: no frame claims that another one is flushed
        self.log: SetLog = open_member(self.world, FaultyDisk())
        self.world.run()
        member = ReplicaSetMember(SET, BrokerId(SLAVE), self.log, self.world.call_soon)
        member.become_slave(EPOCH, BrokerId(MASTER))
        parts = FollowParts(
            config=config or ReplicationConfig(),
            clock=self.world,
            scheduler=self.world,
            replica_id=lambda: ReplicaId(SLAVE),
            incarnation="p",
            may_cut_confirmed=lambda: False,
            on_offence=self.offended,
        )
        self.stats = FollowStats()
        self.followed = FollowedSet(member, EPOCH, parts, self.stats)
        self.claims: list[int] = []

    def offended(self, reason: str) -> None:
        raise AssertionError(reason)

    def hear(self, message: HaMessage) -> None:
        if isinstance(message, Acknowledge | Begin):
            assert message.position <= self.log.durable_position
            self.claims.append(message.position)

    def attach(self, *, end: int | None = None) -> None:
        """Connect, to a master that says that its log ends at `end`, or at its real end."""
        self.followed.attach(self.hear)
        history = EpochHistory(self.master.epochs)
        shape = LogShape(
            history.entries(),
            Position(0),
            Position(self.master.end_position if end is None else end),
        )
        self.followed.on_message(HelloAnswer(SET, EPOCH, shape))

    def feed(self, max_bytes: int) -> None:
        """Give the slave the next frames; its disk does nothing."""
        run = take_run(self.world, self.master, self.log.end_position, max_bytes)
        self.followed.on_message(run_message(run))
        self.world.turn()


def run_message(run: Run) -> LogRun:
    return LogRun(
        SET,
        EPOCH,
        run.leader_epoch,
        run.position,
        Position(0),
        run.file_base,
        run.file_end,
        run.data,
    )


def test_what_arrives_while_a_sync_runs_is_not_acknowledged_with_it():
    following = Following(records=12)
    following.attach()
    for _ in range(3):
        following.feed(1000)
    end = following.log.end_position
    assert following.log.durable_position < end
    following.world.run()
    assert following.log.durable_position == end
    assert following.claims[0] == 0
    assert 0 < following.claims[1] < end, "what the first sync had"
    assert following.claims[2:] == [end]


def test_following_begins_when_the_own_log_is_durable_that_far():
    following = Following(records=5)
    run = take_run(following.world, following.master, 0, 500)
    following.log.append_run(run)
    assert following.log.durable_position < following.log.end_position
    following.attach()
    assert following.claims == []
    following.world.run()
    assert following.claims == [following.log.end_position]


def test_frames_that_another_mastership_sends_are_not_taken():
    following = Following(records=3)
    following.attach()
    run = take_run(following.world, following.master, 0, 500)
    for leader_epoch in (EPOCH - 1, EPOCH + 1):
        late = LogRun(
            SET,
            LeaderEpoch(leader_epoch),
            run.leader_epoch,
            Position(0),
            Position(0),
            Position(0),
            run.file_end,
            run.data,
        )
        following.followed.on_message(late)
        following.world.run()
        assert following.log.end_position == 0
    following.feed(500)
    assert following.log.end_position == run.end_position


def test_what_an_earlier_link_agreed_on_does_not_begin_on_the_next_one():
    following = Following(records=5)
    run = take_run(following.world, following.master, 0, 500)
    following.log.append_run(run)
    following.attach()  # agreed, and waits for the own disk
    following.followed.detach()
    following.followed.attach(following.hear)
    following.world.run()
    assert following.log.durable_position == following.log.end_position
    assert following.claims == [], "on this link the master has not answered yet"
    following.attach()
    assert following.claims == [following.log.end_position]


def test_a_copy_whose_link_is_gone_is_begun_anew_on_the_next_one():
    following = Following(records=5)
    said: list[HaMessage] = []
    begins_later = LogShape(
        EpochHistory(following.master.epochs).entries(), Position(1 << 20), Position(1 << 21)
    )
    for _ in range(2):
        following.followed.attach(said.append)
        following.followed.on_message(HelloAnswer(SET, EPOCH, begins_later))
        following.world.run()
        assert [type(one) for one in said] == [Hello, ManifestWanted]
        said.clear()
        following.followed.detach()


def test_what_the_log_took_in_part_stays_before_what_came_after_it(monkeypatch):
    following = Following(records=12)
    taken: list[int] = []
    following.attach()
    real = SetLog.append_run

    def take(log, run):
        first = run._replace(data=run.data[: room.pop(0)]) if room else run
        taken.append(run.position)
        return real(log, first) if first.data else 0

    monkeypatch.setattr(SetLog, "append_run", take)
    end, room = 0, [0]
    for _ in range(3):
        run = take_run(following.world, following.master, end, 2000)
        following.followed.on_message(run_message(run))
        end = run.end_position
    first_frame = take_run(following.world, following.master, 0, 1).end_position
    room.extend((first_frame, 0))
    following.log.on_append_ready()
    following.log.on_append_ready()
    following.world.run()
    following.log.on_append_ready()
    following.world.run()
    assert following.log.end_position == end
    assert taken == sorted(taken)
    assert following.stats.renegotiations == 0


def test_what_waited_on_an_earlier_link_does_not_count_against_the_next_one(monkeypatch):
    following = Following(records=1)
    monkeypatch.setattr(SetLog, "append_run", lambda _log, _run: 0)
    run = take_run(following.world, following.master, 0, 500)
    large = run._replace(data=memoryview(bytes(ReplicationConfig().in_flight_bytes)))
    for _ in range(2 * PENDING_FACTOR):
        following.attach()
        following.followed.on_message(run_message(large))
        following.followed.detach()
    following.attach()
    for _ in range(PENDING_FACTOR):
        following.followed.on_message(run_message(large))
    with pytest.raises(AssertionError, match="in flight"):
        following.followed.on_message(run_message(large))


def test_a_long_run_is_appended_over_several_turns_and_in_front_of_the_next_one(monkeypatch):
    monkeypatch.setattr(run_check, "FRAMES_MAX", 2)
    following = Following(records=12)
    following.attach()
    run = take_run(following.world, following.master, 0, 9000)
    received = bytearray(run.data)
    following.followed.on_message(run_message(run._replace(data=memoryview(received))))
    received[:] = bytes(len(received))  # the link reads the next frame into it
    taken = following.log.end_position
    assert 0 < taken < run.end_position
    behind = take_run(following.world, following.master, run.end_position, 1 << 20)
    following.followed.on_message(run_message(behind))
    assert following.log.end_position == taken
    following.world.run()
    assert following.log.end_position == following.master.end_position
    assert following.claims[-1] == following.master.end_position
    assert not following.stats.renegotiations


def test_what_may_not_be_in_flight_is_not_buffered(monkeypatch):
    following = Following(records=1)
    following.attach()
    monkeypatch.setattr(SetLog, "append_run", lambda _log, _run: 0)
    size = PENDING_FACTOR * ReplicationConfig().in_flight_bytes + 1
    run = take_run(following.world, following.master, 0, 500)
    with pytest.raises(AssertionError, match="in flight"):
        following.followed.on_message(run_message(run._replace(data=memoryview(bytearray(size)))))
    assert not following.followed._pending.runs


def test_what_was_acknowledged_before_a_cut_does_not_silence_what_comes_after_it():
    following = Following(records=12)
    following.attach()
    following.feed(2000)
    following.world.run()
    cut = following.log.end_position
    for _ in range(3):
        following.feed(2000)
    following.world.run()
    acknowledged = following.claims[-1]
    following.followed.detach()
    following.attach(end=cut)
    following.world.run()
    following.attach()
    assert following.claims[-1] == cut
    following.feed(1000)
    following.world.run()
    assert cut < following.log.end_position < acknowledged
    assert following.claims[-1] == following.log.end_position


def _refused() -> Refused:
    return Refused(SET, EPOCH, Reason.NOT_READY, EPOCH, "")


def test_handshakes_that_are_refused_come_less_and_less_often():
    following = Following(records=1)
    said: list[HaMessage] = []
    following.followed.attach(said.append)
    gaps: list[int] = []
    for _ in range(4):
        said.clear()
        following.followed.on_message(_refused())
        refused_ms = following.world.now_ms
        while not said:
            following.world.advance(1)
        gaps.append(following.world.now_ms - refused_ms)
    assert gaps == sorted(set(gaps))
    assert gaps[-1] > 4 * gaps[0]


def test_a_new_slave_asks_for_the_newest_file_again_if_its_first_copy_was_broken_off():
    newest = ReplicationConfig(first_sync=FirstSync.NEWEST)
    following = Following(records=5, config=newest)
    said: list[HaMessage] = []
    shape = LogShape(
        EpochHistory(following.master.epochs).entries() or (EpochStart(EPOCH, Position(0)),),
        Position(0),
        following.master.end_position,
    )
    for _ in range(2):
        said.clear()
        following.followed.attach(said.append)
        following.followed.on_message(HelloAnswer(SET, EPOCH, shape))
        assert [type(one) for one in said] == [Hello, ManifestWanted]
        following.followed.detach()
