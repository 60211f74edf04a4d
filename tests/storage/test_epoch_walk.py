"""Which masterships have written a partition: in one store, in several, when some of it goes."""

import pytest

from harness.log_world import World, make_batch, open_log, partition_number
from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, Offset
from penstock.record.batch import read_header
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.errors import ReadFailed
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.read.epoch_walk import COUNT_MAX, Epochs, EpochWalk
from penstock.storage.stores.port import EpochEnd, EpochEndFound
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.test_second_level import Level
from tests.storage.test_stores import KEY, Filling, Pair, pair

__all__ = ["pair"]


def walked(
    world: World, log: SetLog, partition: PartitionLog, count_max: int = COUNT_MAX
) -> Epochs:
    found: list[tuple[Epochs | None, PlatformError | None]] = []
    EpochWalk(log, partition, lambda *one: found.append(one), count_max)
    world.run()
    ((epochs, error),) = found
    assert error is None
    assert epochs is not None
    return epochs


def wanted(filling: Filling, start: int = 0) -> list[tuple[int, int]]:
    """Return what the batches say that are kept."""
    epochs: list[tuple[int, int]] = []
    for one in filling.batches:
        if one.end > start and (not epochs or epochs[-1][0] != one.leader_epoch):
            epochs.append((one.leader_epoch, max(one.first, start)))
    return epochs


def test_the_epochs_of_a_log_are_those_of_its_batches() -> None:
    level = Level(FaultyDisk())
    assert len(wanted(level.filling)) == 3
    found = walked(level.world, level.log, level.log.open_partition(KEY))
    assert found == wanted(level.filling)


def test_they_are_the_same_over_two_stores(pair: Pair) -> None:
    pair.retain()
    assert pair.partition.commit_log_start_offset > wanted(pair.filling)[1][1]
    assert walked(pair.world, pair.log, pair.partition) == wanted(pair.filling)


@pytest.mark.parametrize("number", [40, 79, 80, 100, 200])
def test_what_is_not_kept_is_not_told(pair: Pair, number: int) -> None:
    pair.retain()
    start = pair.filling.batches[number].first
    pair.log.delete_records(pair.partition, start)
    assert walked(pair.world, pair.log, pair.partition) == wanted(pair.filling, start)


def test_with_a_bound_the_newest_are_told() -> None:
    level = Level(FaultyDisk())
    partition = level.log.open_partition(KEY)
    for count in (1, 2, 3):
        found = walked(level.world, level.log, partition, count)
        assert found == wanted(level.filling)[-count:]


def test_masterships_that_wrote_nothing_here_are_not_told() -> None:
    """Each begins with a frame of the log, and this partition has batches of two of them."""
    world = World()
    log = open_log(world, FaultyDisk())
    partition = log.open_partition(partition_number(0))
    for epoch in range(1, 9):
        log.begin_epoch(LeaderEpoch(epoch))
        if epoch in {3, 6}:
            batch = make_batch()
            log.append(partition, batch, read_header(batch))
        world.run()
    assert walked(world, log, partition) == [(3, 0), (6, 1)]


def test_a_partition_without_a_batch_has_no_epochs() -> None:
    world = World()
    log = open_log(world, FaultyDisk())
    assert walked(world, log, log.open_partition(partition_number(0))) == []


class ManyEpochs:
    """A log with a record of each of many epochs, which answers at once."""

    leader_epoch = LeaderEpoch(COUNT_MAX - 1)
    error: PlatformError | None = None

    def find_epoch_end(
        self, partition: PartitionLog, leader_epoch: LeaderEpoch, done: EpochEndFound, /
    ) -> None:
        if leader_epoch < 0 or self.error is not None:
            done(None, self.error)
        else:
            done(EpochEnd(leader_epoch, Offset(leader_epoch + 1)), None)


def test_many_answers_at_once_are_no_deep_call_and_an_error_is_told() -> None:
    world = World()
    partition = open_log(world, FaultyDisk()).open_partition(partition_number(0))
    found: list[tuple[Epochs | None, PlatformError | None]] = []
    log = ManyEpochs()
    EpochWalk(log, partition, lambda *one: found.append(one))
    assert found == [([(epoch, epoch) for epoch in range(COUNT_MAX)], None)]
    log.error = ReadFailed("the disk")
    EpochWalk(log, partition, lambda *one: found.append(one))
    assert found[1:] == [(None, log.error)]
