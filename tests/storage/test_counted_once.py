"""Sizes, open transactions, epochs of coordinators and notes: counted once, kept long enough."""

from harness.log_world import World, append, make_batch, open_log, partition_number
from penstock.base.ids import CoordinatorEpoch, Offset, Position, ProducerId
from penstock.record.batch import read_header
from penstock.storage.commit_log.catching_up import CALM_RUNS, CatchingUp
from penstock.storage.config import Retention
from penstock.storage.index.producers import ProducerStates, ProducerTable
from penstock.storage.index.transactions import LogTransactions
from tests.storage.faulty_disk import FaultyDisk


def test_what_retention_let_go_of_a_segment_that_stays_is_counted_off_once() -> None:
    world = World()
    log = open_log(world, FaultyDisk())
    short, long = (log.open_partition(partition_number(number)) for number in (0, 1))
    for number in range(200):
        append(log, (short, long)[number % 2], size=1000, timestamp=1000)
        world.run()

    def settings(one: object) -> Retention:
        return Retention(-1, 5000) if one == short.topic_partition else Retention(-1, -1)

    sizes = []
    for _ in range(3):
        log.apply_retention(10_000, settings)
        world.run()
        sizes.append(short.size_bytes)
    assert sizes[0] < 100_000
    assert sizes == sizes[:1] * 3
    assert long.size_bytes == 100_000


def test_the_open_transactions_of_a_dropped_partition_are_open_no_more() -> None:
    transactions = LogTransactions()
    for producer_id in (7, 8):
        transactions.begin(1, ProducerId(producer_id), Offset(producer_id), Position(0))
    transactions.begin(2, ProducerId(7), Offset(0), Position(0))
    transactions.forget(1)
    assert transactions.open_count == 1
    transactions.forget(1)
    assert transactions.open_count == 1


def test_a_producer_with_a_new_epoch_has_the_coordinator_that_it_had() -> None:
    """A marker of a coordinator that was replaced would be taken, else."""
    table = ProducerTable(ProducerStates(100, 0), 1)
    marker, batch = (read_header(make_batch(producer=(7, epoch, 0))) for epoch in (1, 2))
    table.record_marker(marker, CoordinatorEpoch(5))
    table.record(batch, 10)
    known = table.known(ProducerId(7))
    assert known is not None
    assert (known.epoch, known.coordinator_epoch) == (2, 5)


def test_a_note_of_catching_up_stays_until_the_last_run_under_it_is_flushed() -> None:
    world, disk = World(), FaultyDisk()
    catching_up = CatchingUp(disk, "set", world, lambda: None)
    disk.make_directory("set")
    catching_up.begin(Position(0))
    world.run()
    assert not catching_up.trusts_claims
    for run in range(1, CALM_RUNS + 2):
        catching_up.took(5 if run == 1 else 1, Position(100 * run))
    assert catching_up.trusts_claims
    catching_up.flushed(Position(100))
    world.run()
    assert disk.names, "what came later may still be lost"
    catching_up.flushed(Position(100 * (CALM_RUNS + 1)))
    world.run()
    assert not disk.names
