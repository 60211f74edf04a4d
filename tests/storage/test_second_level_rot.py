"""A flipped bit in any byte of an extent file or manifest: scrubs find it, no read serves it."""

from collections.abc import Iterator
from random import Random

import pytest

from harness.log_world import DIRECTORY, SMALL, World, append, open_log, read_chunk
from penstock.base.ids import LeaderEpoch, Offset
from penstock.extents.check import check_extent_file, checking
from penstock.extents.errors import CorruptExtentFile
from penstock.storage.config import Retention
from penstock.storage.errors import CorruptSecondLevel, ExtentDamaged
from penstock.storage.second_level.files import read_manifest
from penstock.storage.second_level.manifest import extent_path, manifest_path
from penstock.storage.second_level.reading import ExtentPlace
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.repairs import scrub_all
from tests.storage.second_level import closed_segments, split, take_over
from tests.storage.test_second_level_copies import Master
from tests.storage.test_stores import KEY, OTHER

PATH = extent_path(DIRECTORY, 0)
MANIFEST = manifest_path(DIRECTORY)


class Small:
    """A log whose one extent file is small enough to flip every byte of it."""

    def __init__(self) -> None:
        self.world, self.disk = World(), FaultyDisk()
        log = self.log = open_log(self.world, self.disk)
        for number in range(3):
            append(log, log.open_partition(KEY), size=100, fill=number)
        append(log, log.open_partition(OTHER), size=80)
        log.begin_epoch(LeaderEpoch(2))
        append(log, log.open_partition(KEY), size=90, records=2)
        while not closed_segments(log):
            append(log, log.open_partition(OTHER), size=8_000)
            self.world.run()
        for key in (KEY, OTHER):
            kept = log.open_partition(key)
            log.delete_records(kept, Offset(0))
        self.wanted = {key: list(self.batches(key)) for key in (KEY,)}
        second = log.parts.second_level
        assert split(self.disk, second, closed_segments(log), (KEY,))
        assert take_over(self.world, second) is None
        nothing, keep = Retention(0, -1), Retention(-1, -1)
        for _ in range(2):
            log.apply_retention(0, lambda key: keep if key == KEY else nothing)
            self.world.run()
        assert log.open_partition(KEY).commit_log_start_offset == 5

    def batches(self, key: object) -> Iterator[bytes]:
        """Yield the batches of a partition as they are read, one by one."""
        partition = self.log.partitions[key]  # type: ignore[index]
        offset = partition.log_start_offset
        while offset < partition.log_end_offset:
            chunk = read_chunk(self.world, self.log, partition, offset, 1)
            yield bytes(chunk.data)
            offset = Offset(chunk.first_offset + (2 if len(chunk.data) == 90 else 1))

    def is_served_right_or_refused(self) -> bool:
        """Whether whatever is read is what was written."""
        found: list[bytes] = []
        try:
            for batch in self.batches(KEY):
                found.append(batch)  # noqa: PERF402  until one is refused
        except ExtentDamaged:
            return found == self.wanted[KEY][: len(found)]
        return found == self.wanted[KEY]


def test_a_flipped_bit_in_any_byte_of_an_extent_file_is_found_and_never_served() -> None:
    small, random = Small(), Random(3)
    damage = small.log.splitting.damage
    assert small.is_served_right_or_refused()
    assert sum(found.damaged for found in scrub_all(small.world, small.log)) == 0
    data = small.disk.names[PATH].data
    assert len(data) < 1_000
    refused = 0
    for at in range(len(data)):
        bit = 1 << random.randrange(8)
        data[at] ^= bit
        assert small.is_served_right_or_refused(), at
        refused += bool(damage.files)
        damage.forget(0)
        slices = scrub_all(small.world, small.log)
        assert sum(found.damaged for found in slices) == 1, at
        assert list(damage.files) == [0], at
        data[at] ^= bit
        damage.forget(0)
    assert refused > 400, "batches, index and notes are read"
    assert small.is_served_right_or_refused()


def test_a_file_that_is_cut_or_longer_is_found() -> None:
    small = Small()
    damage = small.log.splitting.damage
    data = small.disk.names[PATH].data
    whole = bytes(data)
    for changed in (*(whole[:end] for end in range(0, len(whole), 7)), whole + b"\0"):
        data[:] = changed
        assert sum(found.damaged for found in scrub_all(small.world, small.log)) == 1
        damage.forget(0)
        data[:] = whole


def test_another_file_of_that_name_is_found() -> None:
    # It is whole in itself, and not the one that the manifest names.
    small, other = Small(), Small()
    append(other.log, other.log.open_partition(KEY), size=77)
    second = other.log.parts.second_level
    while not closed_segments(other.log):
        append(other.log, other.log.open_partition(OTHER), size=8_000)
        other.world.run()
    assert split(other.disk, second, closed_segments(other.log), (KEY,))
    small.disk.names[PATH].data[:] = other.disk.names[f"{DIRECTORY}/second/made.tmp"].data
    scrub_all(small.world, small.log)
    assert "the manifest names" in small.log.splitting.damage.files[0]


def test_a_flipped_bit_in_any_byte_of_a_manifest_is_mended_from_memory_by_a_scrub() -> None:
    small = Small()
    whole = bytes(small.disk.names[MANIFEST].data)
    for at in range(len(whole)):
        small.disk.names[MANIFEST].data[at] ^= 1 << at % 8
        assert sum(found.rebuilt for found in scrub_all(small.world, small.log)) == 1, at
        assert bytes(small.disk.names[MANIFEST].data) == whole
    small.disk.remove(MANIFEST)
    assert sum(found.rebuilt for found in scrub_all(small.world, small.log)) == 1
    assert bytes(small.disk.names[MANIFEST].data) == whole
    assert sum(found.rebuilt for found in scrub_all(small.world, small.log)) == 0


def test_a_flipped_bit_in_any_byte_of_a_manifest_refuses_a_start() -> None:
    small = Small()
    small.log.close()
    data = small.disk.names[MANIFEST].data
    for at in range(len(data)):
        data[at] ^= 1 << at % 8
        with pytest.raises(CorruptSecondLevel):
            open_log(World(), small.disk)
        data[at] ^= 1 << at % 8


def test_a_start_without_the_manifest_removes_none_of_the_files_that_it_named() -> None:
    master = Master()
    master.log.close()
    files = master.disk.list(f"{DIRECTORY}/second")
    master.disk.remove(MANIFEST)
    with pytest.raises(CorruptSecondLevel, match="it is missing"):
        open_log(World(), master.disk)
    assert master.disk.list(f"{DIRECTORY}/second") == files[:-1]


def test_a_start_with_any_flipped_bit_serves_right_bytes_or_refuses() -> None:
    small, random = Small(), Random(5)
    small.log.close()
    data = small.disk.names[PATH].data
    refusals = 0
    for at in range(0, len(data), 5):
        bit = 1 << random.randrange(8)
        data[at] ^= bit
        small.world = World()
        try:
            small.log = open_log(small.world, small.disk, SMALL)
        except CorruptSecondLevel:
            refusals += 1
        else:
            assert small.is_served_right_or_refused(), at
            small.log.close()
        data[at] ^= bit
    assert refusals > 20, "header, directory and tail are read"


def test_the_scrub_reads_a_file_a_slice_at_a_time_and_goes_on_behind_a_damaged_one() -> None:
    master = Master()
    master.disk.names[extent_path(DIRECTORY, 1)].data[9] ^= 1
    slices = scrub_all(master.world, master.log, max_bytes=5_000)
    size = sum(file.size_bytes for file in read_manifest(ExtentPlace(master.disk, DIRECTORY)).files)
    assert sum(found.damaged for found in slices) == 1
    assert max(found.read_bytes for found in slices) < 70_000, "one block"
    assert sum(found.read_bytes for found in slices) > size // 2
    again = scrub_all(master.world, master.log)
    assert sum(found.damaged for found in again) == 0, "what is known is not told again"


def test_every_byte_is_counted_once_by_a_check() -> None:
    small = Small()
    data = memoryview(bytes(small.disk.names[PATH].data))

    def read(at: int, size: int) -> memoryview:
        return data[at : at + size]

    assert sum(checking(PATH, len(data), read)) == len(data)
    check_extent_file(PATH, len(data), read)
    with pytest.raises(CorruptExtentFile):
        check_extent_file(PATH, len(data) + 1, read)
