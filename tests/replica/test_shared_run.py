"""One read for all slaves that stand at the same place."""

from dataclasses import dataclass

from harness.log_world import append
from penstock.base.ids import Position
from penstock.frames.run import Run
from penstock.replica.shared_run import SharedRun
from tests.storage.replicas import member


@dataclass
class Standing:
    """Where a slave stands."""

    next_position: Position
    is_streaming: bool = True
    is_checked: bool = False


def read(shared: SharedRun, one: Standing, other: Standing) -> Run:
    run = shared.read(one, [one, other])
    assert isinstance(run, Run)
    return run


def test_slaves_at_one_place_get_the_same_bytes_and_nothing_is_kept_behind_the_last():
    world, _, log, partition = member(3)
    shared = SharedRun(log, 1 << 20)
    first, second = Standing(Position(0)), Standing(Position(0))
    run = read(shared, first, second)
    first.next_position = run.end_position
    assert read(shared, second, first).data is run.data
    assert shared._run is None
    append(log, partition, size=300, fill=1)
    world.run()
    assert read(shared, second, first).data is not run.data


def test_what_was_written_meanwhile_is_read_anew():
    world, _, log, partition = member(3)
    shared = SharedRun(log, 1 << 20)
    first, second = Standing(Position(0)), Standing(Position(0))
    run = read(shared, first, second)
    append(log, partition, size=300, fill=1)
    world.run()
    assert read(shared, second, first).end_position > run.end_position


def test_who_has_its_frames_verified_gets_none_that_were_read_without():
    _, _, log, _ = member(3)
    shared = SharedRun(log, 1 << 20)
    plain, careful = Standing(Position(0)), Standing(Position(0), is_checked=True)
    run = read(shared, plain, careful)
    assert read(shared, careful, plain).data is not run.data
