"""A slave takes what its masters wrote in the order of their masterships, and nothing else."""

from typing import NamedTuple

import pytest

from harness.log_world import World, append, open_log, partition_number
from penstock.base.ids import NO_OFFSET, LeaderEpoch, Position
from penstock.frames.run import Run
from penstock.frames.run_check import Follows, check_run
from penstock.storage.errors import BadRun
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import take_run


class Taken(NamedTuple):
    """Runs of a master's log: from its start, and from behind the frame that begins its epoch."""

    whole: Run
    batches: Run


@pytest.fixture
def runs() -> Taken:
    world = World()
    log = open_log(world, FaultyDisk())  # begins epoch 1 at position 0
    behind = log.end_position
    append(log, log.open_partition(partition_number(0)))
    world.run()
    return Taken(take_run(world, log, 0), take_run(world, log, behind))


def follows(leader_epoch: int, epoch_start: int) -> Follows:
    return Follows(
        LeaderEpoch(leader_epoch),
        Position(epoch_start),
        Position(1 << 20),
        True,
        lambda _key: NO_OFFSET,
    )


def test_what_the_master_of_the_epoch_wrote_is_taken(runs):
    assert check_run(runs.batches, follows(1, 0)).size == len(runs.batches.data)
    assert check_run(runs.whole, follows(-1, 0)).size == len(runs.whole.data)


@pytest.mark.parametrize("known_epoch", [0, 2, 7])
def test_batches_of_another_mastership_than_the_newest_begun_are_refused(runs, known_epoch):
    with pytest.raises(BadRun, match="leader epoch of a batch"):
        check_run(runs.batches, follows(known_epoch, 0))


def test_an_epoch_that_is_known_with_another_start_is_refused(runs):
    with pytest.raises(BadRun, match="epoch 1 starts at 40, not 0"):
        check_run(runs.whole, follows(1, 40))


def test_an_epoch_older_than_the_newest_known_is_not_begun_again(runs):
    with pytest.raises(BadRun, match="have 2"):
        check_run(runs.whole, follows(2, 0))
