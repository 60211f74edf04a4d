"""What groups take in memory is known exactly, bounded, and given back."""

from penstock.groups.classic.group import PENDING_BYTES
from penstock.groups.classic.member import MEMBER_OVERHEAD_BYTES
from penstock.groups.group import GROUP_OVERHEAD_BYTES
from penstock.protocol.error_codes import ErrorCode
from tests.groups.world import DELAY_MS, GROUP, PARTITIONS, SESSION_MS, World, only

BIG = (("range", bytes(60_000)),)


def pinned(world: World) -> int:
    return world.coordinator.pinned_bytes


def recounted(world: World) -> int:
    groups = [world.classic(group_id) for group_id in world.coordinator._table.groups]
    return sum(
        GROUP_OVERHEAD_BYTES
        + len(group.group_id)
        + PENDING_BYTES * len(group.pending)
        + sum(member.size_bytes for member in group.members.values())
        for group in groups
    )


def test_a_member_counts_with_all_that_its_client_sent() -> None:
    world = World()
    world.join(protocols=BIG, client="c")
    (member,) = world.classic().members.values()
    of_member = MEMBER_OVERHEAD_BYTES + len(member.member_id) + len("c") + len("range") + 60_000
    assert pinned(world) == GROUP_OVERHEAD_BYTES + len(GROUP) + of_member


def test_what_is_pinned_follows_every_change_and_ends_at_nothing() -> None:
    world = World()
    first, second = world.stable(2, protocols=BIG)
    assert pinned(world) == recounted(world) > 120_000
    world.join(first.member_id, protocols=(("range", b"less"),))
    assert pinned(world) == recounted(world) < 70_000
    world.join(second.member_id)
    world.join(id_required=True)
    assert pinned(world) == recounted(world)
    world.restart()
    assert pinned(world) == recounted(world)
    for partition in range(PARTITIONS):
        world.coordinator.runtime.unload(partition)
    assert pinned(world) == 0


def test_a_static_member_that_comes_back_counts_once() -> None:
    world = World()
    world.stable(1, instance="i")
    world.join(instance="i", client="another name", protocols=BIG)
    assert pinned(world) == recounted(world) > 60_000


def test_members_that_go_give_back_what_they_took() -> None:
    world = World()
    before = pinned(world)
    (member,) = world.stable(1, protocols=BIG)
    world.leave((member.member_id, None))
    assert pinned(world) == recounted(world) < 10_000
    world.pass_ms(world.config.expiry_check_interval_ms + 1)
    assert pinned(world) == before == 0


def test_above_the_bound_newcomers_are_put_off_and_members_go_on() -> None:
    world = World(members_bytes_max=200_000)
    first, second = world.stable(2, protocols=BIG)
    third = world.join(protocols=BIG, group="another")
    assert third == []
    put_off = only(world.join(protocols=BIG, group="a third"))
    assert put_off.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.coordinator.counters.joins_put_off == 1
    assert world.beat(second.member_id, 1) is ErrorCode.NONE
    assert world.join(first.member_id, protocols=BIG) == []
    world.leave((second.member_id, None))
    assert world.join(protocols=BIG, group="a third") == []


def test_ids_given_out_count_too() -> None:
    world = World()
    for _ in range(10):
        world.join(id_required=True)
    assert pinned(world) == recounted(world) == GROUP_OVERHEAD_BYTES + len(GROUP) + 5_120
    world.pass_ms(SESSION_MS)
    assert pinned(world) == 0


def test_newcomers_whose_connection_is_closed_are_gone_within_a_second() -> None:
    world = World(initial_rebalance_delay_ms=60_000)
    for number in range(20):
        world.join(protocols=BIG, group=f"g-{number}", is_gone=lambda: True)
    staying = world.join(protocols=BIG, group="staying")
    assert pinned(world) > 21 * 60_000
    world.pass_ms(1_000)
    assert pinned(world) == recounted(world) < 2 * 60_000 + 20 * 4_000
    world.pass_ms(60_000)
    assert only(staying).error is ErrorCode.NONE


def test_a_member_that_has_joined_is_not_asked_for_its_connection() -> None:
    world = World()
    answers = world.join(is_gone=lambda: bool(answers))
    world.pass_ms(DELAY_MS + 2_000)
    assert only(answers).error is ErrorCode.NONE
    assert world.beat(only(answers).member_id, 1) is ErrorCode.NONE
    assert world.coordinator._context.newcomers == {}


def test_a_newcomer_that_comes_again_by_another_connection_stays() -> None:
    world = World(initial_rebalance_delay_ms=10_000)
    given = only(world.join(id_required=True)).member_id
    world.join(given, is_gone=lambda: True)
    again = world.join(given)
    world.pass_ms(25_000)
    assert only(again).error is ErrorCode.NONE
