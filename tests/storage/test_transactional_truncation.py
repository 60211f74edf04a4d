"""A log that is cut below every snapshot, where retention has taken how a transaction began."""

from typing import Any

import pytest

from harness.log_world import SMALL, World, append, make_batch, open_log, partition_number
from penstock.base.ids import CoordinatorEpoch, LeaderEpoch, ProducerEpoch, ProducerId
from penstock.record.batch import TRANSACTIONAL, read_header
from penstock.storage.config import Retention
from penstock.storage.index.transactions import TransactionEnd
from tests.storage.faulty_disk import FaultyDisk

FIRST, SECOND = 1, 2


class Case:
    """Producer 1 begins in the first segment, which is gone when its marker is written."""

    def __init__(self) -> None:
        self.world = World()
        self.log = open_log(self.world, FaultyDisk(), SMALL)
        self.partition = self.log.open_partition(partition_number(0))
        self.write(FIRST)
        self.fill()
        self.log.apply_retention(4000, lambda _: Retention(20_000, -1))
        self.world.run()
        assert self.log.start_position > 0
        self.write(SECOND)
        self.cut = self.log.end_position

    def write(self, producer_id: int) -> None:
        batch = make_batch(producer=(producer_id, 0, 0), attributes=TRANSACTIONAL)
        self.log.append(self.partition, batch, read_header(batch))
        self.world.run()

    def fill(self) -> None:
        for _ in range(250):
            append(self.log, self.partition, size=900)
            self.world.run()

    def end(self, producer_id: int) -> None:
        ended = TransactionEnd(
            ProducerId(producer_id), ProducerEpoch(0), CoordinatorEpoch(3), is_commit=True
        )
        self.log.transactions.append_marker(self.partition, ended)
        self.world.run()

    def truncate(self) -> None:
        """Cut there, with snapshots above the cut only."""
        for _ in range(2):
            append(self.log, self.partition, size=900)
            self.log.checkpoint()
            self.world.run()
        self.log.follow()
        done: list[Any] = []
        self.log.truncate(self.cut, done.append)
        self.world.run()
        assert done == [None]
        self.partition = self.log.open_partition(partition_number(0))
        self.log.begin_epoch(LeaderEpoch(9))

    def open(self) -> set[int]:
        transactions = self.log._states.transactions.of(self.partition.serial)
        return set() if transactions is None else set(transactions.open)


@pytest.fixture
def case() -> Case:
    return Case()


def test_a_transaction_that_began_before_the_first_segment_stays_open(case: Case) -> None:
    case.truncate()
    assert case.open() == {FIRST, SECOND}


def test_a_marker_that_is_cut_off_opens_its_transaction_again(case: Case) -> None:
    case.end(FIRST)
    case.end(SECOND)
    case.truncate()
    assert case.open() == {FIRST, SECOND}
    unstable = case.log.transactions.first_unstable(case.partition, case.log.end_position)
    assert unstable is not None
    assert unstable.offset == 0


def test_what_is_not_cut_off_stays_decided(case: Case) -> None:
    case.end(FIRST)
    case.end(SECOND)
    case.cut = case.log.end_position
    case.truncate()
    assert case.open() == set()


def test_a_marker_that_ends_where_the_log_is_cut_has_decided(case: Case) -> None:
    case.end(FIRST)
    case.cut = case.log.end_position
    case.end(SECOND)
    case.truncate()
    assert case.open() == {SECOND}
