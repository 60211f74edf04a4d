"""Both twins read the same places, and stop at the same one."""

import os
import random

import pytest

from penstock.runtime.io import compiled, gather

TWINS = (compiled.read_places, gather.read_places)


@pytest.fixture
def descriptor(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(random.Random(1).randbytes(300_000))
    opened = os.open(path, os.O_RDONLY)
    try:
        os.preadv(opened, [bytearray(1)], 0, os.RWF_NOWAIT)
    except OSError:
        pytest.skip("this file system has no RWF_NOWAIT")
    yield opened
    os.close(opened)


def take(length):
    return memoryview(bytearray(length))


def test_both_twins_read_what_fits_in_order(descriptor):
    rng = random.Random(2)
    for _ in range(200):
        places = [(rng.randrange(280_000), rng.randrange(20_000)) for _ in range(rng.randrange(9))]
        first = rng.randrange(len(places) + 1)
        room = rng.choice((0, 5_000, 30_000, 200_000))
        found = [read(descriptor, places, first, take, room) for read in TWINS]
        assert found[0] == found[1]
        expected = [os.pread(descriptor, length, position) for position, length in places[first:]]
        assert found[0] == expected[: len(found[0])]
        left = places[first + len(found[0]) :]
        read = sum(map(len, found[0]))
        assert not left or read + left[0][1] > room


def test_both_twins_leave_out_what_is_not_whole_and_all_behind_it(descriptor):
    places = [(0, 10), (299_990, 20), (10, 10)]
    for read in TWINS:
        assert [len(view) for view in read(descriptor, places, 0, take, 1000)] == [10]
        assert read(descriptor, places, 1, take, 1000) == []


def test_both_twins_leave_errors_to_who_knows_what_to_do(descriptor):
    for read in TWINS:
        assert read(-1, [(0, 10)], 0, take, 1000) == []
