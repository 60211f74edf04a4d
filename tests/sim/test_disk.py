"""The simulated disk keeps the contract of the real one, and forgets what it should forget."""

import errno
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import pytest

from simulator.kernel.disk import SimDisk
from simulator.kernel.inode import PENDING_MAX
from simulator.kernel.sectors import SECTOR
from tests.storage.disk_contract import DiskContract

OLD, NEW = b"o" * SECTOR, b"n" * SECTOR


class TestSimDisk(DiskContract):
    @pytest.fixture
    def disk(self):
        return SimDisk(Random(1))


def disks(count: int) -> Iterator[SimDisk]:
    return (SimDisk(Random(seed)) for seed in range(count))


def content(disk: SimDisk, path: str) -> bytes:
    file = disk.open(path)
    return bytes(file.read(0, file.size()))


def put(disk: SimDisk, path: str, data: bytes) -> None:
    """Make a file whose content and name are durable."""
    file = disk.open(path, create=True)
    file.write(0, [data])
    file.sync()
    disk.sync_directory(path.rpartition("/")[0])


# --- files -------------------------------------------------------------------------------------


def test_what_was_synced_survives_a_loss_of_power():
    for disk in disks(200):
        put(disk, "a", OLD + NEW)
        disk.open("a").write(2 * SECTOR, [NEW])
        disk.power_loss()
        assert content(disk, "a")[: 2 * SECTOR] == OLD + NEW
        disk.power_loss()
        assert content(disk, "a")[: 2 * SECTOR] == OLD + NEW


def test_sectors_that_were_not_synced_are_lost_in_every_combination():
    found = set()
    for disk in disks(400):
        put(disk, "a", OLD * 4)
        disk.open("a").write(0, [NEW * 4])
        disk.power_loss()
        whole = content(disk, "a")
        found.add(tuple(whole[at : at + SECTOR] == NEW for at in range(0, len(whole), SECTOR)))
        assert all(whole[at : at + SECTOR] in {OLD, NEW} for at in range(0, len(whole), SECTOR))
    assert len(found) == 16


def test_writes_of_a_sector_are_kept_in_their_order():
    found = set()
    for disk in disks(200):
        put(disk, "a", b"---")
        file = disk.open("a")
        for position in range(3):
            file.write(position, [b"x"])
        disk.power_loss()
        found.add(content(disk, "a"))
    assert found == {b"---", b"x--", b"xx-", b"xxx"}


def test_growth_that_was_not_synced_is_cut_torn_or_full_of_zeros():
    found = set()
    for disk in disks(300):
        put(disk, "a", OLD)
        file = disk.open("a")
        file.write(SECTOR, [NEW])
        file.write(2 * SECTOR, [NEW])
        disk.power_loss()
        whole = content(disk, "a")
        assert whole[:SECTOR] == OLD
        found.add(whole[SECTOR:])
    zeros = bytes(SECTOR)
    assert {b"", NEW, NEW + NEW, zeros + NEW} <= found
    assert any(rest.startswith(NEW) and rest.endswith(b"\0") for rest in found)


def test_a_cut_that_was_not_synced_may_come_back_behind_what_was_written_since():
    found = set()
    for disk in disks(300):
        put(disk, "a", OLD * 3)
        file = disk.open("a")
        file.truncate(SECTOR)
        file.write(SECTOR, [NEW])
        disk.power_loss()
        found.add(content(disk, "a"))
    assert {OLD * 3, OLD, OLD + NEW, OLD + NEW + OLD} <= found


def test_the_page_cache_is_written_back_in_the_end_without_a_sync():
    for disk in disks(20):
        file = disk.open("a", create=True)
        disk.sync_directory("")
        for position in range(3 * PENDING_MAX):
            file.write(position, [b"x"])
        assert len(disk.names["a"].pending) <= PENDING_MAX
        disk.power_loss()
        assert content(disk, "a").startswith(b"x" * 2 * PENDING_MAX)


def test_a_kill_keeps_the_page_cache():
    for disk in disks(20):
        disk.open("a", create=True).write(0, [NEW])
        disk.kill()
        assert content(disk, "a") == NEW


def test_nothing_is_in_the_page_cache_after_a_loss_of_power_until_it_is_read():
    disk = SimDisk(Random(0))
    put(disk, "a", OLD)
    assert bytes(disk.open("a").read_cached(0, 5) or b"") == b"ooooo"
    disk.power_loss()
    assert disk.open("a").read_cached(0, 5) is None
    disk.open("a").read(0, 5)
    assert bytes(disk.open("a").read_cached(0, 5) or b"") == b"ooooo"


def test_the_same_seed_loses_the_same():
    def one(seed: int) -> dict[str, bytes]:
        disk = SimDisk(Random(seed))
        disk.make_directory("d")
        for number in range(20):
            disk.open(f"d/{number}", create=True).write(0, [bytes([number]) * 5000])
        disk.power_loss()
        return {path: bytes(inode.data) for path, inode in disk.names.items()}

    assert all(one(seed) == one(seed) for seed in range(30))
    assert len({tuple(one(seed).items()) for seed in range(30)}) > 10


# --- names -------------------------------------------------------------------------------------


def test_names_of_a_directory_that_was_not_synced_are_lost_newest_first():
    found = set()
    for disk in disks(200):
        disk.make_directory("d")
        put(disk, "d/0", OLD)
        for number in (1, 2):
            disk.open(f"d/{number}", create=True).sync()
        disk.remove("d/0")
        disk.power_loss()
        found.add(tuple(disk.list("d")))
    assert found == {("0",), ("0", "1"), ("0", "1", "2"), ("1", "2")}


def test_names_of_two_directories_are_lost_apart_from_each_other():
    found = set()
    for disk in disks(200):
        for directory in ("d", "e"):
            disk.make_directory(directory)
            disk.open(f"{directory}/a", create=True)
        disk.power_loss()
        found.add((tuple(disk.list("d")), tuple(disk.list("e"))))
    assert found == {((), ()), (("a",), ()), ((), ("a",)), (("a",), ("a",))}


def test_a_synced_directory_keeps_its_names_and_says_nothing_of_others():
    for disk in disks(50):
        disk.make_directory("d")
        disk.make_directory("e")
        put(disk, "e/old", OLD)
        disk.open("d/a", create=True)
        disk.remove("e/old")
        disk.sync_directory("d")
        disk.power_loss()
        assert disk.list("d") == ["a"]


def test_a_file_that_was_replaced_is_the_old_one_or_the_new_one():
    for disk in disks(50):
        put(disk, "a", OLD)
        disk.replace("a", NEW)
        disk.power_loss()
        assert content(disk, "a") == NEW
        disk.is_lying = True
        disk.replace("a", b"newest" * 500)
        disk.power_loss()
        assert disk.list("") in (["a"], ["a", "a.1.tmp"])


def test_a_rename_between_directories_is_whole_or_has_not_been():
    found = set()
    for disk in disks(200):
        disk.make_directory("d")
        disk.make_directory("e")
        put(disk, "d/a", OLD)
        disk.is_lying = True
        disk.rename("d/a", "e/b")
        disk.power_loss()
        found.add((tuple(disk.list("d")), tuple(disk.list("e"))))
        (path,) = disk.names
        assert content(disk, path) == OLD
    assert found == {(("a",), ()), ((), ("b",))}


# --- faults ------------------------------------------------------------------------------------


def test_a_lying_disk_reports_syncs_and_loses_what_it_was_to_keep():
    found = set()
    for disk in disks(100):
        disk.is_lying = True
        disk.make_directory("d")
        put(disk, "d/a", NEW)
        assert disk.list("d") == ["a"]
        disk.power_loss()
        found.add(content(disk, "d/a") if disk.list("d") else None)
    assert {None, b"", NEW} <= found


def test_an_honest_sync_after_a_lying_one_makes_all_durable():
    for disk in disks(50):
        disk.is_lying = True
        disk.make_directory("d")
        put(disk, "d/a", NEW)
        disk.heal()
        disk.open("d/a").sync()
        disk.sync_directory("d")
        disk.sync_directory("")
        disk.power_loss()
        assert content(disk, "d/a") == NEW


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_after_a_failed_sync_the_next_one_succeeds_and_the_data_is_gone(number: int):
    found = set()
    for disk in disks(100):
        put(disk, "a", OLD * 2)
        file = disk.open("a")
        file.write(0, [NEW * 2])
        disk.fail("sync", "a", number)
        with pytest.raises(OSError, match="injected") as caught:
            file.sync()
        assert caught.value.errno == number
        file.sync()
        shown = content(disk, "a")
        disk.power_loss()
        found.add((shown == NEW * 2, content(disk, "a")))
    assert {whole for _, whole in found} == {OLD + OLD, OLD + NEW, NEW + OLD, NEW + NEW}
    assert (True, OLD + OLD) in found, "what is read may hide the loss"
    assert (False, OLD + OLD) in found
    assert disk.stats.failed_syncs == 1


def test_a_full_disk_takes_what_fits_and_all_when_there_is_room():
    disk = SimDisk(Random(0), capacity=1000)
    file = disk.open("a", create=True)
    file.allocate(900)
    with pytest.raises(OSError, match="full") as caught:
        disk.open("b", create=True).write(0, [b"x" * 60, b"y" * 140])
    assert caught.value.errno == errno.ENOSPC
    assert content(disk, "b") == b"x" * 60 + b"y" * 40
    assert disk.free_bytes() == 0
    file.write(0, [b"z" * 900])  # has its blocks
    with pytest.raises(OSError, match="full"):
        file.allocate(901)
    disk.remove("a")
    disk.open("b").allocate(200)
    assert disk.free_bytes() == 800
    disk.fill(10)
    with pytest.raises(OSError, match="full"):
        disk.replace("c", bytes(11))
    assert disk.list("") == ["b"]
    disk.heal()
    disk.replace("c", bytes(11))


def test_bytes_are_counted_over_names_that_come_and_go():
    disk = SimDisk(Random(0))
    disk.make_directory("d")
    put(disk, "d/a", OLD)
    put(disk, "d/b", OLD * 2)
    disk.rename("d/a", "d/b")
    assert disk.used == SECTOR
    held = disk.open("d/b")
    disk.remove("d/b")
    held.write(0, [NEW * 3])
    assert disk.used == 0
    put(disk, "d/c", OLD)
    disk.open("d/c").truncate(100)
    assert disk.used == 100


@pytest.mark.parametrize("operation", ["write", "read", "read_cached", "sync", "truncate"])
def test_faults_strike_their_operation_and_path_as_often_as_was_said(operation: str):
    disk = SimDisk(Random(0))
    put(disk, "a.log", OLD)
    put(disk, "b.idx", OLD)
    calls: dict[str, Callable[[str], object]] = {
        "write": lambda path: disk.open(path).write(0, [b"x"]),
        "read": lambda path: disk.open(path).read(0, 1),
        "read_cached": lambda path: disk.open(path).read_cached(0, 1),
        "sync": lambda path: disk.open(path).sync(),
        "truncate": lambda path: disk.open(path).truncate(9),
    }
    disk.fail(operation, ".log", errno.EIO, times=2, after=1)
    for path in ("b.idx", "a.log"):
        calls[operation](path)
    for _ in range(2):
        with pytest.raises(OSError, match="injected"):
            calls[operation]("a.log")
    calls[operation]("a.log")
    disk.fail(operation, "", errno.EIO, times=None)
    for path in ("b.idx", "a.log"):
        with pytest.raises(OSError, match="injected"):
            calls[operation](path)
    disk.heal()
    calls[operation]("a.log")


def test_a_failed_write_leaves_any_part_of_itself():
    found = set()
    for disk in disks(60):
        put(disk, "a", b"---")
        disk.fail("write", "a", errno.EIO)
        with pytest.raises(OSError, match="injected"):
            disk.open("a").write(0, [b"x", b"xx"])
        found.add(content(disk, "a"))
    assert found == {b"---", b"x--", b"xx-", b"xxx"}


def test_a_flipped_bit_is_read_and_stays():
    disk = SimDisk(Random(0))
    put(disk, "a", b"\x00\x00")
    disk.flip_bit("a", 1, 3)
    assert content(disk, "a") == b"\x00\x08"
    disk.power_loss()
    assert content(disk, "a") == b"\x00\x08"
    with pytest.raises(IndexError):
        disk.flip_bit("a", 2)


# --- the process ends in the middle ------------------------------------------------------------


def replaced(disk: SimDisk) -> None:
    disk.replace("a", NEW)


def test_a_process_may_end_between_any_two_operations_of_one_call():
    found: dict[int, set[tuple[tuple[str, ...], bytes]]] = {}
    for operations in range(7):
        for seed in range(40):
            disk = SimDisk(Random(seed))
            put(disk, "a", OLD)
            ends: list[str] = []
            disk.cut_after(operations, partial(ends.append, "now"))
            replaced(disk)
            assert ends == (["now"] if operations <= 5 else [])
            assert content(disk, "a") == NEW, "whoever runs on sees its own doing"
            disk.power_loss()
            found.setdefault(operations, set()).add((tuple(disk.list("")), content(disk, "a")))
    assert found[0] == {(("a",), OLD)}
    assert (("a", "a.0.tmp"), OLD) in found[3]
    assert found[5] == {(("a",), OLD), (("a", "a.0.tmp"), OLD), (("a",), NEW)}
    assert found[6] == {(("a",), NEW)}


def test_what_a_killed_process_did_after_its_end_has_not_been():
    disk = SimDisk(Random(0))
    put(disk, "a", OLD)
    file = disk.open("a")
    disk.cut_after(1, lambda: None)
    file.write(0, [b"x"])
    file.write(1, [b"y"])
    file.sync()
    disk.replace("b", NEW)
    disk.kill()
    assert content(disk, "a") == b"x" + OLD[1:]
    assert disk.list("") == ["a"]
    assert disk.used == SECTOR
    disk.kill()
    disk.replace("b", NEW)
    disk.power_loss()
    assert content(disk, "b") == NEW
