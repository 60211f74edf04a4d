"""Frames claim no more than the set has confirmed, and under `async` several syncs less."""

from harness.log_world import World, append
from penstock.base.ids import Position
from penstock.frames.claim import ASYNC_SYNCS, Claim
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import give_run, member, open_member, take_run


def test_a_member_claims_what_is_confirmed_and_flushed():
    claim = Claim(is_sync_policy=True)
    claim.start(Position(100))
    claim.limit_to(Position(50))
    assert claim.position == 50
    claim.limit_to(Position(500))
    assert claim.position == 100
    claim.flushed(Position(400))
    assert claim.position == 400


def test_under_async_the_claim_lags_by_several_syncs():
    claim = Claim(is_sync_policy=False)
    claim.start(Position(0))
    for number in range(1, 3 * ASYNC_SYNCS):
        claim.flushed(Position(number))
        assert claim.position == max(0, number - ASYNC_SYNCS)


def test_a_slave_in_step_takes_every_run_at_once_also_while_it_syncs():
    world, _, master, partition = member()
    slave_world = World()
    slave = open_member(slave_world, FaultyDisk())
    give_run(slave_world, slave, take_run(world, master, 0))
    for number in range(30):
        append(master, partition, size=300, fill=number)
        world.run()  # the master's sync is over, the slave's has not begun
        run = take_run(world, master, slave.end_position)
        assert slave.append_run(run) == len(run.data)
        if number % 3 == 2:
            slave_world.run()
            master.note_confirmed(slave.flushed_position)


def test_what_the_set_confirms_is_claimed_by_the_frames_that_follow():
    world, _, master, partition = member(10)
    assert master.writer.claim.position < master.flushed_position
    confirmed = master.flushed_position
    append(master, partition)
    world.run()
    master.note_confirmed(confirmed)
    assert master.writer.claim.position == confirmed < master.flushed_position
