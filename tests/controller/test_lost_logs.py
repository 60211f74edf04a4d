"""A member whose log is another one than the registered has lost what it acknowledged."""

from penstock.controller.image import NO_MASTER
from tests.controller.world import Log, World


def test_a_log_that_nobody_has_registered_is_not_elected_however_alone_it_is() -> None:
    # Its process may answer before it has registered what it found on its new disk.
    world = World()
    world.write(50)
    world.brokers[2].logs[1] = Log("of-another-disk")
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
    world.brokers[2].logs[1] = Log("of-another-disk", epoch=9, end=longest)
    world.brokers[1].kill()
    world.run(100)
    assert world.replica_set().master == 3
