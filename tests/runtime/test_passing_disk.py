"""A disk for work that reads much once: it leaves the page cache as it was."""

import os
from pathlib import Path

import pytest

from penstock.runtime.io.passing import SYNC_BYTES, PassingDisk, PassingHandle, drop

SIZE = 4 << 20


def is_cached(disk: PassingDisk, path: Path) -> bool:
    """Whether most of a file is in the page cache."""
    file = PassingDisk(path.parent).open(path.name)
    assert isinstance(file, PassingHandle)
    try:
        return file.is_cached()
    finally:
        file.close()


@pytest.fixture
def disk(tmp_path: Path) -> PassingDisk:
    return PassingDisk(tmp_path)


@pytest.fixture
def path(tmp_path: Path, disk: PassingDisk) -> Path:
    """A file on the disk and not in the page cache."""
    path = tmp_path / "closed.log"
    path.write_bytes(os.urandom(SIZE))
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    drop(descriptor)
    os.close(descriptor)
    if is_cached(disk, path):
        pytest.skip("this file system keeps files in memory")
    return path


def read_all(disk: PassingDisk, path: Path) -> bytes:
    file = disk.open(path.name)
    try:
        return b"".join(bytes(file.read(at, 100_000)) for at in range(0, SIZE, 100_000))
    finally:
        file.close()


def test_a_file_that_nobody_reads_is_dropped_when_the_work_is_done(
    disk: PassingDisk, path: Path
) -> None:
    assert read_all(disk, path) == path.read_bytes()
    assert read_all(disk, path), "opened again, as for each partition"
    assert is_cached(disk, path)
    disk.let_go()
    assert not is_cached(disk, path)


def test_a_file_that_others_read_stays(disk: PassingDisk, path: Path) -> None:
    path.read_bytes()
    read_all(disk, path)
    disk.let_go()
    assert is_cached(disk, path)


def test_a_file_that_is_gone_meanwhile_is_let_go_of(disk: PassingDisk, path: Path) -> None:
    read_all(disk, path)
    path.unlink()
    disk.let_go()


def test_what_is_written_is_synced_on_the_way_and_does_not_stay(
    disk: PassingDisk, path: Path, tmp_path: Path
) -> None:
    file = disk.open("made.tmp", create=True)
    block = os.urandom(SYNC_BYTES // 4)
    for number in range(6):
        file.write(number * len(block), [block])
    assert disk.stats.sync_times.count == 1
    file.sync()
    assert disk.stats.sync_times.count == 2
    assert file.size() == 6 * len(block)
    file.close()
    assert (tmp_path / "made.tmp").read_bytes() == block * 6
    descriptor = os.open(tmp_path / "made.tmp", os.O_RDONLY)
    drop(descriptor)
    os.close(descriptor)
