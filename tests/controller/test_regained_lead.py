"""A controller that leads again begins anew with what it has waited for: others led meanwhile."""

from tests.controller.world import World


def lose_and_regain(world: World, away_ms: int = 100) -> None:
    world.lead(2)
    world.run(away_ms)
    world.lead(1)


def test_the_delay_of_a_preferred_master_begins_with_the_lead() -> None:
    world = World(controller_count=2, settings={"preferred_master_delay_ms": 30_000})
    world.write(100)
    world.brokers[1].kill()
    world.run(1_000)
    assert world.replica_set().master == 2
    world.brokers[1].start()
    world.run(1_000)
    world.shrink(1, 2, 3)
    world.run(24_000)
    lose_and_regain(world)
    world.run(25_000)
    assert world.replica_set().master == 2, "it has led for less than the delay"
    world.run(10_000)
    assert world.replica_set().master == 1


def test_a_new_set_waits_for_its_members_from_the_beginning_of_the_lead() -> None:
    world = World(controller_count=2, is_started=False, settings={"session_timeout_ms": 5_000})
    for broker in world.brokers.values():
        broker.is_opening = broker.broker_id == 3
        broker.start()
    world.run(4_000)
    (one, *_) = world.image.replica_sets.values()
    assert (one.master, 3 in one.log_ids) == (-1, False)
    lose_and_regain(world)
    world.run(4_000)
    assert world.replica_set().master == -1, "it has led for less than the time of a session"
    world.run(1_500)
    assert world.replica_set().master == 1
