"""The contract of shards, on a small one and on those that nodes have."""

from array import array
from itertools import count
from typing import cast

import pytest
from hypothesis import settings

from penstock.coordinator.journal import Journal
from penstock.coordinator.outbox import Later
from penstock.coordinator.pending import Writer
from penstock.coordinator.records import JournalRecord, UnreadRecord
from penstock.groups.assigned.messages import JOIN_EPOCH, LEFT_EPOCH
from penstock.groups.config import GroupConfig
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.messages import CommitOffsets
from penstock.groups.records import CommittedOffset, TopicKey
from penstock.groups.share.group import ShareGroup
from penstock.groups.share.messages import ShareHeartbeat
from penstock.groups.streams.group import StreamsGroup
from penstock.groups.streams.messages import StreamsHeartbeat
from penstock.shares.answers import Claim, Say
from penstock.shares.coordinator import Move
from penstock.shares.ledger import Ledger
from penstock.shares.messages import Answer
from penstock.shares.state import ShareKey
from penstock.shares.updates.handed import Wanted
from penstock.tier.metadata.state import TierMetadata
from penstock.transactions.messages import NOBODY, Filter, Producer
from tests.coordinator.held_journal import HeldJournal
from tests.coordinator.shard_contract import Kind, ShardContract
from tests.coordinator.tally import Tally
from tests.groups.streams.troupe import WORD_COUNT
from tests.groups.world import HandClock, HandCluster
from tests.shares.bench import KEY as SHARE
from tests.shares.bench import picture
from tests.shares.world import World as ShareWorld
from tests.tier.clerk import Clerk, everything_of
from tests.transactions.world import World as TransactionWorld

MANY = settings(max_examples=60, stateful_step_count=40, deadline=None)


class TallyKind(Kind):
    """Four counts, every fifth change removes one."""

    def __init__(self, journal: Journal, later: Later | None) -> None:
        self.tally = Tally(journal, later)
        self.runtime = self.tally.runtime

    def change(self, number: int) -> None:
        self.tally.put(0, f"c{number % 4}", None if number % 5 == 0 else number)

    def change_in_transaction(self, number: int, writer: Writer) -> None:
        self.tally.put_pending(0, f"c{number % 4}", number, writer)

    def state(self) -> object:
        counts = self.tally.counts[0]
        pending = {(name, by): value for name, by, _, value in counts.pending}
        return dict(counts.values), pending

    @staticmethod
    def later_version(number: int) -> UnreadRecord:
        return UnreadRecord(b"later/%d" % (number % 2), b"%d" % number, (("by", None),), number)


class GroupsKind(Kind):
    """Positions of three groups in two partitions, plain and of transactions; they are deleted one
    by one, and with groups."""

    def __init__(self, journal: Journal, later: Later | None) -> None:
        suffixes, clock = count(), HandClock()
        self.groups = GroupCoordinator(
            clock,
            journal,
            config=GroupConfig(partition_count=1),
            new_suffix=lambda: str(next(suffixes)),
            cluster=HandCluster(clock),
            later=later,
        )
        self.runtime = self.groups.runtime

    def change(self, number: int) -> None:
        group, key = f"g{number % 3}", TopicKey("t", number % 2)
        if number % 11 == 0:
            self.groups.delete_groups([group], lambda _: None)
        elif number % 5 == 0:
            self.groups.delete_offsets(group, (key,), lambda _: None)
        else:
            commit = CommitOffsets(
                group_id=group, generation=-1, member_id="", offsets={key: CommittedOffset(number)}
            )
            self.groups.commit(commit, lambda _: None)

    def change_in_transaction(self, number: int, writer: Writer) -> None:
        group, key = f"g{number % 3}", TopicKey("t", number % 2)
        commit = CommitOffsets(
            group_id=group, writer=writer, offsets={key: CommittedOffset(1_000 + number)}
        )
        self.groups.commit(commit, lambda _: None)

    def state(self) -> object:
        groups = self.groups._table.groups.values()
        committed = {
            (one.group_id, key): value
            for one in groups
            for key, value in one.offsets.values.items()
        }
        pending = {
            (one.group_id, key, by): value
            for one in groups
            for key, by, _, value in one.offsets.pending
        }
        return committed, pending

    @staticmethod
    def later_version(number: int) -> UnreadRecord:
        return UnreadRecord(b"\x00\x09\x00\x01%d" % (number % 2), b"%d" % number, (), number)


class ShareGroupsKind(Kind):
    """Three share groups: members join, subscribe anew and leave, groups are deleted.

    A batch is decided in portions, and what the journal refuses is taken back in the next one: they
    are done at once here, so that each step begins with what the one before has come to.
    """

    def __init__(self, journal: Journal, later: Later | None) -> None:
        del later
        suffixes, clock = count(), HandClock()
        cluster = HandCluster(clock)
        cluster.create("t", 2)
        cluster.create("u", 1)
        self.groups = GroupCoordinator(
            clock,
            journal,
            config=GroupConfig(partition_count=1),
            new_suffix=lambda: str(next(suffixes)),
            cluster=cluster,
        )
        self.runtime = self.groups.runtime

    def change(self, number: int) -> None:
        group_id, member_id = f"g{number % 3}", f"m{number % 4}"
        if number % 11 == 0:
            self.groups.delete_groups([group_id], lambda _: None)
            return
        group = self.groups._table.groups.get(group_id)
        if isinstance(group, ShareGroup) and group.is_changing:
            return  # it would wait, and be written when a write is lost with its mastership
        leaves = number % 5 == 0
        beat = ShareHeartbeat(
            group_id=group_id,
            member_id=member_id,
            member_epoch=LEFT_EPOCH if leaves else JOIN_EPOCH,
            topics=("t",) if number % 2 else ("t", "u"),
        )
        self.groups.shares.heartbeat(beat, lambda _: None)

    def change_in_transaction(self, number: int, writer: Writer) -> None:
        group, key = f"p{number % 3}", TopicKey("t", number % 2)
        commit = CommitOffsets(
            group_id=group, writer=writer, offsets={key: CommittedOffset(1_000 + number)}
        )
        self.groups.commit(commit, lambda _: None)

    def state(self) -> object:
        return {
            one.group_id: (one.facts, one.targets, one.currents, one.shared, one.said)
            for one in self.groups._table.groups.values()
            if isinstance(one, ShareGroup) and one.metadata.values
        }

    @staticmethod
    def later_version(number: int) -> UnreadRecord:
        return UnreadRecord(b"\x00\x09\x00\x01%d" % (number % 2), b"%d" % number, (), number)


class StreamsGroupsKind(Kind):
    """Three streams groups: members join and leave, groups are deleted, as of share groups."""

    def __init__(self, journal: Journal, later: Later | None) -> None:
        del later
        suffixes, clock = count(), HandClock()
        cluster = HandCluster(clock)
        for name in ("lines", "words", "counts"):
            cluster.create(name, 2)
        self.groups = GroupCoordinator(
            clock,
            journal,
            config=GroupConfig(partition_count=1, streams_initial_delay_ms=0),
            new_suffix=lambda: str(next(suffixes)),
            cluster=cluster,
        )
        self.runtime = self.groups.runtime

    def change(self, number: int) -> None:
        group_id, member_id = f"g{number % 3}", f"m{number % 4}"
        if number % 11 == 0:
            self.groups.delete_groups([group_id], lambda _: None)
            return
        group = self.groups._table.groups.get(group_id)
        if isinstance(group, StreamsGroup) and group.is_changing:
            return  # it would wait, and be written when a write is lost with its mastership
        leaves = number % 5 == 0
        beat = StreamsHeartbeat(
            group_id=group_id,
            member_id=member_id,
            member_epoch=LEFT_EPOCH if leaves else JOIN_EPOCH,
            rebalance_timeout_ms=1_000,
            topology=None if leaves else WORD_COUNT,
            owned={},
            process_id=f"p{number % 2}",
        )
        self.groups.streams.heartbeat(beat, lambda _: None)

    def change_in_transaction(self, number: int, writer: Writer) -> None:
        group, key = f"p{number % 3}", TopicKey("t", number % 2)
        commit = CommitOffsets(
            group_id=group, writer=writer, offsets={key: CommittedOffset(1_000 + number)}
        )
        self.groups.commit(commit, lambda _: None)

    def state(self) -> object:
        return {
            one.group_id: (
                one.facts,
                one.targets,
                one.currents,
                one.tables.streams_said,
                one.tables.topology,
            )
            for one in self.groups._table.groups.values()
            if isinstance(one, StreamsGroup) and one.metadata.values
        }

    @staticmethod
    def later_version(number: int) -> UnreadRecord:
        return UnreadRecord(b"\x00\x12\x00\x01%d" % (number % 2), b"%d" % number, (), number)


class TransactionsKind(Kind):
    """Three ids: producers begin, partitions enter, transactions end, all partitions hear."""

    def __init__(self, journal: Journal, later: Later | None) -> None:
        self.world = TransactionWorld(cast("HeldJournal", journal), later)
        self.coordinator = self.world.coordinator
        self.runtime = self.coordinator.runtime

    def change(self, number: int) -> None:
        name = f"x{number % 3}"
        one = self.coordinator.describe(name).transaction
        producer = NOBODY if one is None else Producer(one.producer_id, one.producer_epoch)
        if one is None or number % 7 == 0:
            self.coordinator.init_producer_id(name, 60_000, None, lambda _: None)
        elif number % 2:
            places = [("t", number % 5)]
            self.coordinator.add_partitions(name, producer, places, 2, lambda _: None)
        else:
            commits = number % 4 == 0
            self.coordinator.end(name, producer, 1 + number % 2, lambda _: None, is_commit=commits)
        for duty in self.world.markers.duties if number % 3 == 0 else ():
            self.coordinator.markers_written(duty, duty.partitions)

    def state(self) -> object:
        return {
            one.transactional_id: one for some in self.coordinator.listed(Filter()) for one in some
        }

    @staticmethod
    def later_version(number: int) -> UnreadRecord:
        return UnreadRecord(b"\x00\x09\x00\x01%d" % (number % 2), b"%d" % number, (), number)


class SharesKind(Kind):
    """Three shares, one of them ordered: taken, accepted, handed back, moved, deleted.

    A share runs ahead of its log: what it shows is what the log will say.
    """

    runs_ahead = True

    def __init__(self, journal: Journal, later: Later | None) -> None:
        self.world = ShareWorld(cast("HeldJournal", journal), later)
        self.coordinator = self.world.coordinator
        self.runtime = self.coordinator.runtime

    def change(self, number: int) -> None:
        key = SHARE._replace(partition=number % 3)
        ledger = self._ledgers().get(key)
        if ledger is None:
            why = Move.START_ORDERED if number % 3 else Move.START
            self.coordinator.move(key, number, why, _nobody)
        elif number % 13 == 0:
            self.coordinator.delete(key, _nobody)
        elif number % 7 == 0:
            self.coordinator.move(key, number, Move.RESET, _nobody)
        elif number % 2:
            hashes = array("I", range(number % 4, number % 4 + 9))
            wanted = Wanted("abc"[number % 3], number % 5 + 1, 60, 1_000, hashes=hashes)
            self.coordinator.acquire(key, wanted)
        else:
            held = ledger.share.base + number % 4
            what = Say.ACCEPT if number % 4 else Say.RELEASE
            for member in "abc":
                self.coordinator.say(key, what, [Claim(held, held + 1)], member, _nobody)

    def _ledgers(self) -> dict[ShareKey, Ledger]:
        partitions = self.coordinator._shard.by_partition
        return partitions[0].ledgers if 0 in partitions else {}

    def state(self) -> object:
        return {key: {**picture(ledger.share), "seq": 0} for key, ledger in self._ledgers().items()}

    def ahead(self) -> list[JournalRecord]:
        partitions = self.coordinator._shard.by_partition
        dirty = partitions[0].dirty if 0 in partitions else {}
        return [record for ledger in dirty for record in ledger.records(1 << 30)]

    @staticmethod
    def later_version(number: int) -> UnreadRecord:
        return UnreadRecord(b"\x09%d" % (number % 2), b"%d" % number, (), number)


class TierKind(Kind):
    """One set's metadata: fences, objects of two partitions, copies, what takes them away."""

    runs_ahead = True

    def __init__(self, journal: Journal, later: Later | None) -> None:
        self.clerk = Clerk(journal, later)
        self.runtime = self.clerk.coordinator.runtime

    def change(self, number: int) -> None:
        self.clerk.clock.now_ms += number
        match number % 7:
            case 0:
                self.clerk.fence(number % 11)
            case 1:
                self.clerk.reserve(number % 3 + 1)
            case 2 | 3:
                self.clerk.copy(number % 2, number % 4 + 1)
            case 4:
                self.clerk.shorten(number % 2, from_end=number % 8 == 0, count=number % 3 + 1)
            case 5:
                self.clerk.give_up(number % 2)
            case _:
                self.clerk.clock.now_ms += 300
                self.clerk.sweep()

    def state(self) -> object:
        return everything_of(self._metadata())

    def _metadata(self) -> TierMetadata:
        return self.clerk.coordinator._shard.by_partition[0].metadata

    @staticmethod
    def later_version(number: int) -> UnreadRecord:
        return UnreadRecord(b"\x00\x09%d" % (number % 2), b"%d" % number, (), number)


def _nobody(_: Answer) -> None:
    """Nobody waits."""


class TallyContract(ShardContract):
    make = TallyKind


class GroupsContract(ShardContract):
    make = GroupsKind


class ShareGroupsContract(ShardContract):
    make = ShareGroupsKind


class StreamsGroupsContract(ShardContract):
    make = StreamsGroupsKind


class TransactionsContract(ShardContract):
    make = TransactionsKind


class SharesContract(ShardContract):
    make = SharesKind


class TierContract(ShardContract):
    make = TierKind


@pytest.mark.parametrize("begins_anew", [False, True])
def test_a_share_that_is_deleted_while_it_is_rewritten_does_not_come_back(
    *, begins_anew: bool
) -> None:
    contract = SharesContract()
    contract.begin_rewrite()
    contract.change(1)
    contract.change(0)
    contract.go_on_rewriting()
    contract.change(0)  # deletes
    contract.tell_late()
    if begins_anew:
        contract.change(0)
        contract.tell_late()
    while contract.rewriting is not None:
        contract.go_on_rewriting()
        contract.a_rewrite_would_write_what_the_whole_log_says()
        contract.what_is_shown_is_what_the_confirmed_log_says()
    assert len(contract.kind._ledgers()) == 1 + begins_anew  # type: ignore[attr-defined]


TestTally = TallyContract.TestCase
TestTally.settings = MANY
TestGroups = GroupsContract.TestCase
TestGroups.settings = MANY
TestShareGroups = ShareGroupsContract.TestCase
TestShareGroups.settings = MANY
TestStreamsGroups = StreamsGroupsContract.TestCase
TestStreamsGroups.settings = MANY
TestTransactions = TransactionsContract.TestCase
TestTransactions.settings = MANY
TestShares = SharesContract.TestCase
TestShares.settings = MANY
TestTier = TierContract.TestCase
TestTier.settings = MANY
