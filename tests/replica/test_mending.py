"""What a member that has damage in its log has cut away, by what was found and when."""

import asyncio
from collections.abc import Callable

from harness.ids import as_brokers
from harness.log_world import World, append, open_log, partition_number
from penstock.base.ids import BrokerId, Position, ReplicaSetId
from penstock.base.ports import Scheduler
from penstock.controller.metadata.image import ClusterImage, ReplicaSetImage
from penstock.controller.metadata.records import BrokerRegistered, ReplicaSetCreated
from penstock.controller.metadata.replay import replay
from penstock.replica.mending import STEP_ASIDE_MS, DamageStats, Mending, Others
from penstock.replica.replica_set import ReplicaSetMember
from tests.storage.faulty_disk import FaultyDisk


class Logs:
    """Notes where logs are cut."""

    def __init__(self) -> None:
        self.cut_at: list[int] = []

    async def repair(self, replica_set_id: ReplicaSetId, position: Position) -> Position:
        self.cut_at.append(position)
        return position


def image_of(*members: int) -> ReplicaSetImage:
    image = ClusterImage()
    replay(image, [
        *(
            BrokerRegistered(broker_id=BrokerId(member), host="h", port=1, rack=None)
            for member in members
        ),
        ReplicaSetCreated(
            replica_set_id=ReplicaSetId(1), replicas=as_brokers(*members),
            policy_kind="all", policy_required=1, policy_minimum=1,
        ),
    ])  # fmt: skip
    return image.replica_sets[ReplicaSetId(1)]


class Led:
    """What the master knows of the others."""

    has_other_in_step = False


class Set:
    """A set of three with a log that its member here can not open."""

    master_set: Others | None = None
    is_failover_enabled = True
    replica_set_id = ReplicaSetId(1)

    def __init__(self, *members: int) -> None:
        self.member: ReplicaSetMember | None = None
        self.logs = Logs()
        self.scheduler: Scheduler = World()
        self.image: ReplicaSetImage | None = image_of(*members or (1, 2, 3))
        self.lay_down: Callable[[], None] = lambda: None
        self.on_close: Callable[[], None] = lambda: None

    async def close_log(self) -> None:
        self.on_close()


def test_a_log_is_cut_below_the_lowest_damage_wherever_it_was_found_first() -> None:
    for found in ((500, 200, 900), (200, 500, 900)):
        one = Set()
        mending = Mending(one, DamageStats())
        for position in found:
            mending.found_at_start(Position(position), "a flipped bit")
        assert asyncio.run(mending.mend())
        assert one.logs.cut_at == [200]
        assert not mending.is_pending


def test_damage_at_the_end_of_a_log_was_cut_away_already() -> None:
    world, one = World(), Set()
    log = open_log(world, FaultyDisk())
    append(log, log.open_partition(partition_number(0)), size=500)
    world.run()
    one.member = ReplicaSetMember(one.replica_set_id, BrokerId(1), log, world.call_soon)
    one.scheduler = world
    mending = Mending(one, DamageStats())
    mending.watch(log, lambda: None)
    log.on_damage(log.end_position, "read as it was cut")
    world.run()
    assert not mending.is_pending
    log.on_damage(log.end_position - 1, "a flipped bit")
    world.run()
    assert mending.is_pending


def test_damage_that_is_found_while_the_log_closes_is_cut_too() -> None:
    one = Set()
    mending = Mending(one, DamageStats())
    mending.found_at_start(Position(500), "a flipped bit")
    one.on_close = lambda: mending.found_at_start(Position(200), "another one")
    assert asyncio.run(mending.mend())
    assert one.logs.cut_at == [200]


def test_damage_in_the_only_copy_is_repaired_when_another_member_has_become_able_to_lead() -> None:
    world, one, laid_down = World(), Set(1), []
    log = open_log(world, FaultyDisk())
    append(log, log.open_partition(partition_number(0)), size=500)
    world.run()
    one.member = ReplicaSetMember(one.replica_set_id, BrokerId(1), log, world.call_soon)
    one.scheduler, one.lay_down = world, lambda: laid_down.append(True)
    one.master_set = led = Led()
    mending = Mending(one, DamageStats())
    mending.watch(log, lambda: None)
    log.on_damage(0, "a flipped bit")
    world.advance(STEP_ASIDE_MS)
    assert not laid_down
    one.image = image_of(1, 2)
    world.advance(STEP_ASIDE_MS)
    assert not laid_down, "the other member has nothing yet"
    led.has_other_in_step = True
    world.advance(STEP_ASIDE_MS)
    assert laid_down == [True]
    assert mending.is_aside(one.image.leader_epoch)


def test_a_log_that_was_cut_below_its_damage_is_scrubbed_when_it_is_open_again_and_once() -> None:
    world, one, scrubbed = World(), Set(), []
    mending = Mending(one, DamageStats())
    log = open_log(world, FaultyDisk())
    mending.watch(log, lambda: scrubbed.append("before"))
    mending.found_at_start(Position(500), "a flipped bit")
    assert asyncio.run(mending.mend())
    mending.watch(log, lambda: scrubbed.append("after a cut"))
    mending.watch(log, lambda: scrubbed.append("later"))
    assert scrubbed == ["after a cut"]
