"""A member whose log is another one than the registered has lost what it acknowledged."""

from penstock.controller.metadata.image import NO_MASTER
from tests.controller.world import Log, World


def lose(world: World, broker_id: int, log: Log) -> None:
    """Give a broker another log for set 1, which it has not got round to registering."""
    broker = world.brokers[broker_id]
    broker.look_for_sets = lambda: None  # type: ignore[method-assign]
    broker.logs[1] = log


def test_a_log_that_nobody_has_registered_is_not_elected_however_alone_it_is() -> None:
    # Its process may answer before it has registered what it found on its new disk.
    world = World()
    world.write(50)
    lose(world, 2, Log("of-another-disk"))
    world.brokers[3].kill()
    world.run(100)
    world.brokers[1].kill()
    world.run(3_000)
    assert world.replica_set().master == NO_MASTER
    world.brokers[3].start()
    world.run(3_000)
    assert world.replica_set().master == 3
    world.check_replay()


def test_nor_is_it_with_more_in_it_than_the_others_have() -> None:
    world = World()
    world.write(50)
    longest = world.brokers[3].logs[1].end + 1_000
    lose(world, 2, Log("of-another-disk", epoch=9, end=longest))
    world.brokers[1].kill()
    world.run(100)
    assert world.replica_set().master == 3


def test_a_log_that_has_failed_is_not_elected_in_passing() -> None:
    world = World()
    world.write(50)
    before = world.replica_set().leader_epoch
    world.brokers[2].logs[1].has_failed = True
    world.brokers[1].kill()
    world.run(2_000)
    after = world.replica_set()
    assert (after.master, after.leader_epoch) == (3, before + 1)
