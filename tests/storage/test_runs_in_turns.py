"""A slave takes a long run over several turns of the loop."""

import pytest

from harness.log_world import append
from penstock.frames import run_check
from penstock.storage.errors import BadRun
from tests.storage.replicas import QUIET, Pair, take_run


def count_turns(pair: Pair, run) -> int:
    """Give the slave a run; nothing but the loop turns in between. Return how often it was told."""
    told: list[int] = []
    pair.slave.on_append_ready = lambda: told.append(1)
    rest = run.after(pair.slave.append_run(run))
    while rest.data:
        before = len(told)
        pair.world.turn()
        assert len(told) == before + 1, "nothing else would let it go on"
        rest = rest.after(pair.slave.append_run(rest))
    return len(told)


def test_a_long_run_is_taken_over_several_turns_of_the_loop(monkeypatch):
    monkeypatch.setattr(run_check, "FRAMES_MAX", 3)
    pair = Pair(QUIET)
    for _ in range(11):
        append(pair.master, pair.partition)
    pair.world.run()  # one sync for all: no frame waits for one of the slave
    turns = count_turns(pair, take_run(pair.world, pair.master, 0))
    assert turns == 3, "the frame of the epoch, and 11 batches"
    pair.world.run()
    pair.check()


@pytest.mark.parametrize(("bytes_max", "turns"), [(1, 5), (1500, 2), (1 << 20, 0)])
def test_a_turn_takes_one_frame_however_large_and_no_more_than_its_bytes(
    monkeypatch, bytes_max, turns
):
    monkeypatch.setattr(run_check, "BYTES_MAX", bytes_max)
    pair = Pair(QUIET)
    for _ in range(5):
        append(pair.master, pair.partition, size=1000)
    pair.world.run()
    assert count_turns(pair, take_run(pair.world, pair.master, 0)) == turns
    pair.world.run()
    pair.check()


def test_damage_behind_what_a_turn_takes_is_refused_when_it_is_reached(monkeypatch):
    monkeypatch.setattr(run_check, "FRAMES_MAX", 3)
    pair = Pair(QUIET)
    for _ in range(5):
        append(pair.master, pair.partition)
    pair.world.run()
    run = take_run(pair.world, pair.master, 0)
    damaged = bytearray(run.data)
    damaged[-1] ^= 1
    run = run._replace(data=memoryview(damaged))
    taken = pair.slave.append_run(run)
    assert 0 < taken < len(run.data)
    with pytest.raises(BadRun):
        pair.slave.append_run(run.after(taken))
    assert pair.slave.end_position == taken


def test_a_run_that_is_taken_whole_asks_for_nothing_more():
    pair = Pair(QUIET)
    for _ in range(5):
        append(pair.master, pair.partition)
    pair.world.run()
    told: list[int] = []
    pair.slave.on_append_ready = lambda: told.append(1)
    run = take_run(pair.world, pair.master, 0)
    assert pair.slave.append_run(run) == len(run.data)
    pair.world.run()
    assert told == []
    pair.check()


@pytest.mark.parametrize("synced", range(1, 8))
def test_a_slave_goes_by_claims_where_a_run_needs_more_syncs_than_they_are_worth(synced):
    pair = Pair(QUIET)
    for _ in range(synced):
        append(pair.master, pair.partition)
        pair.world.run()
    noted: list[str] = []
    pair.slave_disk.on_operation = lambda operation, path: noted.extend(
        [path] if operation == "replace" and path.endswith("catching-up") else []
    )
    run = take_run(pair.world, pair.master, 0)
    flushed = pair.slave.flushed_position
    rest = run.after(pair.slave.append_run(run))
    pair.world.run()
    syncs = run_check.count_syncs(rest, flushed) if rest.data else 0
    assert bool(noted) is (syncs > run_check.SYNCS_MAX)
