"""The disk in memory keeps the contract of the real one, and forgets what it should forget."""

import errno
from random import Random

import pytest

from tests.storage.disk_contract import DiskContract
from tests.storage.faulty_disk import FaultyDisk


class TestFaultyDisk(DiskContract):
    @pytest.fixture
    def disk(self):
        return FaultyDisk()


def test_power_loss_keeps_what_was_synced_and_may_take_the_rest():
    outcomes = set()
    for seed in range(50):
        disk = FaultyDisk()
        file = disk.open("a", create=True)
        file.write(0, [b"a" * 1024])
        file.sync()
        disk.sync_directory("")
        file.write(512, [b"b" * 1024])
        disk.power_loss(Random(seed))
        content = bytes(disk.open("a").read(0, 4096))
        assert content[:512] == b"a" * 512
        outcomes.add(content[512:])
    assert b"a" * 512 in outcomes
    assert b"b" * 1024 in outcomes
    assert len(outcomes) > 2


def test_power_loss_can_take_a_name_that_was_not_synced():
    found = set()
    for seed in range(20):
        disk = FaultyDisk()
        disk.open("d/a", create=True)
        disk.power_loss(Random(seed))
        found.add(tuple(disk.list("d")))
    assert found == {(), ("a",)}


def test_a_full_disk_says_so_and_takes_data_again_when_there_is_room():
    disk = FaultyDisk(capacity=1000)
    file = disk.open("a", create=True)
    file.allocate(900)
    with pytest.raises(OSError, match="full") as caught:
        disk.open("b", create=True).allocate(200)
    assert caught.value.errno == errno.ENOSPC
    disk.remove("a")
    disk.open("b").allocate(200)
    assert disk.free_bytes() == 800
