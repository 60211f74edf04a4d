"""Verify looks into every byte of the second level of a log."""

import pytest

from harness.log_world import DIRECTORY, World, open_log
from penstock.inspection.findings import Finding, Severity
from penstock.inspection.verify import LogCheck
from penstock.storage.second_level.manifest import extent_path, manifest_path
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.second_level import closed_segments, opened, split, take_over
from tests.storage.test_stores import KEY, OTHER, fill


@pytest.fixture
def disk() -> FaultyDisk:
    """A closed log with a second level of one file."""
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    fill(world, log)
    second = opened(world, disk)
    assert split(disk, second, closed_segments(log), (KEY, OTHER))
    assert take_over(world, second) is None
    log.close()
    world.run()
    return disk


def errors(disk: FaultyDisk) -> list[Finding]:
    found = LogCheck(disk, DIRECTORY).findings()
    return [each for each in found if each.severity is Severity.ERROR]


def test_a_sound_second_level_has_no_findings(disk: FaultyDisk) -> None:
    assert errors(disk) == []


@pytest.mark.parametrize("at", [3, 70, 5_000, 90_000])
def test_a_flipped_bit_in_an_extent_file_is_an_error(disk: FaultyDisk, at: int) -> None:
    path = extent_path(DIRECTORY, 0)
    disk.names[path].data[at] ^= 2
    (found,) = errors(disk)
    assert found.path == path
    assert "is damaged at byte" in found.message


def test_a_missing_file_and_a_damaged_manifest_are_errors(disk: FaultyDisk) -> None:
    disk.remove(extent_path(DIRECTORY, 0))
    (found,) = errors(disk)
    assert found.message == "the extent file is missing"
    disk.names[manifest_path(DIRECTORY)].data[9] ^= 1
    (found,) = errors(disk)
    assert found.path == manifest_path(DIRECTORY)
