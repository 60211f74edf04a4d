"""What a node remembers of idempotent producers is bounded over all its logs together."""

import pytest

from harness.log_world import World, append, open_log, partition_number
from penstock.net.limits import MIB
from penstock.node.producer_share import share_producers
from penstock.storage.config import Retention
from penstock.storage.index.producers import STATE_BYTES_MAX
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import settle


class Remembering:
    """A log that notes what it may remember."""

    producers = 0

    def let_remember(self, producers: int) -> None:
        self.producers = producers


@pytest.mark.parametrize("count", [1, 2, 50])
def test_all_logs_together_take_at_most_half_of_what_clients_may_pin(count: int) -> None:
    logs = [Remembering() for _ in range(count)]
    share_producers(logs, 64 * MIB)
    total = sum(log.producers for log in logs) * STATE_BYTES_MAX
    assert 31 * MIB < total <= 32 * MIB
    assert len({log.producers for log in logs}) == 1


def test_without_logs_nothing_is_shared_out() -> None:
    share_producers([], 64 * MIB)


def test_a_log_remembers_its_part_also_after_it_was_truncated() -> None:
    world = World()
    log = open_log(world, FaultyDisk())
    share_producers([log, log], 100 * STATE_BYTES_MAX)
    settle(world, log.truncate, log.end_position)
    partition = log.open_partition(partition_number(0))
    for producer_id in range(200):
        append(log, partition, producer=(producer_id, 0, 0))
    assert len(log.parts.states.entries) == 25


def test_a_log_whose_part_has_become_smaller_forgets_those_silent_longest() -> None:
    world = World()
    log = open_log(world, FaultyDisk())
    partition = log.open_partition(partition_number(0))
    for producer_id in range(200):
        append(log, partition, producer=(producer_id, 0, 0))
    share_producers([log], 100 * STATE_BYTES_MAX)
    log.apply_retention(world.wall_ms(), lambda _: Retention(-1, -1))
    assert [key[1] for key in log.parts.states.entries] == list(range(150, 200))
