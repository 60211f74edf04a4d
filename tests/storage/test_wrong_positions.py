"""Runs that are read from where no frame begins: whose mistake it is."""

import pytest

from harness.log_world import DIRECTORY
from penstock.storage.errors import CorruptFrame, NoFrameBegins
from penstock.storage.replicate import run_read
from penstock.storage.replicate.blame import blame
from tests.storage.replicas import Pair, take_run


@pytest.mark.parametrize("is_cold", [False, True])
def test_damage_is_found_whatever_position_it_is_read_from(is_cold):
    pair = Pair()
    starts = []
    for number in range(6):
        starts.append(pair.master.end_position)
        pair.append(size=500, fill=number)
    pair.world.run()
    told: list[int] = []
    pair.master.on_damage = lambda position, _: told.append(position)
    pair.master_disk.flip_bit(f"{DIRECTORY}/log/{0:020d}.log", starts[3] + 5)  # its length
    pair.master_disk.is_cold = is_cold
    for position in (starts[3], starts[3] + 9, starts[4] + 9):
        with pytest.raises(CorruptFrame) as refused:
            take_run(pair.world, pair.master, position)
        assert refused.value.position == starts[3]
    assert told == [starts[3]] * 3
    with pytest.raises(NoFrameBegins):
        take_run(pair.world, pair.master, starts[2] + 9)
    assert len(told) == 3


def test_a_position_that_was_wrong_once_has_its_segment_scanned_no_more(monkeypatch):
    pair = Pair()
    pair.append(10, size=500)
    scanned: list[int] = []

    def noted(file, base, end, error):
        scanned.append(error.position)
        return blame(file, base, end, error)

    monkeypatch.setattr(run_read, "blame", noted)
    for position in (61, 700, 61, 700, 61):
        with pytest.raises(NoFrameBegins):
            take_run(pair.world, pair.master, position)
    assert scanned == [61, 700]
