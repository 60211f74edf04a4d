"""What committed positions take in memory is known, bounded, fair to members, and given back."""

from typing import Any

from penstock.coordinator.unwritten import Unwritten
from penstock.groups.group import GROUP_OVERHEAD_BYTES
from penstock.groups.offsets.positions import POSITION_BYTES
from penstock.protocol.error_codes import ErrorCode
from tests.groups.world import GROUP, PARTITIONS, World, only

EACH = POSITION_BYTES + "".__sizeof__()
"""A position without metadata."""
OK, TOO_LARGE = ErrorCode.NONE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE


def offsets(count: int, first: int = 0) -> dict[tuple[str, int], int]:
    return {("t", first + one): 7 for one in range(count)}


def errors(world: World, count: int, *, first: int = 0, **how: Any) -> list[ErrorCode]:
    """What a commit of so many new positions hears, one by one."""
    (answer,) = world.commit(offsets(count, first), **how)
    return list(answer.values())


def pinned(world: World) -> int:
    return world.coordinator._table.pinned.offsets


def recounted(world: World) -> int:
    groups = world.coordinator._table.groups.values()
    each = [value for group in groups for value in group.offsets.values.values()]
    return sum(POSITION_BYTES + one.metadata.__sizeof__() for one in each)


def test_positions_count_with_their_metadata_by_its_real_size() -> None:
    world = World()
    errors(world, 2)
    assert pinned(world) == 2 * EACH
    errors(world, 1, metadata="é")
    assert pinned(world) == recounted(world) < 2 * EACH + 100
    errors(world, 1, metadata="\U0001f642" + "x" * 4_000)
    assert pinned(world) == recounted(world) > 2 * EACH + 16_000
    errors(world, 1)
    assert pinned(world) == 2 * EACH
    assert world.coordinator.pinned_bytes == 2 * EACH + GROUP_OVERHEAD_BYTES + len(GROUP)


def test_what_is_being_written_counts_beside_what_it_replaces() -> None:
    world = World()
    errors(world, 1)
    world.journal.is_prompt = False
    world.commit(offsets(2), metadata="m" * 100)
    sums = world.coordinator._table.pinned
    assert (sums.offsets, sums.in_flight) == (EACH, 2 * (EACH + 100))
    world.commit(offsets(1), metadata="m" * 200)
    world.journal.confirm(1)
    assert (sums.offsets, sums.in_flight) == (2 * (EACH + 100), EACH + 200)
    world.journal.fail(Unwritten.OVERTAKEN)
    assert (sums.offsets, sums.in_flight) == (2 * (EACH + 100), 0)


def test_of_two_writes_the_later_one_counts_whichever_is_confirmed_first() -> None:
    world = World()
    world.journal.is_prompt = False
    world.commit(offsets(1), metadata="m" * 100)
    world.commit(offsets(1), metadata="m" * 200)
    world.journal.waiting.rotate(1)
    world.journal.confirm()
    sums = world.coordinator._table.pinned
    assert (sums.offsets, sums.in_flight) == (EACH + 200, 0)


def test_positions_that_go_give_back_what_they_took() -> None:
    world = World()
    errors(world, 3)
    world.restart()
    assert pinned(world) == 3 * EACH
    world.coordinator.on_topics_deleted({"t": bytes(16)})
    assert pinned(world) == 0
    errors(world, 3)
    for partition in range(PARTITIONS):
        world.coordinator.runtime.unload(partition)
    assert pinned(world) == world.coordinator.pinned_bytes == 0


def test_one_group_takes_half_of_the_bound_and_its_positions_can_be_committed_on() -> None:
    world = World(offsets_bytes_max=20 * EACH)
    assert errors(world, 12) == [OK] * 10 + [TOO_LARGE] * 2
    assert errors(world, 11) == [OK] * 10 + [TOO_LARGE]
    assert errors(world, 1, metadata="more") == [TOO_LARGE]
    assert world.all_committed() == offsets(10)
    assert errors(world, 1, group="another") == [OK]


def test_groups_without_members_leave_a_quarter_to_those_that_have_some() -> None:
    world = World(offsets_bytes_max=40 * EACH)
    taken = [errors(world, 10, group=f"g-{one}").count(OK) for one in range(5)]
    assert taken == [10, 10, 10, 0, 0]
    (member,) = world.stable(1)
    of_member: dict[str, Any] = {"member_id": member.member_id, "generation": member.generation}
    assert errors(world, 11, **of_member) == [OK] * 10 + [TOO_LARGE]


def test_what_was_loaded_beyond_the_bound_stays_and_keeps_nobody_from_joining() -> None:
    world = World()
    errors(world, 10)
    world.config = type(world.config)(
        partition_count=PARTITIONS, offsets_bytes_max=5 * EACH, members_bytes_max=40_000
    )
    world.restart()
    assert errors(world, 11) == [OK] * 10 + [TOO_LARGE]
    assert world.join(protocols=(("range", bytes(20_000)),), group="a third") == []
    put_off = only(world.join(protocols=(("range", bytes(20_000)),), group="a fourth"))
    assert put_off.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_writes_under_way_have_a_bound_too() -> None:
    world = World(offsets_bytes_max=40 * EACH)
    errors(world, 8)
    world.journal.is_prompt = False
    for _ in range(2):
        assert world.commit(offsets(8)) == []
    assert errors(world, 8) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 8
    world.journal.confirm()
    assert world.commit(offsets(8)) == []


def test_groups_that_commits_make_have_half_of_the_room_for_groups() -> None:
    world = World(members_bytes_max=10 * GROUP_OVERHEAD_BYTES)
    heard = [*(errors(world, 1, group=f"g-{one}")[0] for one in range(6))]
    assert heard == [OK] * 4 + [ErrorCode.POLICY_VIOLATION] * 2
    assert errors(world, 1, group="g-0") == [OK]
    assert world.join(group="with a member") == []
