"""The contract of shards, on a small one and on consumer groups."""

from itertools import count
from typing import cast

from hypothesis import settings

from penstock.coordinator.journal import Journal
from penstock.coordinator.outbox import Later
from penstock.coordinator.pending import Writer
from penstock.coordinator.records import UnreadRecord
from penstock.groups.config import GroupConfig
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.messages import CommitOffsets
from penstock.groups.records import CommittedOffset, TopicKey
from penstock.transactions.messages import NOBODY, Filter, Producer
from tests.coordinator.held_journal import HeldJournal
from tests.coordinator.shard_contract import Kind, ShardContract
from tests.coordinator.tally import Tally
from tests.groups.world import HandClock, HandCluster
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


class TallyContract(ShardContract):
    make = TallyKind


class GroupsContract(ShardContract):
    make = GroupsKind


class TransactionsContract(ShardContract):
    make = TransactionsKind


TestTally = TallyContract.TestCase
TestTally.settings = MANY
TestGroups = GroupsContract.TestCase
TestGroups.settings = MANY
TestTransactions = TransactionsContract.TestCase
TestTransactions.settings = MANY
